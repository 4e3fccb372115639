"""The command `privbench audit`: files of outputs to a page."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from harness.cli.audit.findings import show
from harness.cli.options import JsonOption, WideOption
from workloads.errors import SpecError

PAGE = Path("audit")
"""The folder of the page, by default."""


def audit(
    members: Annotated[
        Path | None,
        typer.Option(
            "--members",
            help="Outputs on records that the model was trained on: .npz, .csv or .parquet. Without --others "
            "a "
            "column `member` says which they are.",
        ),
    ] = None,
    others: Annotated[
        Path | None,
        typer.Option("--others", help="Outputs on records that it was not trained on, from the same source."),
    ] = None,
    population: Annotated[
        Path | None,
        typer.Option("--population", help="Outputs on more such records, for calibration only."),
    ] = None,
    signal: Annotated[
        Literal["logits", "probabilities", "losses"] | None,
        typer.Option("--signal", help="What columns `output_N` are; default: recognised, and said."),
    ] = None,
    attack: Annotated[
        str | None,
        typer.Option("--attack", help="Attacks, separated by commas; default: all that the data allow."),
    ] = None,
    opacus_history: Annotated[
        Path | None,
        typer.Option(
            "--opacus-history",
            help="The state of Opacus's accountant, as JSON or by torch.save: priced, for its ceilings.",
        ),
    ] = None,
    delta: Annotated[float, typer.Option("--delta", help="The delta of that price.")] = 1e-5,
    fail_above: Annotated[
        list[str] | None,
        typer.Option(
            "--fail-above",
            help="FIGURE=LIMIT or ATTACK:FIGURE=LIMIT, e.g. tpr_at_1pct=0.02: exit code 1 if the lower end "
            "of an "
            "interval is above. May be repeated.",
        ),
    ] = None,
    few: Annotated[bool, typer.Option("--few", help="Accept fewer than 50 members or others.")] = False,
    out: Annotated[
        Path, typer.Option("--out", help="The folder of audit.html, audit.pdf and audit.json.")
    ] = PAGE,
    json: JsonOption = False,
    wide: WideOption = False,
) -> None:
    """Measure what a model leaks about the records it was trained on, from its outputs on them.

    It compares outputs on members with outputs on others by every attack that the data allow, checks by the
    records' features and labels that the two are alike without any model, and writes a page to sign.
    Exit code 1: a limit is exceeded, or the split of members and others is broken.
    """
    if members is None:
        raise SpecError(
            "there is nothing to audit: give --members FILE and --others FILE, or one file with a column "
            "`member`",
            field="members",
            value=None,
            allowed="a file",
        )
    from harness.audit.door import audit as measure
    from harness.report.audit_page import write_audit_page

    found = measure(
        members=members,
        others=others,
        population=population,
        signal=signal,
        attacks=None if attack is None else [each.strip() for each in attack.split(",")],
        ledger=opacus_history,
        delta=delta,
        fail_above=fail_above or (),
        few=few,
    )
    show(found, write_audit_page(found, out), json, wide)
    if found.alarms:
        raise typer.Exit(1)

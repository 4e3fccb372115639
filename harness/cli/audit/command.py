"""The command `privbench audit`: files of outputs to a page."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from harness.backends import DEFAULT
from harness.cli import output
from harness.cli.audit.printed import show
from harness.cli.audit.trained import Sent, Trained, audit_trained
from harness.cli.options import (
    BackendOption,
    JsonOption,
    MembersOption,
    ProfileOption,
    SlotsOption,
    StoreOption,
    ThreadsOption,
    TimeoutOption,
    WideOption,
)
from workloads.errors import SpecError

if TYPE_CHECKING:
    from harness.audit.leakage_audit import LeakageAudit

PAGE = Path("audit")
"""The folder of the page, by default."""


def audit(
    script: Annotated[
        Path | None,
        typer.Argument(
            help="A Python file with data() and train(x, y, seed): the training is audited, by training many "
            "times."
        ),
    ] = None,
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
    command: Annotated[
        str | None,
        typer.Option(
            "--command",
            help="Instead of SCRIPT a program in any language, with {members}, {records}, {seed} and "
            "{predictions}.",
        ),
    ] = None,
    data: Annotated[
        Path | None,
        typer.Option("--data", help="Of a training: its records, .npz or .csv, instead of data()."),
    ] = None,
    further: Annotated[
        list[Path] | None,
        typer.Option("--with", help="Of a training: a file or folder that it reads. May be repeated."),
    ] = None,
    models: Annotated[int, typer.Option("--models", min=1, help="Of a training: models to train.")] = 16,
    canaries: Annotated[
        int, typer.Option("--canaries", min=0, help="Of a training: canaries, for a bound on epsilon.")
    ] = 0,
    canary: Annotated[
        str, typer.Option("--canary", help="Of a training: the kind of canaries.")
    ] = "mislabelled",
    n_train: MembersOption = None,
    seed: Annotated[
        int, typer.Option("--seed", min=0, help="Of a training: seed of members, models and canaries.")
    ] = 0,
    backend: BackendOption = DEFAULT,
    profile: ProfileOption = None,
    slots: SlotsOption = None,
    threads: ThreadsOption = 1,
    timeout: TimeoutOption = None,
    on_interrupt: Annotated[
        Literal["stop", "detach"],
        typer.Option(help="Ctrl-C: stop the trainings (resumable), or leave them running."),
    ] = "stop",
    store: StoreOption = None,
    out: Annotated[
        Path, typer.Option("--out", help="The folder of audit.html, audit.pdf and audit.json.")
    ] = PAGE,
    json: JsonOption = False,
    wide: WideOption = False,
) -> None:
    """Measure what a model leaks about the records it was trained on, from its outputs or by training it.

    It compares outputs on members with outputs on others by every attack that the data allow, checks by the
    records' features and labels that the two are alike without any model, and writes a page to sign.
    With a script or a command it trains many models on halves of the records and attacks each of them.
    Exit code 1: a limit is exceeded, the split of members and others is broken, an audit with canaries proved
    more than the ledger's price, or a training failed.
    """
    trained = Trained(script, command, data, further or ())
    if trained:
        refuse_outputs({"--members": members, "--others": others, "--population": population})
        from harness.audit.limits import read_limit
        from harness.audit.program_result import AuditFailed, Beside
        from harness.plan.program_audit import Extent

        arguments = {"models": models, "canaries": canaries, "n_train": n_train, "seed": seed}
        limits = [read_limit(each) for each in fail_above or ()]
        try:
            result = audit_trained(
                trained,
                Extent(models, canaries, canary, attack, n_train, seed),
                Beside(limits, opacus_history, delta, arguments),
                Sent(backend, profile, slots, threads, timeout, store, on_interrupt),
                quiet=json,
            )
        except AuditFailed as error:
            output.complain(error)
            raise typer.Exit(1) from None
        finish(result, out, json, wide)
        return
    if members is None:
        raise SpecError(
            "there is nothing to audit: give --members FILE and --others FILE, or one file with a column "
            "`member`",
            field="members",
            value=None,
            allowed="a file",
        )
    from harness.audit.door import audit as measure

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
    finish(found, out, json, wide)


def finish(found: "LeakageAudit", out: Path, json: bool, wide: bool) -> None:
    """Write the page and print the result; exit code 1 if there is an alarm."""
    from harness.report.audit_page import write_audit_page

    show(found, write_audit_page(found, out), json, wide)
    if found.alarms:
        raise typer.Exit(1)


def refuse_outputs(given: Mapping[str, object]) -> None:
    """SpecError for outputs beside a training."""
    for name, value in given.items():
        if value is not None:
            raise SpecError(
                f"{name} beside a training: give outputs of a model, or what trains it, not both",
                field=name,
                value=str(value),
            )

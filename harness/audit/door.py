"""`privbench.audit`: outputs, a model and two sets of records, or a training, to a LeakageAudit."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness.audit import wording
from harness.audit.given import Arrays, Signal, read_outputs
from harness.audit.leakage_audit import AuditedData, AuditLedger, LeakageAudit, Rung
from harness.audit.limits import Limit, check_resolved, judge_limits, read_limit
from harness.audit.measurement import (
    ATTACKS,
    QUERYING,
    Measured,
    check_split,
    choose_headline,
    find_worst,
    measure,
)
from harness.audit.pairing import Pairing, pair
from harness.audit.scores_file import digest, read_file, split_by_member
from harness.audit.surroundings import describe_run
from workloads.errors import DataError, SpecError, UnknownName

DELTA = 1e-5
BATCH = 1024
"""Records in one pass of a model, by default."""


@dataclass(frozen=True)
class Asked:
    """What an audit is asked for beside the data."""

    signal: Signal | None
    attacks: Sequence[str] | None
    limits: Sequence[Limit]
    ledger: AuditLedger | None
    few: bool
    arguments: dict[str, Any] = field(default_factory=dict)
    """As given, for the provenance."""


def audit(
    target: Any = None,
    members: Any = None,
    others: Any = None,
    *,
    population: Any = None,
    signal: Signal | None = None,
    attacks: Sequence[str] | None = None,
    ledger: Any = None,
    delta: float = DELTA,
    fail_above: Sequence[str] = (),
    few: bool = False,
    batch_size: int = BATCH,
    models: int | None = None,
    canaries: int = 0,
    canary: str = "mislabelled",
    n_train: int | None = None,
    seed: int = 0,
    store: str | Path = "privbench-store",
    slots: int | None = None,
    further: Sequence[str | Path] = (),
) -> LeakageAudit:
    """Measure what a model leaks about its members, from its outputs or from the model itself.

    Args:
        target: None, if members and others hold outputs; else a torch module, an estimator with
            `predict_proba`, or a callable from examples to probabilities (or to logits, with `signal`).
        members: records that the model was trained on. Outputs: a mapping of arrays by name, or the path of a
            file. With a model: a pair (x, y) of arrays, a torch Dataset or a DataLoader.
        others: records that it was not trained on, from the same source, in the same form; None if `members`
        is
            a file or a mapping with `member`.
        population: outputs on more such records, for calibration only.
        signal: what the outputs are; None: by their name, or recognised.
        attacks: the attacks to run; None: all that the data allow.
        ledger: a DpEvent, Opacus's accountant or the path of its saved state: priced, for its ceilings.
        delta: of the guarantee of the ledger.
        fail_above: limits such as "tpr_at_1pct=0.02"; those exceeded are in `alarms`.
        few: accept fewer than 50 members or others.
        batch_size: records in one pass of a model.
        models: audit a training by training this many models: `target` is `train(x, y, seed)`, at the top
            level of a file, and `members` is pool and test records (x, y, test_x, test_y), or a function that
            returns them. What follows is for such an audit only.
        canaries: records made to be memorised, for a lower bound on epsilon.
        canary: their kind.
        n_train: members of each model; None: half of the pool.
        seed: of members, models and canaries.
        store: the folder that keeps the trainings; the same audit trains nothing again.
        slots: trainings at a time; None: one per GPU or core.
        further: files beside the script that the training reads.
    """
    if models is not None:
        from harness.audit.program_door import audit_training
        from harness.plan.program_audit import Extent

        for name, value in {"others": others, "population": population, "signal": signal}.items():
            if value is not None:
                raise SpecError(f"{name} is not for an audit of a training", field=name, value=value)
        wanted = None if attacks is None else ",".join(attacks)
        extent = Extent(models, canaries, canary, wanted, n_train, seed)
        return audit_training(target, members, extent, store, slots, further, ledger, delta, fail_above)
    for name in attacks or ():
        if name not in (*ATTACKS, *QUERYING):
            raise UnknownName("attack of an audit", name, (*ATTACKS, *QUERYING))
    limits = [read_limit(each) for each in fail_above]
    arguments = {
        "signal": signal,
        "attacks": attacks,
        "delta": delta,
        "fail_above": list(fail_above),
        "few": few,
    }
    priced = None
    if ledger is not None:
        from harness.audit.ledger_file import price_ledger

        priced = price_ledger(ledger, delta)
    asked = Asked(signal, attacks, limits, priced, few, arguments)
    if target is None:
        return audit_outputs(members, others, population, asked)
    from harness.audit.model_audit import audit_model

    return audit_model(target, members, others, batch_size, asked)


def audit_outputs(members: Any, others: Any, population: Any, asked: Asked) -> LeakageAudit:
    """The audit of a model by its outputs alone; loads no torch."""
    files: dict[str, Path] = {}
    sets = {
        role: _read(given, role, files)
        for role, given in (("members", members), ("others", others), ("population", population))
        if given is not None
    }
    if "members" not in sets:
        raise DataError(
            "there are no members: give their outputs", field="members", value=None, allowed="outputs"
        )
    if "others" not in sets:
        sets["members"], sets["others"] = split_by_member(
            sets["members"], str(files.get("members", "members"))
        )
    outputs = {role: read_outputs(each, role, asked.signal) for role, each in sets.items()}
    given = pair(outputs["members"], outputs["others"], outputs.get("population"), asked.few)
    check_resolved(asked.limits, len(given.others))
    target = f"a model by its {given.members.signal}"
    found = measure(given, asked.attacks)
    digests = {role: digest(path) for role, path in files.items()}
    if files:
        target += f", from {' and '.join(dict.fromkeys(path.name for path in files.values()))}"
    return conclude("scores", target, given, found, asked, digests)


def conclude(
    rung: Rung,
    target: str,
    given: Pairing,
    found: Measured,
    asked: Asked,
    files: Mapping[str, str] | None = None,
) -> LeakageAudit:
    """The result of an audit of one model, from what was measured."""
    if not found.figures:
        reasons = "; ".join(f"{each.attack} {each.reason}" for each in found.skipped) or "none was asked for"
        raise DataError(
            f"no attack can be run on what was given: {reasons}",
            field="attacks",
            value=tuple(asked.attacks or ()),
            allowed=tuple(ATTACKS),
        )
    headline = choose_headline(found.figures)
    first = next(each for each in found.figures if each.attack == headline)
    population, split = given.population, check_split(given)
    data = AuditedData(
        members=len(given.members),
        others=len(given.others),
        classes=given.members.classes,
        population=0 if population is None else len(population),
        shadows=given.shadows,
        signal=given.members.signal,
        recognised=given.members.recognised,
        features=None if given.features is None else given.features.shape[1],
        member_accuracy=given.members.accuracy,
        other_accuracy=given.others.accuracy,
        files=files or {},
    )
    return LeakageAudit(
        question=wording.QUESTIONS[rung],
        rung=rung,
        target=target,
        data=data,
        headline=headline,
        meaning=wording.VOID if split.valid is False else wording.explain(first),
        condition=wording.CONDITION,
        highest=None if split.valid is False else wording.name_highest(found.figures, headline),
        attacks=found.figures,
        skipped=found.skipped,
        split=split,
        ledger=asked.ledger,
        worst=() if split.valid is False else find_worst(found.scores[headline], given),
        shows_not=wording.list_limits(data, asked.ledger is not None, canaries=False),
        warnings=[*given.warnings, *found.warnings],
        limits=judge_limits(asked.limits, found.figures),
        provenance=describe_run(asked.arguments),
    )


def _read(given: Any, role: str, files: dict[str, Path]) -> Arrays:
    """The arrays of a mapping or of a file, which is noted in `files`."""
    if isinstance(given, Mapping):
        return given
    if isinstance(given, str | Path):
        files[role] = Path(given)
        return read_file(files[role], role)
    raise DataError(
        f"{role} is a {type(given).__name__}: give a mapping of arrays by name or the path of a file; to "
        "audit a "
        "model itself, give it first: privbench.audit(model, members, others)",
        field=role,
        value=type(given).__name__,
        allowed=("mapping", "path"),
    )

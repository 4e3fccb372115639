"""The result of an audit of a training, from the store: what the tasks of its sweep found."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import load, load_file

from harness.audit.leakage_audit import (
    AttackFigures,
    AuditedData,
    AuditLedger,
    LeakageAudit,
    SkippedAttack,
    SplitCheck,
    WorstRecord,
)
from harness.audit.ledger_file import price_ledger
from harness.audit.limits import Limit, judge_limits
from harness.audit.surroundings import describe_run
from harness.audit.wording import QUESTIONS, explain, list_limits, name_highest
from harness.leakage.matrices import Bools, Floats
from harness.members.manifest import attack_facts
from harness.plan.plan import Plan
from harness.plan.program_audit import ProgramAudit, repeated
from harness.programs.doubts import find_doubts
from harness.programs.given_records import FILE
from harness.programs.shelf import describe_given
from harness.spec import Cell, Plugin
from harness.store import Store
from harness.store.outcomes import Audited, AuditOutcome, Membership
from harness.store.result import Result
from workloads.errors import BenchError

HEADLINES = ("strongest", "lira", "rmia", "loss")
"""The attack that is stated first: the first of these that was asked for and could be run."""
SHOWN = 10
"""Records of the list of the worst."""
FALSE_ALARMS = 0.01
UNFIT = ("label-only", "white-box")
"""Attacks that a reader may miss, and that need the model itself."""
DELTA = 1e-5
CONDITION = (
    "It holds for models that this program trains on {members:,} records drawn at random from records like "
    "these: privbench drew the members, so nothing but the training tells them from the others."
)
PROGRAM = "What the program does beside its predictions: its weights, files and logs were not attacked."


Done = Sequence[tuple[Plugin, Result]]
"""Attacks that are done, in the order in which they were asked for."""


class AuditFailed(BenchError):
    """An audit whose trainings or attacks failed, so that there is nothing to state.

    Attributes:
        field: `trainings` or `attacks`.
        value: How many failed.
    """


@dataclass(frozen=True)
class Beside:
    """What an audit of a training is asked for beside its plan."""

    limits: Sequence[Limit] = ()
    ledger: Any = None
    """A DpEvent, Opacus's accountant, or the path of its saved state; None: no price stands beside it."""
    delta: float = DELTA
    arguments: Mapping[str, Any] = field(default_factory=dict)
    """As given, for the provenance."""


def result_of(store: Store, asked: ProgramAudit, plan: Plan, beside: Beside) -> LeakageAudit:
    """Read the result of an audit whose sweep has ended; AuditFailed if there is none."""
    cell = plan.cells[0]
    trained = _trainings(store, cell, asked.extent.models)
    attacks = [(task.attack, store.result(task.key)) for task in plan.tasks if task.attack is not None]
    done = [(attack, each) for attack, each in attacks if each is not None and each.done]
    found = list(_figures(done))
    if not found:
        raise _failed(store, [each for _, each in attacks], "attacks")
    names = [each.attack for each in found]
    headline = next(name for name in (*HEADLINES, *names) if name in names)
    program = describe_given(store, cell.method.name)
    data = _data(store, cell, trained)
    ledger = None if beside.ledger is None else price_ledger(beside.ledger, beside.delta)
    notes = [
        *plan.warnings,
        *find_doubts(store, [each.key for each in trained], repeated(plan).key),
        *(warning for each in trained for warning in each.warnings),
    ]
    return LeakageAudit(
        question=QUESTIONS["training"],
        rung="training",
        target=f"{asked.extent.models} models trained by {program['shown']}",
        data=data,
        headline=headline,
        meaning=explain(found[names.index(headline)]),
        condition=CONDITION.format(members=cell.n_train),
        highest=name_highest(found, headline),
        attacks=found,
        skipped=tuple(_skipped(attacks)),
        split=_split(done),
        ledger=ledger,
        canary_audits={name: _priced(bound, beside, ledger) for name, bound in _bounds(done)},
        worst=tuple(_worst(store, next(each for attack, each in done if attack.name == headline), cell)),
        shows_not=[*list_limits(data, ledger is not None, asked.extent.canaries > 0), PROGRAM],
        warnings=tuple(dict.fromkeys(notes)),
        limits=judge_limits(beside.limits, found),
        provenance={
            **describe_run(dict(beside.arguments)),
            "store": str(store.path),
            "sweep": asked.name,
            "workload": cell.workload.name,
            "method": cell.method.name,
            "cell": cell.key,
        },
    )


def _trainings(store: Store, cell: Cell, models: int) -> list[Result]:
    results = [store.result(cell.training_key(index)) for index in range(models)]
    done = [each for each in results if each is not None and each.done]
    if len(done) < models:
        raise _failed(store, results, "trainings")
    return done


def _failed(store: Store, results: Sequence[Result | None], what: str) -> AuditFailed:
    """What failed, with its most common reason."""
    failed = [result for result in results if result is not None and not result.done]
    open_ = sum(result is None for result in results)
    if not failed:
        message = f"{open_} of {len(results)} {what} are unfinished: run the audit again to resume it"
        return AuditFailed(message, field=what, value=open_)
    messages = [str(result.message) for result in failed]
    cause = max(dict.fromkeys(messages), key=messages.count)
    message = f"{len(failed)} of {len(results)} {what} failed: {cause}"
    message += (
        f"; what it printed: privbench logs {failed[0].key[:12]} --store {store.path}; privbench retry runs "
        "them again"
    )
    return AuditFailed(message, field=what, value=len(failed))


def _data(store: Store, cell: Cell, trained: Sequence[Result]) -> AuditedData:
    signals: Mapping[str, NDArray[Any]] = load(store.read_artefact(trained[0], "signals"))
    records = load_file(store.given / cell.workload.name / FILE)
    metrics = [each.training.metrics for each in trained]
    others = [each.nonmember_accuracy for each in metrics if each.nonmember_accuracy is not None]
    digests = [describe_given(store, name)["files"] for name in (cell.method.name, cell.workload.name)]
    return AuditedData(
        members=cell.n_train,
        others=len(records["x"]) - cell.n_train,
        classes=signals["logits"].shape[1],
        population=len(signals["test_labels"]),
        models=len(trained),
        shadows=len(trained) - 1,
        signal="logits",
        features=math.prod(records["x"].shape[1:]),
        member_accuracy=fmean(each.train_accuracy for each in metrics),
        other_accuracy=fmean(others) if others else None,
        files={name: digest for each in digests for name, digest in each.items()},
    )


def _figures(done: Done) -> Iterator[AttackFigures]:
    """The figures of every membership attack, in the order in which they were asked for."""
    for attack, result in done:
        if attack.name == "blind" or not isinstance(result.outcome, Membership):
            continue
        facts = attack_facts(attack.name)
        yield AttackFigures(
            attack=attack.name,
            version=attack.version,
            about=facts.about,
            source=facts.source,
            needs=_needs(facts.shadows),
            metrics=result.outcome.metrics,
            roc=result.outcome.roc,
            note=result.outcome.metrics.note,
        )


def _needs(shadows: int) -> str:
    if not shadows:
        return "predictions of the model"
    return "predictions of the model, and models trained by the same program on records like these"


def _skipped(attacks: Sequence[tuple[Plugin, Result | None]]) -> Iterator[SkippedAttack]:
    for attack, result in attacks:
        if result is None or not result.done:
            why = "it is unfinished" if result is None else str(result.message)
            yield SkippedAttack(attack=attack.name, reason=why)
    for name in UNFIT:
        yield SkippedAttack(
            attack=name,
            reason="it queries or opens the model, and of a program only the predictions are kept",
        )


def _split(done: Done) -> SplitCheck:
    """The blind check."""
    for attack, result in done:
        if attack.name == "blind" and isinstance(result.outcome, Membership):
            found = result.outcome.metrics
            return SplitCheck(
                reads="features and labels",
                valid=found.valid,
                auc=found.auc,
                auc_low=found.auc_low,
                auc_high=found.auc_high,
                message=found.message or "members and others do not differ without a model",
            )
    return SplitCheck(reads="features and labels", valid=None, message="the blind check has no result")


def _bounds(done: Done) -> Iterator[tuple[str, Audited]]:
    for attack, result in done:
        if isinstance(result.outcome, AuditOutcome):
            yield attack.name, result.outcome.audit


def _priced(bound: Audited, beside: Beside, ledger: AuditLedger | None) -> Audited:
    """A bound beside the price of a ledger; an alarm if it proves more."""
    if ledger is not None and ledger.guarantee.delta != bound.delta:
        ledger = price_ledger(beside.ledger, bound.delta)
    price = None if ledger is None else ledger.guarantee.epsilon
    if price is None or ledger is None:
        return bound
    alarm = bound.epsilon > price
    message = (
        f"epsilon is at least {bound.epsilon:.3g} (confidence {bound.confidence:g}), above the {price:.3g} "
        f"of {ledger.source} at delta {bound.delta:g}: the program deviates from that ledger"
    )
    given = {"epsilon_priced": price, "alarm": alarm, "message": message if alarm else None}
    return bound.model_copy(update=given)


# -- records ---------------------------------------------------------------------------------------


def _worst(store: Store, ranked: Result, cell: Cell) -> Iterator[WorstRecord]:
    """The members that the headline's attack finds on most models with few false alarms."""
    stored = load(store.read_artefact(ranked, "scores"))
    first = store.result(cell.training_key(0))
    name = scores_of(ranked)
    if first is None or name not in stored:
        return
    labels = load(store.read_artefact(first, "signals"))["labels"]
    own = stored["members"].shape[1] - cell.canaries
    members = stored["members"][:, :own].astype(bool)
    alarms = false_alarms(stored[name][:, :own], members)
    trained, flagged = members.sum(axis=0), (alarms <= FALSE_ALARMS).sum(axis=0)
    middle = np.full(own, 1.0)
    for row in np.flatnonzero(trained):
        middle[row] = float(np.median(alarms[members[:, row], row]))
    order = np.lexsort((middle, -flagged / np.maximum(trained, 1)))
    for row in order[:SHOWN]:
        if flagged[row]:
            yield WorstRecord(
                record=int(row),
                label=int(labels[row]),
                fpr=float(middle[row]),
                flagged=int(flagged[row]),
                trained=int(trained[row]),
            )


def scores_of(ranked: Result) -> str:
    """The name of an attack's scores; of a selection, those of the attack that it chose most often."""
    metrics = ranked.outcome.metrics if isinstance(ranked.outcome, Membership) else None
    chosen = metrics.auc_chosen if metrics is not None else None
    return f"scores/{max(chosen, key=lambda name: chosen[name])}" if chosen else "scores"


def false_alarms(scores: Floats, members: Bools) -> Floats:
    """(M, n): the share of a model's others that score at least as high as a member; infinite for others."""
    found = np.full(scores.shape, np.inf)
    for model, inside in enumerate(members):
        others = np.sort(scores[model, ~inside])
        higher = len(others) - np.searchsorted(others, scores[model, inside], side="left")
        found[model, inside] = (higher + 1) / (len(others) + 1)
    return found

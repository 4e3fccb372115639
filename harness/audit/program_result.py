"""The result of an audit of a training, from the store: what the tasks of its sweep found."""

from collections.abc import Iterator, Mapping, Sequence
from statistics import fmean
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import load

from harness.audit.leakage_audit import (
    AttackFigures,
    AuditedData,
    LeakageAudit,
    SkippedAttack,
    SplitCheck,
    WorstRecord,
)
from harness.leakage.matrices import Bools, Floats
from harness.members.manifest import attack_facts
from harness.plan.plan import Plan
from harness.plan.program_audit import ProgramAudit, repeated
from harness.programs.doubts import find_doubts
from harness.programs.shelf import describe_given
from harness.spec import Cell, Plugin
from harness.store import Store
from harness.store.outcomes import Audited, AuditOutcome, Leakage, Membership
from harness.store.result import Result
from workloads.errors import BenchError

HEADLINES = ("strongest", "lira", "rmia", "loss")
"""The attack that is stated first: the first of these that was asked for and could be run."""
RANKED_BY = ("lira", "rmia", "loss")
"""The attack whose scores rank the records, in this order; the strongest has several."""
SHOWN = 10
"""Records of the list of the worst."""
FALSE_ALARMS = 0.01
UNFIT = ("label-only", "white-box")
"""Attacks that a reader may miss, and that need the model itself."""
STATED = ("privbench", "python", "platform", "processor", "numpy", "scikit-learn", "torch")
"""Of the provenance of a training."""
SHOWS_NOT = (
    "What an adversary with better attacks, more shadow models or more knowledge would find: the figures "
    "are lower bounds on what can be found.",
    "What the program does beside its predictions: its weights, files and logs were not attacked.",
    "The leakage of a model trained on other records, or on another number of them.",
    "What several records of one person leak together: every record counts alone.",
)


Done = Sequence[tuple[Plugin, Result]]
"""Attacks that are done, in the order in which they were asked for."""


class AuditFailed(BenchError):
    """An audit whose trainings or attacks failed, so that there is nothing to state.

    Attributes:
        field: `trainings` or `attacks`.
        value: How many failed.
    """


def result_of(store: Store, asked: ProgramAudit, plan: Plan) -> LeakageAudit:
    """Read the result of an audit whose sweep has ended; AuditFailed if there is none."""
    cell = plan.cells[0]
    trained = _trainings(store, cell, asked.models)
    attacks = [(task.attack, store.result(task.key)) for task in plan.tasks if task.attack is not None]
    done = [(attack, each) for attack, each in attacks if each is not None and each.done]
    found = list(_figures(done))
    if not found:
        raise _failed(store, [each for _, each in attacks], "attacks")
    headline = next(name for name in (*HEADLINES, found[0].attack) if name in {each.attack for each in found})
    program, records = describe_given(store, cell.method.name), describe_given(store, cell.workload.name)
    first = trained[0]
    facts = _data(cell, trained, first, store)
    metrics = next(each.metrics for each in found if each.attack == headline)
    return LeakageAudit(
        question=f"What do models trained by {program['shown']} leak about the records they were trained on?",
        rung="training",
        target=f"{asked.models} models trained by {program['shown']}",
        data=facts.model_copy(update={"files": {**program["files"], **records["files"]}}),
        headline=headline,
        meaning=_meaning(metrics, asked.models),
        condition=(
            f"It holds for models that this program trains on {cell.n_train:,} records drawn at random from "
            "records like these; members were drawn by privbench, so they and the others are exchangeable."
        ),
        attacks=found,
        skipped=tuple(_skipped(attacks)),
        split=_split(done),
        canary_audits=dict(_bounds(done)),
        worst=tuple(_worst(store, done, cell)),
        shows_not=SHOWS_NOT,
        warnings=tuple(dict.fromkeys(_warnings(store, plan, trained, cell, asked.models))),
        provenance={
            **{name: first.provenance.get(name) for name in STATED},
            "store": str(store.path),
            "sweep": asked.name,
            "cell": cell.key,
            "workload": cell.workload.name,
            "method": cell.method.name,
            "seed": cell.seed,
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
    message += f"; what it printed: privbench logs {failed[0].key[:12]} --store {store.path}"
    return AuditFailed(message, field=what, value=len(failed))


def _data(cell: Cell, trained: Sequence[Result], first: Result, store: Store) -> AuditedData:
    signals: Mapping[str, NDArray[Any]] = load(store.read_artefact(first, "signals"))
    metrics = [each.training.metrics for each in trained]
    own = signals["logits"].shape[0] - cell.canaries
    others = [each.nonmember_accuracy for each in metrics if each.nonmember_accuracy is not None]
    return AuditedData(
        members=cell.n_train,
        others=own - cell.n_train,
        classes=signals["logits"].shape[1],
        population=len(signals["test_labels"]),
        models=len(trained),
        shadows=len(trained) - 1,
        signal="logits",
        features=None,
        member_accuracy=fmean(each.train_accuracy for each in metrics),
        other_accuracy=fmean(others) if others else None,
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
            attack=name, reason="it queries or opens the model, and of a program only predictions are kept"
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


def _meaning(metrics: Leakage, models: int) -> str:
    """The headline in one sentence."""
    who = "An adversary who sees a model's predictions"
    if models > 1:
        who += " and can run the program on other records"
    for text, words in (("0.01", "1 %"), ("0.1", "10 %")):
        rate = metrics.tpr.get(text)
        if rate is not None and rate.value is not None:
            low = "" if rate.low is None or rate.high is None else f" ({rate.low:.1%} to {rate.high:.1%})"
            return (
                f"{who} recognises {rate.value:.1%}{low} of its training records while wrongly accusing "
                f"{words} of other records; guessing would find {words}."
            )
    if metrics.auc is None:
        return f"{who} could not be measured on these records."
    return f"{who} ranks a training record above another one in {metrics.auc:.1%} of pairs; guessing: 50 %."


# -- records ---------------------------------------------------------------------------------------


def _worst(store: Store, done: Done, cell: Cell) -> Iterator[WorstRecord]:
    """The members that are found on most models with few false alarms."""
    by_name = {attack.name: result for attack, result in done}
    ranked = next((by_name[name] for name in RANKED_BY if name in by_name), None)
    first = store.result(cell.training_key(0))
    if ranked is None or first is None:
        return
    stored = load(store.read_artefact(ranked, "scores"))
    labels = load(store.read_artefact(first, "signals"))["labels"]
    if "scores" not in stored:
        return
    own = stored["members"].shape[1] - cell.canaries
    members = stored["members"][:, :own].astype(bool)
    alarms = false_alarms(stored["scores"][:, :own], members)
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


def false_alarms(scores: Floats, members: Bools) -> Floats:
    """(M, n): the share of a model's others that score at least as high as a member; infinite for others."""
    found = np.full(scores.shape, np.inf)
    for model, inside in enumerate(members):
        others = np.sort(scores[model, ~inside])
        higher = len(others) - np.searchsorted(others, scores[model, inside], side="left")
        found[model, inside] = (higher + 1) / (len(others) + 1)
    return found


# -- warnings --------------------------------------------------------------------------------------


def _warnings(store: Store, plan: Plan, trained: Sequence[Result], cell: Cell, models: int) -> Iterator[str]:
    yield from plan.warnings
    keys = [cell.training_key(index) for index in range(models)]
    yield from find_doubts(store, keys, repeated(plan).key)
    for result in trained:
        yield from result.warnings

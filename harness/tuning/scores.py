"""What a tune knows of a training: its accuracy on non-members of the pool, never that on test records."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from harness.store import RERUN_REASONS, Store
from harness.store.result import Result
from harness.tuning.trials import Trial

DIVERGED = "diverged"


def score_of(result: Result) -> float:
    """The accuracy on non-members; 0 for a training that diverged or failed."""
    return result.training.metrics.nonmember_accuracy or 0.0 if result.done else 0.0


def gap_of(result: Result) -> float:
    """By how much a model is better on members than on non-members; infinite without a model."""
    if not result.done:
        return float("inf")
    return result.training.metrics.train_accuracy - score_of(result)


def seconds_of(result: Result) -> float:
    """CPU seconds of the steps of a training; wall seconds where they were not measured."""
    if not result.done:
        return result.wall_seconds or 0.0
    phases = result.training.phases.values()
    return sum(phase.seconds if phase.cpu.mean is None else phase.steps * phase.cpu.mean for phase in phases)


@dataclass
class Scored:
    """The trainings of a trial that have ended, in the order of models."""

    trial: Trial
    scores: list[float] = field(default_factory=list)
    gaps: list[float] = field(default_factory=list)
    failed: int = 0
    errors: list[str] = field(default_factory=list)
    """Reasons of failures other than divergence."""
    seconds: float = 0.0
    spent: float | None = None
    """The largest epsilon that was priced."""
    missing: int = 0
    """Trainings without a result, or that were killed and will run again."""
    confirmed: bool = False

    @property
    def score(self) -> float:
        """The mean over models."""
        return sum(self.scores) / len(self.scores) if self.scores else 0.0

    @property
    def gap(self) -> float:
        """The mean over models."""
        return sum(self.gaps) / len(self.gaps) if self.gaps else float("inf")

    @property
    def trained(self) -> bool:
        """Whether any of its models was trained to the end."""
        return self.failed < len(self.scores)


class Scores:
    """Reads trainings once: several trials may be one cell."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self._known: dict[str, Result | None] = {}

    def read(self, trial: Trial, models: Sequence[int], confirmed: bool = False) -> Scored:
        """What is known of a trial's models with these indices."""
        found = Scored(trial, confirmed=confirmed)
        if trial.cell is None:
            return found
        for index in models:
            result = self._result(trial.cell.training_key(index))
            if result is None or (not result.done and result.reason in RERUN_REASONS):
                found.missing += 1
                continue
            found.scores.append(score_of(result))
            found.gaps.append(gap_of(result))
            found.seconds += seconds_of(result)
            if not result.done:
                found.failed += 1
                found.errors += [] if result.reason == DIVERGED else [str(result.reason)]
            elif (epsilon := result.training.guarantee.epsilon) is not None:
                found.spent = max(found.spent or 0.0, epsilon)
        return found

    def _result(self, key: str) -> Result | None:
        if key not in self._known:
            self._known[key] = self.store.result(key)
        return self._known[key]

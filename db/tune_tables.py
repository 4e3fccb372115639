"""The tables of tunes: their records, the search of every method and level, and every trial.

Built from tunes/ of a store and of its imports by harness/results/tune_rows.py only.
"""

from typing import Any

from sqlalchemy.orm import Mapped, mapped_column

from db.models import Base


class TuneResult(Base):
    """One record of a tune, as its store holds it."""

    __tablename__ = "tune_result"

    key: Mapped[str] = mapped_column(primary_key=True)
    """The name of the tune; with its origin and a colon if it was imported."""
    origin: Mapped[str] = mapped_column(default="")
    name: Mapped[str]
    record: Mapped[dict[str, Any]]
    checksum: Mapped[str]
    """By which a recipe names it: of all but times and warnings."""
    stamp: Mapped[str]
    """Of the whole record: the rows of an unchanged one are kept."""


class SearchResult(Base):
    """The search of one method at one combination of levels on one workload."""

    __tablename__ = "search_result"

    search: Mapped[str] = mapped_column(primary_key=True)
    """The tune's key, a slash and the place in its record."""
    tune: Mapped[str]
    """The tune's key."""
    workload: Mapped[str]
    workload_version: Mapped[str]
    method: Mapped[str]
    method_version: Mapped[str]
    epsilon_asked: Mapped[float | None]
    levels: Mapped[dict[str, Any]]
    """Parameters besides epsilon that trade privacy."""
    trials: Mapped[int]
    """Of a study."""
    studies: Mapped[int]
    score: Mapped[float | None]
    """Of the study that a run takes."""
    score_low: Mapped[float | None]
    """The lowest score of a study's choice."""
    score_high: Mapped[float | None]
    majority: Mapped[float | None]
    """Share of the most common label among the pool's non-members."""
    reference: Mapped[float | None]
    """Mean score of the workload's own recipe."""
    validation_records: Mapped[int]
    warnings: Mapped[list[str]]
    """A text for each."""
    cell: Mapped[str | None]
    """Of the trial that a run takes."""
    params: Mapped[dict[str, Any] | None]
    """Of the same trial, as in its record."""
    seconds: Mapped[float]
    """CPU seconds of all trainings."""
    n_train: Mapped[int]
    tuned_at: Mapped[int]
    """Members of a model in the search."""
    origin: Mapped[str] = mapped_column(default="")


class TrialResult(Base):
    """One configuration of a study."""

    __tablename__ = "trial_result"

    search: Mapped[str] = mapped_column(primary_key=True)
    study: Mapped[int] = mapped_column(primary_key=True)
    """From 1, as a recipe numbers its settings."""
    trial: Mapped[int] = mapped_column(primary_key=True)
    """Its point in the study, from 0."""
    cell: Mapped[str | None]
    """Null if its parameters could not be resolved."""
    stage: Mapped[str]
    """`search`, or `confirm` if it was among the best of its study and got more models."""
    score: Mapped[float | None]
    """Mean accuracy on non-members over its models; null without one."""
    scores: Mapped[list[str]]
    """Of each model."""
    failed: Mapped[int]
    """Trainings that diverged or failed; they count as 0."""
    chosen: Mapped[bool]
    """Whether its study chose it."""
    taken: Mapped[bool]
    """Whether a run takes it: chosen by the study with the median score."""
    params: Mapped[dict[str, Any]]
    """Parameters that were searched, fixed or derived."""
    seconds: Mapped[float]
    error: Mapped[str | None]

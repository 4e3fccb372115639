"""The result of a task: its type, its builder and its JSON document."""

from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cached_property
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field

from harness.spec import Json, Kind, Task, spelled
from harness.store.outcomes import (
    AuditOutcome,
    Bench,
    Finding,
    Frozen,
    InferenceOutcome,
    Membership,
    Outcome,
    Reconstruction,
    Training,
    read_outcome,
)

Status = Literal["done", "failed"]


def _in_its_folder(file: str) -> str:
    if file in ("", ".", "..") or "/" in file or "\0" in file:
        raise ValueError(f"an artefact is a file name in its task's folder, got {file!r}")
    return file


class Artefact(Frozen):
    """A file that a task wrote to its folder."""

    file: Annotated[str, AfterValidator(_in_its_folder)]
    bytes: int
    sha256: str


class Failure(Frozen):
    """Why a task has no outcome."""

    reason: str
    """The category that failures are counted by."""
    message: str
    traceback: str | None = None


class Result(Frozen):
    """How a task ended: with an outcome or a failure. Made by `build`."""

    key: str
    kind: Kind
    status: Status
    reason: str | None = None
    message: str | None = None
    traceback: str | None = None
    artefacts: dict[str, Artefact]
    provenance: dict[str, Any] = Field(default={})
    warnings: list[str] = Field(default=[])
    """Warnings raised by the task's own code."""
    started: str | None = None
    finished: str | None = None
    wall_seconds: float | None = None
    checksum: str | None = None
    """Of the file it was read from."""
    figures: Json = Field(default={})
    """The outcome as written; read it as `outcome`."""

    @property
    def done(self) -> bool:
        """Whether it has an outcome."""
        return self.status == "done"

    @cached_property
    def outcome(self) -> Outcome:
        """The task's outcome; ValueError if it has another shape, or the task failed."""
        if not self.done:
            raise ValueError(f"task {self.key} failed ({self.reason}) and has no outcome")
        return read_outcome(self.kind, self.figures)

    @property
    def training(self) -> Training:
        """The outcome of a training."""
        if not isinstance(self.outcome, Training):
            raise ValueError(f"task {self.key} is not a training")
        return self.outcome

    @property
    def finding(self) -> Finding:
        """The outcome of an attack."""
        if not isinstance(self.outcome, Membership | AuditOutcome | InferenceOutcome | Reconstruction):
            raise ValueError(f"task {self.key} is not an attack")
        return self.outcome

    @property
    def bench(self) -> Bench:
        """The outcome of a bench."""
        if not isinstance(self.outcome, Bench):
            raise ValueError(f"task {self.key} is not a bench")
        return self.outcome

    def document(self) -> Json:
        """The result as written, without its checksum; the outcome's figures are top-level fields."""
        return {**self.model_dump(exclude={"figures", "checksum"}), **self.figures}

    def replacing(self, outcome: Outcome) -> "Result":
        """The same result with another outcome, for recomputed figures."""
        return self.giving(figures_of(outcome))

    def giving(self, figures: Json) -> "Result":
        """The same result with other figures; a cached outcome of the old ones is dropped."""
        changed = self.model_copy(update={"figures": figures})
        changed.__dict__.pop("outcome", None)
        return changed


def figures_of(outcome: Outcome) -> Json:
    """Serialise the fields of an outcome that were set; the parameters of a bench may be infinite."""
    figures: Json = outcome.model_dump(exclude_unset=True)
    return spelled(figures) if isinstance(outcome, Bench) else figures


def build(
    task: Task,
    ended: Outcome | Failure,
    *,
    started: datetime,
    wall_seconds: float,
    provenance: Mapping[str, Any],
    artefacts: Mapping[str, Artefact] | None = None,
    warnings: list[str] | None = None,
) -> Result:
    """Build the result of a task that has just ended."""
    failure = ended if isinstance(ended, Failure) else None
    return Result(
        key=task.key,
        kind=task.kind,
        status="failed" if failure else "done",
        reason=failure.reason if failure else None,
        message=failure.message if failure else None,
        traceback=failure.traceback if failure else None,
        artefacts=dict(artefacts or {}),
        provenance=dict(provenance),
        warnings=list(warnings or []),
        started=started.isoformat(),
        finished=datetime.now(UTC).isoformat(),
        wall_seconds=wall_seconds,
        figures={} if isinstance(ended, Failure) else figures_of(ended),
    )


def parse_result(document: Mapping[str, Any]) -> Result:
    """Parse the content of a `result.json`; ValueError if it is not a result."""
    own = {name: value for name, value in document.items() if name in Result.model_fields}
    figures = {name: value for name, value in document.items() if name not in Result.model_fields}
    result = Result(**{**own, "figures": figures})
    if not result.done and result.reason is None:
        raise ValueError("a failure needs a reason")
    return result

"""Live progress of a sweep: cells, tasks, steps per second, time left."""

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from rich.console import Console, Group
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.text import Text

from harness.backends import family, status
from harness.backends.base import Backend
from harness.backends.causes import Cause, group_failures
from harness.cli import output
from harness.store import Store

LOOK_SECONDS = 0.5
PLAIN_SECONDS = 5.0
"""Seconds between two lines if the output is not a terminal."""
CAUSES = 4
"""Causes of failures that are shown live, at most; the end has all."""


class Pace:
    """Steps per second, measured while watching."""

    def __init__(self, progress: status.Progress) -> None:
        self.began = time.monotonic()
        self.before = {task.key: task.done for task in progress.running}
        self.steps: dict[str, int] = {}

    def note(self, progress: status.Progress, ended: list[status.Ended]) -> None:
        """Count the steps of running tasks and of those that ended since the last update."""
        for task in progress.running:
            self.steps[task.key] = task.done - self.before.get(task.key, 0)
        for each in ended:
            self.steps[each.key] = each.steps - self.before.get(each.key, 0)

    @property
    def rate(self) -> float:
        """Steps per second since the start of watching."""
        return sum(self.steps.values()) / max(time.monotonic() - self.began, 1e-9)


def watch(store: Store, name: str, console: Console, interrupted: Callable[[], bool]) -> status.Progress:
    """Show a sweep until it has ended, or until `interrupted`; return its last state."""
    progress = status.Progress.of(store, name)
    pace, backend = Pace(progress), family.get(progress.backend)
    if not console.is_terminal:
        return _watch_plainly(progress, pace, backend, console, interrupted)
    bars = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=console,
    )
    cells = bars.add_task("cells", total=progress.cells[1])
    tasks = bars.add_task("tasks", total=len(progress.tasks))
    told = Told()
    with Live(console=console, refresh_per_second=4) as live:
        while True:
            pace.note(progress, progress.look())
            bars.update(cells, completed=progress.cells[0])
            bars.update(tasks, completed=len(progress.ended))
            live.update(Group(bars, _running(progress, pace, told.causes(progress))))
            if _over(progress, backend, interrupted):
                live.update(Group(bars, Text(_line(progress, pace))))
                return progress
            time.sleep(LOOK_SECONDS)


class Told:
    """Causes of failures: each is reported once, when it first occurs."""

    def __init__(self) -> None:
        self.names: dict[str, tuple[str, str]] = {}
        self.before: set[tuple[str, str]] = set()

    def causes(self, progress: status.Progress) -> list[Cause]:
        """All causes so far."""
        return group_failures(progress.store, progress.failures, self.names)

    def new(self, progress: status.Progress) -> list[Cause]:
        """Those that were not there at the last call."""
        found = [each for each in self.causes(progress) if each.kind not in self.before]
        self.before |= {each.kind for each in found}
        return found


def _watch_plainly(
    progress: status.Progress,
    pace: Pace,
    backend: Backend,
    console: Console,
    interrupted: Callable[[], bool],
) -> status.Progress:
    last, told = -PLAIN_SECONDS, Told()
    while True:
        pace.note(progress, progress.look())
        over = _over(progress, backend, interrupted)
        if over or time.monotonic() - last > PLAIN_SECONDS:
            last = time.monotonic()
            console.print(_line(progress, pace), highlight=False)
            for cause in told.new(progress):
                console.print(_failed(cause), highlight=False, markup=False, soft_wrap=True)
        if over:
            return progress
        time.sleep(LOOK_SECONDS)


def _over(progress: status.Progress, backend: Backend, interrupted: Callable[[], bool]) -> bool:
    if progress.over or interrupted():
        return True
    if backend.attend(progress.store, progress.name):
        return False
    progress.look()  # the last result may have arrived before the end of the queue
    return True


def _line(progress: status.Progress, pace: Pace) -> str:
    done, cells = progress.cells
    whole = f"{done}/{cells} cells, " if cells else ""  # benches belong to none
    failed = f", {len(progress.failures)} failed" if progress.failures else ""
    return (
        f"{whole}{len(progress.ended)}/{len(progress.tasks)} tasks{failed}, "
        f"{pace.rate:.0f} steps/s, {output.time_left(progress.remaining)}"
    )


def _failed(cause: Cause) -> str:
    count = len(cause.keys)
    return f"  {count} failed (privbench logs {cause.example[:12]}): {cause.reason}: {cause.message}"


def _running(progress: status.Progress, pace: Pace, causes: list[Cause]) -> Text:
    """The state below the bars, a line each: what runs, and why tasks failed."""
    lines = [_line(progress, pace), *map(_failed, causes[:CAUSES])]
    for task in progress.running[: output.RUNNING_LINES]:
        lines.append(f"  {task.key[:12]} {output.running_text(task)}")
    return Text("\n".join(lines), no_wrap=True, overflow="ellipsis")


@contextmanager
def ctrl_c() -> Iterator[Callable[[], bool]]:
    """Whether Ctrl-C was pressed; a second one raises KeyboardInterrupt as usual."""
    pressed: list[int] = []

    def note(signum: int, frame: FrameType | None) -> None:
        pressed.append(signum)
        if len(pressed) > 1:
            raise KeyboardInterrupt

    before = signal.signal(signal.SIGINT, note)
    try:
        yield lambda: bool(pressed)
    finally:
        signal.signal(signal.SIGINT, before)

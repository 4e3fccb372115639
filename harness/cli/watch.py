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
from harness.store import Store

LOOK_SECONDS = 0.5
PLAIN_SECONDS = 5.0
"""Seconds between two lines if the output is not a terminal."""


class Pace:
    """Steps per second and time left, measured while watching."""

    def __init__(self, progress: status.Progress) -> None:
        self.began, self.ended_then = time.monotonic(), len(progress.ended)
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

    def left(self, progress: status.Progress) -> str:
        """Time left at the observed time per task; unknown before the first has ended."""
        ended = len(progress.ended) - self.ended_then
        if not ended:
            return "?"
        each = (time.monotonic() - self.began) / ended
        seconds = int(each * (len(progress.tasks) - len(progress.ended)))
        return f"{seconds // 60}:{seconds % 60:02d}"


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
    with Live(console=console, refresh_per_second=4) as live:
        while True:
            pace.note(progress, progress.look())
            bars.update(cells, completed=progress.cells[0])
            bars.update(tasks, completed=len(progress.ended))
            live.update(Group(bars, _running(progress, pace)))
            if _over(progress, backend, interrupted):
                return progress
            time.sleep(LOOK_SECONDS)


def _watch_plainly(
    progress: status.Progress,
    pace: Pace,
    backend: Backend,
    console: Console,
    interrupted: Callable[[], bool],
) -> status.Progress:
    last = -PLAIN_SECONDS
    while True:
        pace.note(progress, progress.look())
        over = _over(progress, backend, interrupted)
        if over or time.monotonic() - last > PLAIN_SECONDS:
            last = time.monotonic()
            console.print(_line(progress, pace), highlight=False)
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
        f"{pace.rate:.0f} steps/s, {pace.left(progress)} left"
    )


def _running(progress: status.Progress, pace: Pace) -> Text:
    lines = [_line(progress, pace)]
    for task in progress.running[:8]:
        lines.append(f"  {task.key[:12]}  {task.label}  {task.phase} {task.done}/{task.total}")
    return Text("\n".join(lines))


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

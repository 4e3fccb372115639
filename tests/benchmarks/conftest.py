"""Benchmarks run when asked for with `-m benchmark`, and never among the tests; they end with one table."""

import os

import pytest

from tests.benchmarks.table import Table, as_text, write_record

TABLE = pytest.StashKey[Table]()
LOAD = pytest.StashKey[float]()


def pytest_configure(config: pytest.Config) -> None:
    """Begin the table."""
    config.stash[TABLE], config.stash[LOAD] = Table(), round(os.getloadavg()[0], 1)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave them out even where another `-m` replaces the project's own."""
    if "benchmark" in config.getoption("markexpr"):
        return
    left_out = [item for item in items if item.get_closest_marker("benchmark")]
    items[:] = [item for item in items if item not in left_out]
    config.hook.pytest_deselected(items=left_out)


@pytest.fixture
def table(pytestconfig: pytest.Config) -> Table:
    """The table of this run, to add rows to."""
    return pytestconfig.stash[TABLE]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Print the table and keep it for docs/performance.md."""
    rows = config.stash[TABLE].rows
    if not rows:
        return
    terminalreporter.section("benchmarks")
    for line in as_text(rows):
        terminalreporter.write_line(line)
    write_record(rows, config.stash[LOAD])

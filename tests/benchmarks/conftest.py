"""Benchmarks run when asked for with `-m benchmark`, and never among the tests."""

import pytest


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave them out even where another `-m` replaces the project's own."""
    if "benchmark" in config.getoption("markexpr"):
        return
    left_out = [item for item in items if item.get_closest_marker("benchmark")]
    items[:] = [item for item in items if item not in left_out]
    config.hook.pytest_deselected(items=left_out)

"""Where an audit ran and on what: its provenance."""

import platform
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from harness.report.metadata import report_time

PACKAGES = ("privbench", "numpy", "scipy", "dp-accounting", "torch", "scikit-learn")


def describe_run(asked: dict[str, Any]) -> dict[str, Any]:
    """Date, versions and machine, and the arguments that decide the figures."""
    return {
        "date": report_time().strftime("%Y-%m-%dT%H:%M:%SZ"),
        "host": platform.node(),
        "platform": platform.platform(),
        "python": platform.python_version(),
        **{name: _installed(name) for name in PACKAGES},
        "arguments": asked,
    }


def _installed(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None

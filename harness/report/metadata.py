"""The metadata of every file of a report: title, query, date and version; of a figure also its notes."""

import os
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from harness.report.reading import program_version
from workloads.errors import SpecError

EPOCH = "SOURCE_DATE_EPOCH"
"""If set, files are dated by it, so that equal rows give equal bytes (reproducible-builds.org)."""


@dataclass(frozen=True)
class Imprint:
    """The provenance of a figure or a table."""

    title: str
    query: str
    """The SQL behind it, or the source in words."""
    caption: str = ""
    """What a figure in print leaves to its caption."""

    @property
    def maker(self) -> str:
        """The program and its version."""
        return f"privbench {program_version()}"

    @property
    def date(self) -> str:
        """The time of creation, in UTC."""
        return report_time().strftime("%Y-%m-%dT%H:%M:%SZ")

    def metadata(self, form: str) -> dict[str, Any]:
        """The same under the keys of png, svg or pdf."""
        source: dict[str, Any]
        about = f"{self.query}\n\n{self.caption}" if self.caption else self.query
        if form == "png":
            source = {"Software": self.maker, "Description": about, "Creation Time": self.date}
        elif form == "svg":
            source = {"Creator": self.maker, "Description": about, "Date": self.date}
        else:
            source = {"Creator": self.maker, "Subject": self.query, "CreationDate": report_time()}
            source |= {"Keywords": self.caption} if self.caption else {}
        return {"Title": self.title, **source}

    def lines(self) -> list[str]:
        """The same as lines of a comment."""
        return [f"{self.maker}, {self.date}", *self.query.splitlines()]


def report_time() -> datetime:
    """Now, or $SOURCE_DATE_EPOCH, in whole seconds of UTC."""
    given = os.environ.get(EPOCH)
    if given is None:
        return datetime.now(UTC).replace(microsecond=0)
    try:
        return datetime.fromtimestamp(int(given), UTC)
    except (ValueError, OverflowError, OSError) as error:
        message = f"{EPOCH} must be a whole number of seconds since 1970, got {given!r}"
        raise SpecError(message, field=EPOCH, value=given) from error

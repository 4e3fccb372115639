"""Prices of ledgers, computed once: the models of a cell have one ledger, and pricing it takes longer than a
small training.

A price is kept in this process and, by a fingerprint of the accounting's code, in the user's cache.
"""

from dataclasses import dataclass, field
from functools import cache, lru_cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

from dp_accounting import DpEvent

from harness.accounting.guarantee import Guarantee
from harness.accounting.ledger import check_priceable, describe
from harness.accounting.pricing import price
from workloads.disk_cache import default_folder, digest, read_cached, write_cached
from workloads.fingerprint import source_fingerprint

PACKAGES = ("dp-accounting", "numpy", "scipy")
"""The packages that a price is computed with."""
KEPT = 1024
"""Prices kept in a process."""


def price_once(event: DpEvent, delta: float | None, folder: Path | None = None) -> Guarantee:
    """`price`, computed only if neither this process nor the cache has it; a refusal is not kept."""
    check_priceable(event)
    stated = None if delta is None else float(delta)
    return _kept(Question(digest(describe(event)), stated, folder or default_folder("prices"), event))


@dataclass(frozen=True)
class Question:
    """What a price depends on; the event by its digest, since some events are not hashable."""

    of_event: str
    delta: float | None
    folder: Path
    event: DpEvent = field(compare=False)

    def plain(self) -> dict[str, Any]:
        """The question as JSON, with the code and packages that answer it."""
        return {"event": self.of_event, "delta": repr(self.delta), "code": fingerprint()}


@lru_cache(maxsize=KEPT)
def _kept(question: Question) -> Guarantee:
    known = read_cached(question.folder, question.plain())
    if known is not None:
        return Guarantee(**{**known, "assumptions": tuple(known["assumptions"])})
    found = price(question.event, question.delta)
    write_cached(question.folder, question.plain(), found.asdict())
    return found


@cache
def fingerprint() -> str:
    """A digest of the accounting's code and packages: a price of other code is never used."""
    # Of the files even in an installed release, which may have been patched.
    code = source_fingerprint("harness.accounting.pricing").digest
    return digest([code, {name: version(name) for name in PACKAGES}])

"""The ledger of a training elsewhere: Opacus's accountant, in memory or in a file, and its price."""

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from dp_accounting import (
    ComposedDpEvent,
    DpEvent,
    GaussianDpEvent,
    PoissonSampledDpEvent,
    SelfComposedDpEvent,
)

from harness.accounting import find_ceilings, price
from harness.accounting.ledger import count_releases
from harness.accounting.numbers import check_delta
from harness.audit.leakage_audit import AuditLedger
from harness.store.outcomes import PricedCeilings, PricedGuarantee
from workloads.errors import DataError

STATE = "privacy_accountant_state_dict"
"""The key of the accountant's state in a checkpoint of PrivacyEngine.save_checkpoint."""
SAVED = "json.dump(engine.accountant.state_dict(), file)"


def price_ledger(given: Any, delta: float) -> AuditLedger:
    """The price of a ledger and the ceilings that it puts on attacks.

    Args:
        given: a DpEvent, an accountant of Opacus, or the path of its saved state.
        delta: of the guarantee.
    """
    check_delta(delta)
    if isinstance(given, DpEvent):
        event, source = given, "a DpEvent"
    elif isinstance(given, str | Path):
        event, source = event_of(read_history(Path(given))), f"Opacus's history in {Path(given).name}"
    elif hasattr(given, "history"):
        event, source = event_of(given.history), f"Opacus's {type(given).__name__}"
    else:
        raise DataError(
            f"a ledger of type {type(given).__name__}: give a DpEvent, Opacus's accountant "
            "(engine.accountant), or "
            "the path of its saved state",
            field="ledger",
            value=type(given).__name__,
            allowed=("DpEvent", "accountant", "path"),
        )
    guarantee = price(event, delta)
    ceilings = find_ceilings(event, guarantee)
    return AuditLedger(
        source=source,
        releases=count_releases(event),
        guarantee=PricedGuarantee(
            **guarantee.asdict(),
            ceilings=None if ceilings is None else PricedCeilings(**ceilings.asdict()),
        ),
    )


def event_of(history: Any) -> DpEvent:
    """The event of Opacus's history: runs of steps, each a Poisson-sampled batch with Gaussian noise."""
    if not isinstance(history, Sequence) or isinstance(history, str) or not history:
        raise _no_history(history)
    return ComposedDpEvent([_run(*_numbers(entry)) for entry in history])


def read_history(path: Path) -> Any:
    """The history in a file: JSON, or a file of torch.save, from which only plain values are read."""
    if not path.is_file():
        raise DataError(f"there is no file {path}", field="opacus_history", value=str(path), allowed="a file")
    content = path.read_bytes()
    state = _from_torch(path) if content.startswith(b"PK") else _from_json(content, path)
    if isinstance(state, Mapping):
        state = state.get(STATE, state)
    if isinstance(state, Mapping):
        if "history" not in state:
            raise _no_history(sorted(map(str, state)))
        state = state["history"]
    return state


def _from_json(content: bytes, path: Path) -> Any:
    try:
        return json.loads(content)
    except ValueError as error:
        raise DataError(
            f"{path} is neither JSON nor a file of torch.save: write it by {SAVED}",
            field="opacus_history",
            value=str(path),
            allowed=("JSON", "torch.save"),
        ) from error


def _from_torch(path: Path) -> Any:
    import torch

    try:
        return torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:
        raise DataError(
            f"{path} holds more than tensors and plain values, which is not loaded, since that could run "
            "code: "
            f"write the history by {SAVED}",
            field="opacus_history",
            value=str(path),
            allowed="tensors and plain values",
        ) from error


def _numbers(entry: Any) -> tuple[float, float, int]:
    """Noise multiplier, sampling rate and number of steps."""
    whole = isinstance(entry, Sequence) and not isinstance(entry, str) and len(entry) == 3
    plain = whole and all(isinstance(each, int | float) and math.isfinite(each) for each in entry)
    if not plain or entry[0] < 0 or not 0 <= entry[1] <= 1 or entry[2] < 1 or entry[2] != int(entry[2]):
        raise _no_history(entry)
    return float(entry[0]), float(entry[1]), int(entry[2])


def _run(noise: float, rate: float, steps: int) -> DpEvent:
    return SelfComposedDpEvent(PoissonSampledDpEvent(rate, GaussianDpEvent(noise)), steps)


def _no_history(found: Any) -> DataError:
    return DataError(
        f"no history of Opacus: {found!r}; expected are [noise multiplier, sampling rate in 0 to 1, steps] "
        "for every "
        f"run of equal steps, as written by {SAVED}",
        field="opacus_history",
        value=found,
        allowed="[[noise_multiplier, sample_rate, steps], ...]",
    )

"""Opacus's history is priced as Opacus prices it, and never unpickled."""

import json
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from dp_accounting import GaussianDpEvent, PoissonSampledDpEvent, SelfComposedDpEvent
from opacus.accountants import PRVAccountant, RDPAccountant

from harness.audit.ledger_file import price_ledger, read_history
from workloads.errors import DataError

DELTA = 1e-5


def accountant() -> RDPAccountant:
    found = RDPAccountant()
    for noise, steps in ((1.5, 200), (2.0, 100)):
        for _ in range(steps):
            found.step(noise_multiplier=noise, sample_rate=0.02)
    return found


def test_the_price_is_at_most_opacus_own_and_close_to_it() -> None:
    own = accountant()
    found = price_ledger(own, DELTA)
    assert found.releases == 300
    epsilon = found.guarantee.epsilon
    assert epsilon is not None
    prv = PRVAccountant()
    prv.history = list(own.history)
    assert epsilon == pytest.approx(prv.get_epsilon(delta=DELTA), rel=0.02)
    assert epsilon < own.get_epsilon(delta=DELTA)
    assert found.guarantee.ceilings is not None
    assert 0.01 < found.guarantee.ceilings.tpr["0.01"] < 0.5


def write_json(state: Any, file: Path) -> None:
    file.write_text(json.dumps(state))


def write_history(state: Any, file: Path) -> None:
    file.write_text(json.dumps(state["history"]))


def write_checkpoint(state: Any, file: Path) -> None:
    weights = torch.nn.Linear(2, 2).state_dict()
    torch.save({"module_state_dict": weights, "privacy_accountant_state_dict": state}, file)


@pytest.mark.parametrize("write", [write_json, write_history, torch.save, write_checkpoint])
def test_every_form_of_the_state_is_read(write: Callable[[Any, Path], None], tmp_path: Path) -> None:
    own = accountant()
    write(own.state_dict(), tmp_path / "state")
    assert [tuple(entry) for entry in read_history(tmp_path / "state")] == own.history


class Harmful:
    def __reduce__(self) -> tuple[Any, ...]:
        return (Path.touch, (Path("harmed"),))


def test_a_file_that_would_run_code_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    torch.save({"history": Harmful()}, tmp_path / "zip")
    (tmp_path / "pickle").write_bytes(pickle.dumps(Harmful()))
    for name in ("zip", "pickle"):
        with pytest.raises(DataError) as caught:
            read_history(tmp_path / name)
        assert caught.value.field == "opacus_history"
    assert not (tmp_path / "harmed").exists()


@pytest.mark.parametrize(
    "history",
    [[], [[1.0, 0.1]], [[1.0, 1.5, 3]], [[1.0, 0.1, 2.5]], [[1.0, 0.1, 0]], [[-1.0, 0.1, 3]], "abc", 7],
)
def test_what_is_no_history_is_refused(history: Any, tmp_path: Path) -> None:
    write_json({"history": history, "mechanism": "rdp"}, tmp_path / "state")
    with pytest.raises(DataError) as caught:
        price_ledger(tmp_path / "state", DELTA)
    assert caught.value.field == "opacus_history"


def test_a_state_without_history_or_a_missing_file_is_refused(tmp_path: Path) -> None:
    write_json({"mechanism": "rdp"}, tmp_path / "state")
    for file, value in ((tmp_path / "state", ["mechanism"]), (tmp_path / "none", str(tmp_path / "none"))):
        with pytest.raises(DataError) as caught:
            price_ledger(file, DELTA)
        assert (caught.value.field, caught.value.value) == ("opacus_history", value)
    with pytest.raises(DataError) as caught:
        price_ledger(3.0, DELTA)
    assert (caught.value.field, caught.value.value) == ("ledger", "float")


def test_an_event_is_a_ledger_and_one_without_noise_promises_nothing() -> None:
    event = SelfComposedDpEvent(PoissonSampledDpEvent(0.02, GaussianDpEvent(1.5)), 200)
    assert price_ledger(event, DELTA).guarantee.kind == "approximate-dp"
    bare = price_ledger(SelfComposedDpEvent(PoissonSampledDpEvent(0.02, GaussianDpEvent(0.0)), 200), DELTA)
    assert (bare.guarantee.kind, bare.guarantee.epsilon, bare.guarantee.ceilings) == ("none", None, None)

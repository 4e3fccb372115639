"""Outputs in, a result out: without torch, without an epsilon, the same from arrays and from files."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from harness.audit.door import audit
from harness.audit.leakage_audit import SCHEMA, LeakageAudit
from workloads.errors import DataError, UnknownName

WITHOUT_TORCH = """
import sys

class Refused:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("torch", "opacus", "torchvision"):
            raise ImportError(f"{name} must not be imported")

sys.meta_path.insert(0, Refused())
import privbench
found = privbench.audit(members=sys.argv[1], others=sys.argv[2], ledger=sys.argv[3])
privbench.write_audit_page(found, sys.argv[4])
from harness.cli.app import main
sys.argv = ["privbench", "audit", "--members", sys.argv[1], "--others", sys.argv[2], "--out", sys.argv[4]]
main()
"""


def plain(found: LeakageAudit) -> dict[str, Any]:
    """What does not depend on when and from what files it was made."""
    content = found.model_dump(exclude={"provenance": True, "target": True, "data": {"files"}})
    return dict(content)


@pytest.fixture
def files(simulated: Callable[..., Any], tmp_path: Path) -> list[Path]:
    made = [tmp_path / "members.npz", tmp_path / "others.npz"]
    for file, arrays in zip(made, simulated(shadows=3), strict=True):
        np.savez(file, **arrays)
    return made


def test_torch_is_not_needed(files: list[Path], tmp_path: Path) -> None:
    (tmp_path / "history.json").write_text('{"history": [[1.1, 0.05, 40]], "mechanism": "rdp"}')
    words = [*files, tmp_path / "history.json", tmp_path / "out"]
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_TORCH, *map(str, words)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert {each.name for each in (tmp_path / "out").iterdir()} == {"audit.html", "audit.json", "audit.pdf"}


def test_arrays_and_files_and_one_file_are_the_same(
    files: list[Path], simulated: Callable[..., Any], tmp_path: Path
) -> None:
    members, others = simulated(shadows=3)
    first = plain(audit(members=members, others=others))
    assert plain(audit(members=files[0], others=str(files[1]))) == first
    joined = {
        name: np.concatenate([each, others[name]], axis=1 if "shadow" in name else 0)
        for name, each in members.items()
    }
    joined["member"] = np.arange(1200) < 600
    kept: dict[str, Any] = dict(joined)
    np.savez(tmp_path / "one.npz", **kept)
    found = audit(members=tmp_path / "one.npz")
    assert plain(found) == first
    assert list(found.data.files) == ["members"]
    assert plain(audit(members=joined)) == first


def test_it_is_deterministic(simulated: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "0")
    members, others = simulated(shadows=3)
    assert audit(members=members, others=others) == audit(members=members, others=others)


def test_an_epsilon_is_stated_only_of_a_ledger(simulated: Callable[..., Any]) -> None:
    members, others = simulated(shadows=3)
    assert "epsilon" not in audit(members=members, others=others).model_copy(
        update={"canary_audits": {}}
    ).model_dump_json(exclude_none=True)
    from dp_accounting import GaussianDpEvent

    found = audit(members=members, others=others, ledger=GaussianDpEvent(2.0), delta=1e-6)
    assert found.ledger is not None
    assert found.ledger.guarantee.delta == 1e-6
    assert "canaries" in found.shows_not[-1]
    most = found.ledger.guarantee.ceilings
    assert most is not None
    assert f"{100 * most.tpr['0.01']:.1f} %" in found.ceiling_lines()[1]


def test_the_result_is_read_back_and_ignores_what_is_new(simulated: Callable[..., Any]) -> None:
    members, others = simulated()
    found = audit(members=members, others=others)
    assert found.schema_version == SCHEMA == 1
    again = LeakageAudit.model_validate_json(found.model_dump_json())
    assert again.model_dump() == found.model_dump()
    newer = LeakageAudit.model_validate({**found.model_dump(), "added": 1})
    assert newer.model_dump() == found.model_dump()


def test_the_sentence_states_the_headline(simulated: Callable[..., Any]) -> None:
    members, others = simulated(1000, 1000, shadows=3)
    found = audit(members=members, others=others)
    rate = found.figures().metrics.tpr["0.01"]
    assert rate.value is not None
    assert f"finds {100 * rate.value:.1f} " in found.meaning
    few = audit(members={"losses": np.linspace(0, 1, 61)}, others={"losses": np.linspace(0.2, 1.4, 60)})
    assert "of 100 cases" in few.meaning
    values = {each.attack: each.metrics.tpr["0.01"].value or 0 for each in found.attacks}
    best = max(values, key=lambda attack: values[attack])
    assert (found.highest is None) == (values[best] == values[found.headline])


def test_wrong_requests_are_refused(simulated: Callable[..., Any]) -> None:
    members, others = simulated()
    with pytest.raises(DataError) as caught:
        audit(others=others)
    assert caught.value.field == "members"
    with pytest.raises(DataError) as caught:
        audit(members=[1, 2], others=others)
    assert (caught.value.field, caught.value.value) == ("members", "list")
    with pytest.raises(UnknownName) as unknown:
        audit(members=members, others=others, attacks=["lirra"])
    assert unknown.value.nearest == "lira"
    with pytest.raises(DataError) as caught:
        audit(members=members, others=others, attacks=["lira"])
    assert (caught.value.field, caught.value.value) == ("attacks", ("lira",))

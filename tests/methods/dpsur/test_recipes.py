"""The paper's settings per data set and epsilon reach the task, and allow as many updates as it states."""

from typing import Any

import pytest

from harness.accounting import Filter
from harness.accounting.accountants.selective import Selection, acceptance
from harness.papers.published_tables import Published, published
from harness.plan.plan import make_plan
from harness.plan.sweep_file import read_sweep
from workloads.errors import SpecError

KINDS = ("scatter-cnn", "scatter-linear", "cnn")
STATED = [each for each in published() if each.table.name == "dpsur-table-2" and each.cell.method == "dpsur"]
UPDATES = {  # the paper's limits; MNIST and CIFAR-10 by Theorem 5.6 alone, without a normalisation's share
    "mnist-scatter-cnn": (576, 1007, 1585, 2386),
    "fmnist-scatter-cnn": (651, 681, 1081, 1972),
    "cifar10-scatter-cnn": (243, 601, 496, 830),
    "imdb-lstm": (99, 298, 286, 371),
}


def planned(workload: str, **given: Any) -> dict[str, Any]:
    sweep = {"grid": [{"workload": workload, "method": "dpsur", **given}], "models": 1}
    return dict(make_plan(*read_sweep(sweep, "test"), None).cells[0].params)


@pytest.mark.parametrize("line", STATED, ids=lambda line: str(line.key))
def test_a_task_holds_what_the_paper_states(line: Published) -> None:
    params = planned(line.cell.workload or "", charge="paper", **line.cell.params)
    stated = {name: value for name, value in line.cell.stated.items() if name in params}
    assert {"sigma_t", "sigma_v", "C_v", "beta", "batch_size", "clip", "delta"} <= stated.keys()
    assert {name: params[name] for name in stated} == stated


def test_all_four_data_sets_are_there() -> None:
    assert sorted({line.cell.workload or "" for line in STATED}) == sorted(UPDATES)
    assert len(STATED) == 16


@pytest.mark.parametrize(("workload", "level"), [(name, level) for name in UPDATES for level in (0, 3)])
def test_the_papers_charge_admits_the_papers_updates(workload: str, level: int) -> None:
    (line,) = [
        each for each in STATED if each.cell.workload == workload and each.cell.params["epsilon"] == level + 1
    ]
    n, params = line.n_train, planned(workload, epsilon=level + 1)
    assert n is not None
    rates = (params["batch_size"] / n, params["sigma_t"], params["B_v"] / n, params["sigma_v"])
    attempt = Selection(*rates, accepted=1, attempts=1).event()
    updates = Filter(level + 1, params["delta"], attempt).remaining_uses(attempt)
    assert updates == UPDATES[workload][level]
    assert params["steps"] > updates / acceptance(params["sigma_v"], params["beta"])[1]


def test_a_missing_epsilon_is_refused() -> None:
    with pytest.raises(SpecError, match=r"\(digits-mlp, dpsur\): epsilon is missing"):
        planned("digits-mlp")


@pytest.mark.parametrize("name", ["mnist", "fmnist", "cifar10"])
def test_networks_on_one_data_set_share_its_settings(name: str) -> None:
    for epsilon in (1, 2, 3, 4):
        one, *others = (planned(f"{name}-{kind}", epsilon=epsilon) for kind in KINDS)
        assert others == [one, one]

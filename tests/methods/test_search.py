"""Search spaces: points, ranges, and the way from a point to parameters."""

import math
import subprocess
import sys
from typing import Any, cast

import pytest
from dp_accounting import DpEvent

import methods
from harness.accounting import price
from harness.plan.solving import solve_noise
from methods.base import Count, Params
from methods.search import AXES, Search, Space, points, round_up, space
from workloads.errors import SpecError, UnknownName
from workloads.recipe import Recipe

LOW, MIDDLE, HIGH = [0.0] * AXES, [0.5] * AXES, [1.0] * AXES


def unsolved(event: Any, epsilon: float, delta: float) -> float:
    raise AssertionError("no noise is to be solved for")


def trial(name: str, point: list[float], n_train: int, **known: Any) -> dict[str, Any]:
    return space(methods.family.get(name)).at(n_train).trial(point, n_train, known, unsolved)


def ranges(found: Space) -> dict[str, tuple[Any, ...]]:
    return {axis.name: axis.search.choices or (axis.search.low, axis.search.high) for axis in found.axes}


DP: dict[str, tuple[float, ...]] = {
    "step": (0.1, 16),
    "rate": (1 / 16, 1),
    "epochs": (4, 100),
    "clip": (0.1, 3),
}
PLAIN: dict[str, tuple[float, ...]] = {
    "step": (0.02, 2),
    "rate": (1 / 64, 1 / 4),
    "epochs": (8, 64),
    "momentum": (0.0, 0.9),
}
SPACES: dict[str, dict[str, tuple[float, ...]]] = {
    "sgd": PLAIN,
    "dp-sgd": DP,
    "dpsgd-ts": DP | {"scale": (1, 4), "temperature": (0.5, 4)},
    "dpsgd-hf": DP | {"norm_noise": (4, 32)},
    "dpis": DP | {"boost": (1.05, 2), "normaliser_noise": (30, 300)},
    "dpsur": DP | {"test_share": (0.05, 0.5), "beta": (-1, 0)},
    "dpagd": {
        "step_max": (0.5, 8),
        "splits": (10, 120),
        "clip": (0.1, 3),
        "C_obj": (1, 10),
        "gamma": (0.05, 0.5),
    },
    "dirdp-sgd": {"learning_rate": (0.05, 5), "batch_size": (2, 64), "epochs": (8, 64)},
    "pate": {
        "learning_rate": (0.01, 0.5),
        "members_per_teacher": (5, 60),
        "epochs": (8, 128),
        "queries": (20, 400),
        "teacher_learning_rate": (0.02, 1),
    },
    "dp-gan": {
        "discriminator_rate": (5e-4, 2e-2),
        "rate": (1 / 16, 1),
        "epochs": (4, 100),
        "clip": (0.1, 3),
        "generator_rate": (2e-4, 1e-2),
        "generator_every": (1, 2, 3),
    },
    "pd-sgd": {"step": (0.02, 1), "rate": (1 / 32, 1 / 4), "epochs": (8, 64)},
    "selena": PLAIN | {"distil_share": (1, 2)},
    "advreg": PLAIN | {"adversary_rate": (1e-5, 1e-3)},
    "memguard": PLAIN,
}


@pytest.mark.parametrize("name", SPACES)
def test_the_space_is_that_of_the_table(name: str) -> None:
    assert ranges(space(methods.family.get(name))) == SPACES[name]


def test_shared_roles_have_the_same_axis_in_every_method() -> None:
    roles = {"step": 0, "rate": 1, "epochs": 2, "clip": 3}
    for name in methods.family.names():
        for axis in space(methods.family.get(name)).axes:
            assert roles.get(axis.name, axis.place) == axis.place, (name, axis.name)


# -- points ----------------------------------------------------------------------------------------


def test_the_points_are_those_of_the_specification() -> None:
    expected = (0.071939, 0.398844, 0.778513, 0.824420, 0.991567, 0.537535, 0.445572, 0.278552)
    assert points(1, 0, 0)[0] == pytest.approx(expected, abs=5e-7)
    assert points(1, 0, 1)[0][:4] == pytest.approx((0.253145, 0.912670, 0.335917, 0.237465), abs=5e-7)


@pytest.mark.parametrize("study", range(5))
def test_each_sixteenth_of_every_axis_has_one_of_16_points(study: int) -> None:
    found = points(16, 1_000_003, study)
    for axis in range(AXES):
        assert sorted(int(16 * point[axis]) for point in found) == list(range(16))


@pytest.mark.parametrize("trials", [1, 7, 16])
def test_fewer_points_are_the_first_of_more(trials: int) -> None:
    assert points(trials, 3, 1) == points(32, 3, 1)[:trials]


def test_studies_and_seeds_have_other_points() -> None:
    assert len({points(1, seed, study)[0] for seed in range(3) for study in range(3)}) == 9


# -- from a point to parameters --------------------------------------------------------------------


def test_rate_epochs_and_step_become_batch_size_steps_and_learning_rate() -> None:
    # The middle of a log axis is the geometric mean: rate 1/4, epochs 20, step sqrt(1.6), clip sqrt(.3).
    found = trial("dp-sgd", MIDDLE, 718, epsilon=1.0)
    assert found["batch_size"] == 180  # 179.5 to even
    assert found["steps"] == round(20 * 718 / 180)
    assert found["clip"] == 0.548
    assert found["learning_rate"] == float(f"{math.sqrt(1.6) / math.sqrt(0.3):.3g}")
    assert (found["momentum"], found["averaging"]) == (0.0, 0.0)


def test_momentum_shortens_the_learning_rate_of_a_step() -> None:
    without, with_momentum = MIDDLE[:], MIDDLE[:]
    without[4], with_momentum[4] = 0.49, 0.51
    one, other = trial("sgd", without, 1000), trial("sgd", with_momentum, 1000)
    assert (one["momentum"], other["momentum"]) == (0.0, 0.9)
    assert (one["learning_rate"], other["learning_rate"]) == (0.2, 0.02)


def test_adam_has_learning_rates_of_its_own_and_no_momentum() -> None:
    assert trial("sgd", LOW, 1000, optimizer="adam")["learning_rate"] == 1e-4
    found = trial("sgd", HIGH, 1000, optimizer="adam")
    assert found["learning_rate"] == 3e-2
    assert "momentum" not in found


def test_values_of_the_user_are_not_searched_and_count_for_the_rest() -> None:
    plan = space(methods.family.get("dp-sgd"))
    found = plan.trial(MIDDLE, 718, {"epsilon": 1.0}, unsolved, {"clip": 1.0, "batch_size": 100})
    assert found.keys() == {"steps", "learning_rate", "momentum", "averaging"}
    assert found["steps"] == round(20 * 718 / 100)
    assert found["learning_rate"] == 1.26


def test_a_parameter_without_effect_is_not_set() -> None:
    assert "norm_noise" in trial("dpsgd-hf", MIDDLE, 718, epsilon=1.0, normalisation="private")
    assert "norm_noise" not in trial("dpsgd-hf", MIDDLE, 718, epsilon=1.0, normalisation="group")


def test_derived_values() -> None:
    tempered = trial("dpsgd-ts", HIGH, 718, epsilon=1.0)
    assert (tempered["scale"], tempered["offset"]) == (4.0, 2.0)
    sampled = trial("dpis", MIDDLE, 718, epsilon=1.0)
    assert sampled["refresh_every"] == math.ceil(sampled["steps"] / 4)
    assert trial("pd-sgd", MIDDLE, 718, batches=9)["batches"] is None
    voted = trial("pate", LOW, 700, epsilon=1.0, teacher_batch_size=5)
    assert voted["teachers"] == 140  # of 5 members each
    assert voted["teacher_steps"] == 8  # 8 epochs of one batch
    assert voted["queries"] == 20
    distilled = trial("selena", HIGH, 1000, K=25, L=10)
    assert distilled["steps"] == round(64 * 1000 / 250 * 15 / 25)
    assert distilled["distil_steps"] == 2 * distilled["steps"]


@pytest.mark.parametrize("epsilon", [1.0, 8.0])
def test_a_spent_budget_pays_for_exactly_the_attempts_of_a_trial(epsilon: float) -> None:
    member = methods.family.get("dpsur")
    point = points(1, 0, 0)[0]
    found = space(member).at(718).trial(point, 718, {"epsilon": epsilon}, solve_noise)
    share = space(member).names["test_share"].search.at(point[4])
    assert found["B_v"] == round(found["batch_size"] / 2)
    ratio = found["B_v"] / found["batch_size"] * math.sqrt((1 - share) / share)
    assert found["sigma_v"] == pytest.approx(found["sigma_t"] * ratio, rel=0.01)

    event = cast(DpEvent, attempts(found, 718))
    spent = price(event, 1e-5).epsilon
    assert spent is not None
    assert 0.97 * epsilon < spent <= epsilon


def attempts(values: dict[str, Any], n_train: int) -> Any:
    """The event of all attempts, written out."""
    from dp_accounting import ComposedDpEvent, GaussianDpEvent, PoissonSampledDpEvent, SelfComposedDpEvent

    sums = (("batch_size", "sigma_t"), ("B_v", "sigma_v"))
    each = [PoissonSampledDpEvent(values[b] / n_train, GaussianDpEvent(values[s])) for b, s in sums]
    return SelfComposedDpEvent(ComposedDpEvent(each), values["steps"])


@pytest.mark.parametrize(
    ("value", "expected"), [(1.0, 1.0), (1.001, 1.01), (0.01234, 0.0124), (9.991, 10.0), (12345.0, 12400.0)]
)
def test_noise_is_rounded_up(value: float, expected: float) -> None:
    assert round_up(value) == expected


# -- ranges ----------------------------------------------------------------------------------------


def test_many_members_have_smaller_rates_and_fewer_epochs() -> None:
    declared = space(methods.family.get("dp-sgd"))
    assert ranges(declared.at(4_999))["rate"] == (1 / 16, 1)
    assert ranges(declared.at(5_000))["rate"] == (32 / 5_000, 1.0)
    assert ranges(declared.at(50_000))["rate"] == (1 / 256, 8192 / 50_000)
    assert ranges(declared.at(19_999))["epochs"] == (4, 100)
    assert ranges(declared.at(20_000))["epochs"] == (4, 64)
    assert ranges(space(methods.family.get("sgd")).at(50_000))["rate"] == (1 / 64, 1 / 4)


def test_queries_are_at_most_the_public_records() -> None:
    declared = space(methods.family.get("pate"))
    assert ranges(declared.at(718, 180))["queries"] == (20, 180)
    with pytest.raises(SpecError) as caught:
        declared.at(718, 10)
    assert (caught.value.field, caught.value.allowed) == ("queries", (20, 400))


def test_a_recipe_narrows_the_axes_of_all_methods_and_of_one() -> None:
    book = Recipe(search={"epochs": [40, 200], "momentum": [0.9], "dp-gan": {"clip": [1, 2]}})
    plain, forged = (space(methods.family.get(name)) for name in ("sgd", "dp-gan"))
    assert ranges(plain.narrow(book.ranges("sgd", plain.names)))["momentum"] == (0.9,)
    found = ranges(forged.narrow(book.ranges("dp-gan", forged.names)))
    assert (found["epochs"], found["clip"]) == ((40, 100), (1, 2))


def test_a_sweep_may_widen_an_axis() -> None:
    declared = space(methods.family.get("dp-sgd"))
    assert ranges(declared.choose({"clip": [0.1, 10]}))["clip"] == (0.1, 10)
    assert ranges(declared.choose({"clip": [0.1, 1.0]}))["clip"] == (0.1, 1.0)
    with pytest.raises(SpecError) as caught:
        declared.choose({"clip": [0, 1]})
    assert (caught.value.field, caught.value.value) == ("clip", (0.0, 1.0))


@pytest.mark.parametrize("change", [Space.narrow, Space.choose])
@pytest.mark.parametrize(
    ("name", "axis", "given"),
    [("dp-sgd", "clip", [4, 5]), ("dp-sgd", "clip", [3, 9]), ("sgd", "momentum", [0.5])],
)
def test_an_empty_intersection_is_refused(change: Any, name: str, axis: str, given: list[float]) -> None:
    with pytest.raises(SpecError) as caught:
        change(space(methods.family.get(name)), {axis: given})
    assert (caught.value.field, caught.value.value) == (axis, tuple(given))


@pytest.mark.parametrize("given", [[1], [2, 1], [1, 2, 3], ["a", 2], [True, 2], [math.nan, 1], [1, math.inf]])
def test_a_range_is_two_numbers(given: list[Any]) -> None:
    with pytest.raises(SpecError) as caught:
        space(methods.family.get("dp-sgd")).narrow({"clip": given})
    assert caught.value.allowed == "[low, high]"


def test_levels_and_unknown_axes_cannot_be_searched() -> None:
    declared = space(methods.family.get("dp-sgd"))
    with pytest.raises(UnknownName) as caught:
        declared.choose({"epsilon": [1, 8]})
    assert caught.value.value == "epsilon"
    with pytest.raises(UnknownName) as strange:
        Recipe(search={"sgd": {"clipp": [1, 2]}}).ranges("sgd", space(methods.family.get("sgd")).names)
    assert strange.value.value == "clipp"


@pytest.mark.parametrize("given", [(1, 1, "log"), (2, 1, "log"), (0, 1, "log"), (math.nan, 1, "linear")])
def test_a_search_needs_a_range(given: Any) -> None:
    with pytest.raises(ValueError, match="low < high"):
        Search(*given)


def test_no_two_parameters_have_one_axis() -> None:
    from typing import Annotated

    class Crowded(Params):
        one: Annotated[Count, Search(1, 2, axis=3)] = 1
        other: Annotated[Count, Search(1, 2, axis=3)] = 1

    with pytest.raises(SpecError) as caught:
        space(cast(Any, type("Method", (), {"Params": Crowded})()))
    assert caught.value.field == "other"


def test_it_loads_no_torch() -> None:
    code = "import sys, methods.search; methods.search.points(4, 0, 0); sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-P", "-c", code], check=False).returncode == 0


def test_the_facts_of_a_method_state_its_space() -> None:
    from harness.cli.members import page

    found = {each["parameter"]: each["tuned"] for each in page("method", "dpsur")["parameters"]}
    assert found["beta"] == "-1 to 0, linear"
    assert found["steps"] == "epochs 4 to 100, log"
    assert (found["charge"], found["epsilon"]) == ("level", "level")
    assert (found["C_v"], found["B_v"], found["optimizer"]) == ("fixed at 0.001", "fixed", None)

"""What errors carry besides their sentence."""

import pickle

from workloads.errors import BenchError, SpecError, UnknownName


def test_an_error_carries_field_value_and_bound() -> None:
    error = SpecError("count must be >= 1, got 0", field="count", value=0, allowed=1)
    assert (error.field, error.value, error.allowed, error.problems) == ("count", 0, 1, [str(error)])
    plain = BenchError("broken")
    assert (plain.field, plain.value, plain.allowed) == (None, None, None)


def test_attributes_survive_a_process() -> None:
    error = pickle.loads(pickle.dumps(BenchError("count must be >= 1", field="count", value=0, allowed=1)))
    assert (str(error), error.field, error.value, error.allowed) == ("count must be >= 1", "count", 0, 1)


def test_an_unknown_name_has_the_nearest_known_one() -> None:
    error = UnknownName("method", "dpsgd", ["sgd", "dp-sgd"])
    assert (error.field, error.value, error.allowed) == ("method", "dpsgd", ("dp-sgd", "sgd"))
    assert error.nearest == "dp-sgd"
    assert UnknownName("method", "quince", ["sgd"]).nearest is None

"""Checks of members: good ones hold, and each way to break a contract is found by name."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar

import numpy as np
import pytest
import torch
from dp_accounting import NonPrivateDpEvent
from pydantic import Field
from torch import nn

import methods
import workloads
from harness import attacks
from harness.attacks.base import Evidence, Floats
from harness.checks import Family, check_member
from harness.checks.contract import Finding, attempt
from harness.checks.method_contract import METHOD, CheckedMethod
from methods.base import Count, Fraction, Params, Problem, Rate, Released, Run
from methods.search import Fixed, Search
from tests.harness.own_data import OwnData, Persons
from workloads.base import Records
from workloads.errors import UnknownName


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.getbasetemp() / "cache"))


@pytest.fixture
def member(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Make an object a member of a family, under the name `own-data`."""
    families: dict[str, Any] = {"workload": workloads, "method": methods, "attack": attacks}

    def add(kind: str, thing: object) -> None:
        monkeypatch.setitem(families[kind].family.members, "own-data", thing)

    yield add


def found(kind: Family, name: str = "own-data") -> dict[str, Finding]:
    count, findings = check_member(kind, name)
    listed = list(findings)
    assert len(listed) == count
    return {each.check: each for each in listed}


def failed(kind: Family, name: str = "own-data") -> set[str]:
    return {name for name, each in found(kind, name).items() if each.state == "failed"}


def test_an_unknown_name_is_refused() -> None:
    with pytest.raises(UnknownName):
        check_member("method", "dpsgd")


def test_a_test_record_in_the_pool_is_found_once(member: Any) -> None:
    member("workload", OwnData("pool in test"))
    assert found("workload")["one record a person"].state == "ok"


def test_a_good_workload_holds(member: Any) -> None:
    member("workload", OwnData())
    states = {name: each.state for name, each in found("workload").items()}
    assert states.pop("public records") == "skipped"
    assert states.pop("its recipe fits every method") == "warning"
    assert set(states.values()) == {"ok"}


class Moody(OwnData):
    """Other records at every call."""

    def pool(self) -> Records:
        good: Records = super().pool()
        return Records(good.x + torch.rand(1, generator=torch.Generator().manual_seed(next(calls))), good.y)


calls = iter(range(10_000))


class Unseeded(OwnData):
    """A model from torch's global random state."""

    def model(self, seed: int) -> nn.Module:
        return nn.Linear(5, 3)


class Squeezed(OwnData):
    """A model that loses the dimension of a batch of one."""

    def model(self, seed: int) -> nn.Module:
        return nn.Sequential(super().model(seed), Squeeze())


class Squeeze(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.squeeze()


@pytest.mark.parametrize(
    ("workload", "broken"),
    [
        (replace(OwnData(), name="another"), "describes itself"),
        (replace(OwnData(), about=""), "describes itself"),
        (OwnData("labels from 1"), "records can be used"),
        (replace(OwnData(), n_train=60), "members and non-members"),
        (Moody(), "same records every time"),
        (OwnData("pool in test"), "no test record in the pool"),
        (Squeezed(), "logits for any batch"),
        (Unseeded(), "the seed decides the model"),
    ],
)
def test_a_broken_workload_is_found(member: Any, workload: OwnData, broken: str) -> None:
    member("workload", workload)
    report = found("workload")
    assert report[broken].state == "failed"
    assert report[broken].found and report[broken].advice


@pytest.mark.parametrize(
    ("workload", "name"),
    [(Persons(), "one record a person"), (OwnData("batch normalisation"), "per-example methods")],
)
def test_what_costs_something_is_a_warning(member: Any, workload: OwnData, name: str) -> None:
    member("workload", workload)
    assert found("workload")[name].state == "warning"


class ShortParams(Params):
    """The length of the training, and of its steps."""

    steps: Annotated[Count, Search(8, 64, axis=2)] = Field(default=10, description="Training steps.")
    learning_rate: Annotated[Rate, Search(0.01, 1, axis=0)] = Field(default=0.1, description="Step size.")
    momentum: Annotated[Fraction, Search(choices=(0.0, 0.9))] = Field(default=0.9, description="Momentum.")


class UndeclaredParams(ShortParams):
    """A parameter that a search knows nothing of."""

    decay: Fraction = Field(default=0.0, description="Does nothing.")


class NarrowParams(Params):
    """Two parameters to search are too few."""

    steps: Annotated[Count, Search(8, 64, axis=2)] = Field(default=10, description="Training steps.")
    learning_rate: Annotated[Rate, Search(0.01, 1, axis=0)] = Field(default=0.1, description="Step size.")
    momentum: Annotated[Fraction, Fixed()] = Field(default=0.9, description="Momentum.")


class ImpossibleParams(ShortParams):
    """The end of an axis is not a value of its parameter."""

    momentum: Annotated[Fraction, Search(0.5, 1.5)] = Field(default=0.9, description="Momentum.")


@dataclass(frozen=True)
class Plain:
    """Full-batch gradient descent; `mistake` names what is wrong with it."""

    mistake: str = ""
    version: ClassVar[str] = "1"
    about: str = "gradient descent"
    source: ClassVar[str] = "Cauchy 1847"
    guarantee: ClassVar[str] = "none"
    caveats: ClassVar[tuple[str, ...]] = ()
    Params: type[Params] = ShortParams

    def train(self, members: Records, problem: Problem, params: ShortParams, run: Run) -> Any:
        if self.mistake == "randomness of its own":
            members = Records(members.x + 0.01 * float(np.random.default_rng().random()), members.y)
        model = problem.model(1 if self.mistake == "fixed seed" else run.seed("init"))
        momentum = 0.9 if self.mistake == "ignores a parameter" else params.momentum
        optimizer = torch.optim.SGD(model.parameters(), lr=params.learning_rate, momentum=momentum)
        state: dict[str, Any] = {"model": model, "optimizer": optimizer}
        if self.mistake == "forgets its momentum":
            del state["optimizer"]
        for _ in run.steps("train", params.steps, state):
            loss = problem.loss(model(members.x), members.y).mean()
            optimizer.zero_grad()
            torch.autograd.backward(loss)
            optimizer.step()
            if self.mistake != "observes nothing":
                run.observe(loss=loss.detach())
        if self.mistake == "returns the model":
            return model
        released = nn.Sequential(model) if self.mistake == "wraps its model" else model
        return Released(released.eval(), NonPrivateDpEvent())


@pytest.mark.parametrize(
    ("mistake", "broken"),
    [
        ("", set()),
        ("randomness of its own", {"same seed, same bits"}),
        ("fixed seed", {"another seed, other bits"}),
        ("forgets its momentum", {"resumes"}),
        ("observes nothing", {"infinite features"}),
        ("wraps its model", {"saved weights are the model"}),
        ("returns the model", {"same seed, same bits", "resumes"}),
        ("ignores a parameter", {"reads what is searched"}),
    ],
)
@pytest.mark.slow
def test_a_broken_method_is_found(member: Any, mistake: str, broken: set[str]) -> None:
    member("method", Plain(mistake))
    assert failed("method") >= broken
    assert bool(failed("method")) == bool(broken)


@pytest.mark.parametrize("kind", [UndeclaredParams, NarrowParams, ImpossibleParams])
def test_a_broken_search_space_is_found(member: Any, kind: type[Params]) -> None:
    member("method", Plain(Params=kind))
    (check,) = [each for each in METHOD if each.name == "can be tuned"]
    assert attempt(check, CheckedMethod("own-data"))[0] == "failed"


@pytest.mark.slow
def test_a_method_without_a_word_about_itself_is_found(member: Any) -> None:
    member("method", replace(Plain(), about=""))
    assert failed("method") == {"describes itself"}


@dataclass(frozen=True)
class Confidence:
    """The label's rescaled logit; `mistake` names what is wrong with it."""

    mistake: str = ""
    version: ClassVar[str] = "1"
    about: ClassVar[str] = "confidence"
    source: ClassVar[str] = "nobody"
    caveats: ClassVar[tuple[str, ...]] = ()
    Params: ClassVar[type[Params]] = Params
    shadows: ClassVar[int] = 0

    def scores(self, evidence: Evidence, params: Any) -> Floats:
        scores = np.array(evidence.phi, dtype=np.float64)
        if self.mistake == "reads members":
            scores += evidence.members
        if self.mistake == "wrong sign":
            scores = -scores
        if self.mistake == "single precision":
            scores = scores.astype(np.float32)
        if self.mistake == "NaN":
            scores[0, 0] = np.nan
        if self.mistake == "changes the evidence":
            evidence.logits[0, 0] += 1
        if self.mistake == "random":
            scores += np.random.default_rng().random(scores.shape)
        return scores


@pytest.mark.parametrize(
    ("mistake", "broken"),
    [
        ("", set()),
        ("reads members", {"nothing where nothing leaks", "row m does not know its members"}),
        ("wrong sign", {"finds members that were memorised"}),
        ("single precision", {"one finite score each"}),
        ("NaN", {"one finite score each", "one, two or three models"}),
        ("random", {"same input, same output"}),
        ("changes the evidence", {"same input, same output"}),
    ],
)
def test_a_broken_attack_is_found(
    member: Any, mistake: str, broken: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from harness.checks import attack_contract, simulated_models

    if mistake == "changes the evidence":  # leave the others their evidence
        fresh = simulated_models.null_evidence.__wrapped__()
        monkeypatch.setattr(attack_contract, "null_evidence", lambda: fresh)
    member("attack", Confidence(mistake))
    assert failed("attack") >= broken
    assert bool(failed("attack")) == bool(broken)


def test_other_kinds_of_attacks_are_checked_for_what_they_say() -> None:
    report = found("attack", "dlg")
    assert report["describes itself"].state == "ok"
    assert {each.state for name, each in report.items() if name != "describes itself"} == {"skipped"}

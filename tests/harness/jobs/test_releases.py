"""The releases of a run, and the ledger composed of exactly these."""

from pathlib import Path
from typing import Any

import pytest
import torch
from dp_accounting import (
    ComposedDpEvent,
    DpEvent,
    GaussianDpEvent,
    NonPrivateDpEvent,
    NoOpDpEvent,
    PoissonSampledDpEvent,
    SampledWithoutReplacementDpEvent,
    SelfComposedDpEvent,
    ZCDpEvent,
)
from torch import Tensor

from harness.jobs.checkpoint import write_checkpoint
from harness.jobs.releases import Release, pack, unpack
from harness.jobs.run import Interrupted, Run
from methods.base import Noise
from methods.mechanisms.events import NoisyVotesDpEvent, PureDpEvent, SelectiveReleaseDpEvent
from workloads.base import Records
from workloads.errors import AccountingError, SpecError

CPU = torch.device("cpu")
GAUSSIAN, PURE = GaussianDpEvent(2.0), PureDpEvent(0.1)


def run_of(name: str = "name", **settings: Any) -> Run:
    return Run(name, CPU, **settings)


def records(count: int = 10) -> Records:
    return Records(torch.arange(count), torch.arange(count))


def noise_of(run: Run, name: str = "sums", event: DpEvent = GAUSSIAN) -> Noise:
    return run.noise(name, [torch.zeros(3)], 4.0, sensitivity=2.0, event=event)


def release_once(run: Run, name: str, event: Any = PURE, **settings: Any) -> float:
    settings = {"sensitivity": 1.0, "scale": 0.5} | settings
    found: float = run.mechanism(name, 3.0, lambda value, _: value + 1, event=event, **settings)
    return found


# -- the ledger --------------------------------------------------------------------------------


def test_the_ledger_is_what_was_released() -> None:
    run = run_of()
    noise = noise_of(run)
    assert run.ledger() == NoOpDpEvent(), "unused noise costs nothing"
    for _ in range(5):
        noise.noisy_mean([torch.ones(3)], 2.0)
    assert run.ledger() == SelfComposedDpEvent(GAUSSIAN, 5)
    assert release_once(run, "bound", once=True) == 4.0
    release_once(run, "choice")
    bound, choice = PURE, SelfComposedDpEvent(PURE, 1)
    assert run.ledger() == ComposedDpEvent([SelfComposedDpEvent(GAUSSIAN, 5), bound, choice])


def test_names_stand_in_the_order_in_which_they_came_up_and_equal_events_are_counted_together() -> None:
    run = run_of()
    noise = noise_of(run)
    for sensitivity in (1.0, 2.0, 1.0):
        release_once(run, "normalisers", sensitivity=sensitivity)
    for divisor in (2.0, 5.0, 2.0):
        noise.noisy_mean([torch.ones(3)], divisor)
    assert run.ledger() == ComposedDpEvent([SelfComposedDpEvent(GAUSSIAN, 3), SelfComposedDpEvent(PURE, 3)])
    lines = [(line.name, line.sensitivity, line.scale, line.divisor, line.count) for line in run.releases]
    assert lines == [
        ("sums", 2.0, 4.0, 2.0, 2),
        ("sums", 2.0, 4.0, 5.0, 1),
        ("normalisers", 1.0, 0.5, 1.0, 2),
        ("normalisers", 2.0, 0.5, 1.0, 1),
    ]


def test_one_release_without_noise_leaves_no_guarantee() -> None:
    run = run_of()
    release_once(run, "bound")
    release_once(run, "test", NonPrivateDpEvent())
    assert run.ledger() == NonPrivateDpEvent()


def test_an_event_may_depend_on_what_came_out() -> None:
    run = run_of()
    release_once(run, "comparison", lambda value, released: PureDpEvent(value / released))
    assert run.ledger() == SelfComposedDpEvent(PureDpEvent(0.75), 1)


def test_an_event_for_all_must_count_what_was_released() -> None:
    run = run_of()
    noise = noise_of(run)
    for _ in range(3):
        noise.noisy_mean([torch.ones(3)], 1.0)
        release_once(run, "test")
    attempt = ComposedDpEvent([GAUSSIAN, PURE])
    whole = SelectiveReleaseDpEvent(attempt, accepted=1, attempts=3)
    assert run.ledger(whole) is whole
    assert run.ledger(NonPrivateDpEvent()) == NonPrivateDpEvent(), "which promises nothing"
    noise.noisy_mean([torch.ones(3)], 1.0)
    with pytest.raises(AccountingError) as raised:
        run.ledger(whole)
    assert "6 releases" in str(raised.value)
    assert "4 x sums, 3 x test" in str(raised.value)


def test_a_budget_must_pay_for_all_that_was_released() -> None:
    run = run_of()
    for _ in range(10):
        release_once(run, "gradient", ZCDpEvent(0.01))
    assert run.ledger(ZCDpEvent(0.1)) == ZCDpEvent(0.1), "ten times 0.01, however that is rounded"
    assert run.ledger(ZCDpEvent(0.5)) == ZCDpEvent(0.5), "spent or not"
    with pytest.raises(AccountingError) as raised:
        run.ledger(ZCDpEvent(0.09))
    assert (raised.value.field, raised.value.allowed) == ("rho", 0.09)
    assert raised.value.value == pytest.approx(0.1)
    release_once(run, "choice", PURE)
    with pytest.raises(AccountingError, match="does not cover choice"):
        run.ledger(ZCDpEvent(0.5))


# -- checkpoints -------------------------------------------------------------------------------


def train(run: Run) -> DpEvent:
    """A mechanism in a phase of one step, one between phases, and noise in a phase of five."""
    for _ in run.steps("first", 1, {}):
        release_once(run, "bound", once=True)
    release_once(run, "votes", once=True)
    noise = noise_of(run)
    for step in run.steps("second", 5, {}):
        noise.noisy_mean([torch.ones(3)], 1.0 + step)
    return run.ledger()


@pytest.mark.parametrize("step", [1, 2, 4, 6])
def test_a_resumed_run_has_the_ledger_of_an_undisturbed_one(step: int, tmp_path: Path) -> None:
    left = iter(range(step - 1, -1, -1))
    with pytest.raises(Interrupted):
        train(run_of(folder=tmp_path, stop=lambda: next(left) == 0))
    whole, resumed = run_of(), run_of(folder=tmp_path)
    assert train(resumed) == train(whole)
    assert list(resumed.releases) == list(whole.releases)


def test_a_checkpoint_without_a_record_is_not_resumed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def forget(file: Path, content: dict[str, Any]) -> None:
        write_checkpoint(file, {name: each for name, each in content.items() if name != "releases"})

    monkeypatch.setattr("harness.jobs.run.write_checkpoint", forget)
    train(run_of(folder=tmp_path))
    again = run_of(folder=tmp_path)
    assert train(again) == train(run_of()), "as releases of an older version would be lost"


@pytest.mark.parametrize(
    "event",
    [
        NonPrivateDpEvent(),
        ComposedDpEvent([PURE, SelfComposedDpEvent(PoissonSampledDpEvent(0.1, GAUSSIAN), 3)]),
        NoisyVotesDpEvent(((1, 2), (0, 3)), "confident", 2.0, 1.0, 4.0, (True, False), 1),
        SelectiveReleaseDpEvent(ComposedDpEvent([GAUSSIAN]), 1, 3, float("inf"), "paper", ("a leak",)),
    ],
)
def test_events_are_saved_and_come_back_equal(event: DpEvent) -> None:
    assert unpack(pack(event)) == event


def test_an_event_without_a_price_is_not_saved() -> None:
    class Unknown(DpEvent):  # type: ignore[misc]
        pass

    with pytest.raises(AccountingError, match="Unknown"):
        pack(Unknown())


# -- batches -----------------------------------------------------------------------------------


def test_batches_have_their_declared_rows_and_the_event_of_their_sampling() -> None:
    run = run_of()
    poisson = run.sampler("poisson", records(), 4)
    fixed = run.sampler("fixed_size", records(), 4, "other")
    assert poisson.event(GAUSSIAN) == PoissonSampledDpEvent(0.4, GAUSSIAN)
    assert fixed.event(GAUSSIAN) == SampledWithoutReplacementDpEvent(10, 4, GAUSSIAN)
    assert fixed.event(NonPrivateDpEvent()) == NonPrivateDpEvent()
    for batches in (poisson, fixed):
        assert torch.equal(batches.draw().x, batches.rows)
    with pytest.raises(SpecError, match="depend on each other"):
        run.sampler("shuffle", records(), 4).event(GAUSSIAN)
    with pytest.raises(SpecError, match="did you mean 'shuffle'"):
        run.sampler("shufle", records(), 4)  # type: ignore[arg-type]


def test_batches_of_some_rows_have_no_others() -> None:
    rows = torch.tensor([1, 5, 7])
    batches = run_of().sampler("shuffle", records(), 2, rows=rows)
    assert sorted(torch.cat([batches.draw().x, batches.draw().x]).tolist()) == [1, 5, 7]
    assert len(batches.draw_rows()) == 2


def test_a_lower_rate_draws_less_and_a_higher_one_is_refused() -> None:
    batches = run_of().sampler("poisson", records(), 4, rate=0.8)
    assert batches.event(GAUSSIAN) == PoissonSampledDpEvent(0.8, GAUSSIAN)
    assert len(batches.draw(rate=0.0)) == 0
    with pytest.raises(ValueError, match="not covered"):
        batches.draw(rate=0.9)
    with pytest.raises(TypeError, match="ShuffleSampler"):
        run_of().sampler("shuffle", records(), 4).draw(rate=0.1)
    with pytest.raises(SpecError) as caught:
        run_of().sampler("fixed_size", records(), 4, rate=0.5)
    assert (caught.value.field, caught.value.value) == ("rate", 0.5)


def test_a_thinned_batch_keeps_each_record_with_its_own_chance() -> None:
    batches = run_of().sampler("fixed_size", records(), 10)
    drawn = batches.draw()
    kept = batches.thin((drawn.x < 4).double())
    assert sorted(kept.x.tolist()) == [0, 1, 2, 3]
    assert torch.equal(batches.rows, kept.x)


# -- inspection --------------------------------------------------------------------------------


class Onlooker(Run):
    """A run that records every input and releases zeros."""

    fused = False

    def __init__(self) -> None:
        super().__init__("name", CPU)
        self.seen: list[tuple[Release, Any]] = []

    def release(self, release: Release, clean: Any, mechanism: Any) -> Any:
        self.seen.append((release, clean))
        released = mechanism(clean)
        return [torch.zeros_like(each) for each in released] if isinstance(released, list) else 0.0


@pytest.mark.parametrize("secure", [False, True])
def test_a_subclass_sees_clean_sums_and_decides_what_is_released(secure: bool) -> None:
    run, sums = Onlooker(), [torch.tensor([1.0, 2.0]), torch.tensor([[3.0]])]
    noise = run.noise("sums", sums, 5.0, sensitivity=1.0, event=GAUSSIAN, secure=secure)
    means = noise.start(sums, 4.0)
    torch._foreach_add_(means, sums, alpha=0.25)
    noise.finish(means, 4.0)
    assert [each.abs().sum() for each in means] == [0, 0]
    ((release, clean),) = run.seen
    assert (release.name, release.scale, release.sensitivity, release.divisor) == ("sums", 5.0, 1.0, 4.0)
    assert all(map(torch.equal, clean, [each.double() for each in sums]))
    assert release_once(run, "choice") == 0.0
    assert run.seen[1][1] == 3.0
    assert run.ledger() == ComposedDpEvent([SelfComposedDpEvent(GAUSSIAN, 1), SelfComposedDpEvent(PURE, 1)])


def test_noise_that_is_shown_is_the_noise_that_is_not() -> None:
    """Up to rounding: the sum is added to the noise, or the noise to the sum."""

    class Open(Run):
        fused = False

    def released(run: Run) -> Tensor:
        return noise_of(run).noisy_mean([torch.tensor([1.0, 2.0, 3.0])], 2.0)[0]

    torch.testing.assert_close(released(Open("name", CPU)), released(run_of()))
    assert run_of().public("clip", 1.5) == 1.5

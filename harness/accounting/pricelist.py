"""The price list behind `privbench price`: settings of a mechanism to a quote. Loads no torch."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from dp_accounting import (
    ComposedDpEvent,
    DpEvent,
    GaussianDpEvent,
    LaplaceDpEvent,
    PoissonSampledDpEvent,
    SampledWithoutReplacementDpEvent,
    SelfComposedDpEvent,
)

from harness.accounting import (
    CONCENTRATION,
    COUNT,
    NOISE,
    Ceiling,
    Free,
    Guarantee,
    calibrate,
    price,
    tpr_ceilings,
)
from harness.accounting.accountants.selective import Selection, worst_case_attempts
from harness.accounting.price_inputs import Form, check_common, choose_free
from harness.accounting.pricing import NOT_SANITISED
from methods.mechanisms.events import NoisyVotesDpEvent, VonMisesFisherDpEvent
from workloads.errors import AccountingError

Settings = dict[str, Any]


@dataclass(frozen=True)
class Quote:
    """The price of a mechanism by every accountant, and its ceilings on attacks."""

    mechanism: str
    settings: Settings
    guarantee: Guarantee
    ceilings: tuple[Ceiling, ...] = ()
    lower_bounds: dict[str, float] = field(default_factory=dict)
    """Lower bounds on the worst-case epsilon when only the paper's charge is paid."""
    notes: tuple[str, ...] = ()
    defaults: Settings = field(default_factory=dict)
    """Derived settings."""

    def asdict(self) -> dict[str, Any]:
        """Plain values for programs."""
        promise = self.guarantee.asdict()
        return {
            "mechanism": self.mechanism,
            "settings": self.settings,
            "defaults": self.defaults,
            "kind": promise["kind"],
            "epsilon": promise["epsilon"],
            "delta": promise["delta"],
            "headline": promise["accountant"],
            "adjacency": promise["adjacency"],
            "epsilons": promise["epsilons"],
            "lower_bounds": self.lower_bounds,
            "ceilings": [vars(each) for each in self.ceilings],
            "assumptions": promise["assumptions"],
            "notes": list(self.notes),
        }


def quote(
    mechanism: str,
    settings: Settings,
    event_of: Callable[[Settings], DpEvent],
    delta: float,
    target: float | None,
    free: tuple[str, Free] | None,
    fprs: Sequence[float],
    notes: Sequence[str] = (),
) -> Quote:
    """Solve for the free parameter, price the event, and add the ceilings."""
    if free is not None and target is not None:
        name, kind = free
        value = calibrate(lambda each: event_of(settings | {name: each}), target, delta, free=kind)
        settings = settings | {name: int(value) if kind.whole else value}
        notes = (f"{name} = {value:.6g} was solved for epsilon {target:g}", *notes)
    event = event_of(settings)
    guarantee = price(event, delta)
    return Quote(mechanism, settings, guarantee, ceilings(event, guarantee, fprs), notes=tuple(notes))


def ceilings(event: DpEvent, guarantee: Guarantee, fprs: Sequence[float]) -> tuple[Ceiling, ...]:
    """The tightest known ceilings: from the whole curve, else from (epsilon, delta)."""
    try:
        return tpr_ceilings(event, fprs, guarantee.adjacency) if fprs else ()
    except AccountingError:  # no curve, but one point of it is known
        return tpr_ceilings(guarantee, fprs)


def without_data(guarantee: Guarantee) -> Guarantee:
    """The guarantee without its data-dependent price, for a plan, which has no data."""
    return replace(
        guarantee,
        epsilons={name: value for name, value in guarantee.epsilons.items() if name != "data_dependent"},
        assumptions=tuple(line for line in guarantee.assumptions if line != NOT_SANITISED),
    )


def quote_subsampled(
    n: int,
    batch_size: int,
    noise: float | None,
    steps: int | None,
    delta: float,
    target: float | None = None,
    fprs: Sequence[float] = (),
    sampling: str = "poisson",
) -> Quote:
    """The subsampled Gaussian mechanism: a noisy clipped sum per random batch (Abadi et al. 2016)."""
    form = Form()
    check_common(form, delta, target, fprs)
    form.number("--n", n, 1, open_low=False)
    form.number("--batch-size", batch_size, 1, max(n, 1), open_low=False)
    form.number("--noise", noise, 0)
    form.number("--steps", steps, 1, open_low=False)
    order = (("noise", NOISE), ("steps", replace(COUNT, name="steps")))
    free = choose_free(form, target, {"noise": noise, "steps": steps}, order)
    form.finish()

    def event_of(values: Settings) -> DpEvent:
        gaussian = GaussianDpEvent(values["noise"])
        one = (
            PoissonSampledDpEvent(batch_size / n, gaussian)
            if sampling == "poisson"
            else SampledWithoutReplacementDpEvent(n, batch_size, gaussian)
        )
        return SelfComposedDpEvent(one, values["steps"])

    settings = {"n": n, "batch_size": batch_size, "noise": noise, "steps": steps, "sampling": sampling}
    solved = (free.name, free) if free else None
    return quote("subsampled-gaussian", settings, event_of, delta, target, solved, fprs)


def quote_noise(
    kind: str,
    noise: float | None,
    count: int,
    delta: float,
    target: float | None = None,
    fprs: Sequence[float] = (),
) -> Quote:
    """The Gaussian or the Laplace mechanism, used `count` times on all data."""
    form = Form()
    check_common(form, delta, target, fprs)
    form.number("--noise", noise, 0)
    form.number("--count", count, 1, open_low=False)
    free = choose_free(form, target, {"noise": noise}, (("noise", NOISE),))
    form.finish()
    mechanism = {"gaussian": GaussianDpEvent, "laplace": LaplaceDpEvent}[kind]
    return quote(
        kind,
        {"noise": noise, "count": count},
        lambda values: SelfComposedDpEvent(mechanism(values["noise"]), count),
        delta,
        target,
        ("noise", free) if free else None,
        fprs,
    )


def quote_directional(
    rows: dict[int, int],
    kappa: float | None,
    uses: int,
    delta: float,
    target: float | None = None,
    fprs: Sequence[float] = (),
    sample: tuple[int, int] | None = None,
    aggregate: bool = False,
) -> Quote:
    """Von Mises-Fisher noise on directions (Weggenmann and Kerschbaum 2021).

    `rows` maps a dimension to how many rows have it.
    """
    form = Form()
    check_common(form, delta, target, fprs)
    form.needs(bool(rows), "give --dimension or --rows: the dimension of the noisy directions")
    for dimension, count in rows.items():
        form.number("the dimension", dimension, 2, open_low=False)
        form.number("the number of rows", count, 1, open_low=False)
    form.number("--kappa", kappa, 0)
    form.number("--uses", uses, 1, open_low=False)
    total = sum(rows.values())
    if sample:
        form.number("--batch-size", sample[1], 1, sample[0], open_low=False)
    free = choose_free(form, target, {"kappa": kappa}, (("kappa", replace(CONCENTRATION, name="kappa")),))
    form.finish()

    def event_of(values: Settings) -> DpEvent:
        parts = [
            SelfComposedDpEvent(VonMisesFisherDpEvent(dimension, values["kappa"], not aggregate), count)
            for dimension, count in sorted(rows.items())
        ]
        once = parts[0].event if total == 1 else ComposedDpEvent(parts)
        if sample:
            once = SampledWithoutReplacementDpEvent(*sample, once)
        return SelfComposedDpEvent(once, uses)

    notes = ["papers call kappa epsilon; one use of one direction costs a pure 2 kappa, and uses add up"]
    if total > 1:
        notes.append(
            f"the paper charges 2 kappa sqrt({total}) per use for {total} rows; independent rows compose to "
            f"2 kappa {total}"
        )
    settings = {"rows": {str(k): v for k, v in sorted(rows.items())}, "kappa": kappa, "uses": uses}
    if sample:
        settings |= {"n": sample[0], "batch_size": sample[1]}
    solved = ("kappa", free) if free else None
    return quote("directional", settings, event_of, delta, target, solved, fprs, notes)


def quote_votes(event: NoisyVotesDpEvent, delta: float, fprs: Sequence[float] = ()) -> Quote:
    """Noisy votes (Papernot et al. 2017 and 2018). Rows of zeros stand for votes that are not known."""
    form = Form()
    check_common(form, delta, None, fprs)
    form.number("--noise", event.noise, 0)
    form.needs(bool(event.votes), "give --votes, --counts or --queries: the number of queries")
    if event.aggregator == "confident":
        form.number("--threshold-noise", event.threshold_noise, 0)
    form.finish()
    known = any(any(row) for row in event.votes)
    guarantee = price(event, delta)
    if not known:
        guarantee = without_data(guarantee)
    settings = {
        "aggregator": event.aggregator,
        "noise": event.noise,
        "queries": len(event.votes),
        "answered": sum(event.answered) if event.answered else len(event.votes),
        "threshold": event.threshold,
        "threshold_noise": event.threshold_noise,
    }
    return Quote("votes", settings, guarantee, ceilings(event, guarantee, fprs))


def quote_selective(run: Selection, delta: float, fprs: Sequence[float] = (), lower: bool = True) -> Quote:
    """Selective release (Fu et al. 2024): all attempts (the headline), the paper's charge, a lower bound."""
    form = Form()
    check_common(form, delta, None, fprs)
    form.needs(delta > 0, "--delta must be > 0 for Gaussian noise, got 0: 1e-5 is usual")
    form.number("--noise", run.noise, 0)
    form.number("--test-noise", run.test_noise, 0)
    form.number("the sampling rate", run.rate, 0, 1)
    form.number("the test's sampling rate", run.test_rate, 0, 1)
    form.finish()
    event = run.event()
    guarantee = price(event, delta)
    bounds = guarantee.lower_bounds if lower else {}
    notes = []
    claimed = guarantee.epsilons.get("paper")
    if bounds:
        notes.append(
            f"worst_case is for a test that needs about {worst_case_attempts(run):.0f} attempts for its "
            f"{run.accepted} accepted ones; compare it with the paper's charge, not with the price of "
            f"{run.attempts} attempts"
        )
    if bounds and claimed is not None and bounds["worst_case"] > claimed:
        notes.append(
            f"the paper's charge {claimed:.4g} is broken in the worst case: releasing only accepted updates "
            f"costs at least {bounds['worst_case']:.4g}"
        )
    return Quote(
        "selective",
        vars(run) | {"extra": list(run.extra)},
        guarantee,
        ceilings(event, guarantee, fprs),
        bounds,
        tuple(notes),
    )

"""Events that dp-accounting has no word for: what a ledger may say besides. The harness prices them."""

import attr
from dp_accounting import DpEvent


@attr.s(frozen=True, slots=True, auto_attribs=True)
class PureDpEvent(DpEvent):  # type: ignore[misc]  # dp-accounting is untyped
    """Any mechanism proved to be (epsilon, 0)-DP, of which nothing else is used."""

    epsilon: float


@attr.s(frozen=True, slots=True, auto_attribs=True)
class MetricDpEvent(DpEvent):  # type: ignore[misc]
    """A mechanism that is epsilon * d(x, x') private for a metric d (Chatzikokolakis et al. 2013).

    `diameter` is the largest distance two records can have: 2 on the unit sphere for the Euclidean
    distance, pi for the angle. With it the promise is (epsilon * diameter, 0)-DP.
    """

    epsilon: float
    diameter: float


@attr.s(frozen=True, slots=True, auto_attribs=True)
class VonMisesFisherDpEvent(DpEvent):  # type: ignore[misc]
    """One direction in `dimension` dimensions, redrawn around itself with concentration `kappa`.

    A vector drawn in several independent pieces (rows, layers) is a composition of these. With
    `per_example` every record's own direction is redrawn and the draws are summed: the number of
    records is then visible, so only replace-one adjacency has a price. Without it one direction of
    the whole batch is redrawn, and any change of the batch is covered.
    """

    dimension: int
    kappa: float
    per_example: bool = True


@attr.s(frozen=True, slots=True, auto_attribs=True)
class ParallelDpEvent(DpEvent):  # type: ignore[misc]
    """Events on disjoint parts of the data: every record is in one part, chosen without looking at it."""

    events: tuple[DpEvent, ...]


@attr.s(frozen=True, slots=True, auto_attribs=True)
class NoisyVotesDpEvent(DpEvent):  # type: ignore[misc]
    """Labels from a noisy vote of teachers on disjoint shards (PATE, Papernot et al. 2017 and 2018).

    Attributes:
        votes: One row of counts per query, zeros where they are not known. Private: a price that reads them
            is not sanitised.
        aggregator: `laplace`, `gaussian`, or `confident` (a noisy threshold test before the vote).
        noise: The Laplace scale, or the Gaussian's standard deviation, on every count.
        threshold: Of the test; the largest count, with noise, must reach it.
        threshold_noise: The Gaussian's standard deviation on the largest count in the test.
        answered: For `confident`, which queries were answered; all where it is left empty.
        most_answers: For `confident`, how many answers there could be at most, fixed beforehand: the number
            that is paid for. None: as many as there were, so that the price is known after the fact only.
    """

    votes: tuple[tuple[int, ...], ...]
    aggregator: str
    noise: float
    threshold: float = 0.0
    threshold_noise: float = 0.0
    answered: tuple[bool, ...] = ()
    most_answers: int | None = None


@attr.s(frozen=True, slots=True, auto_attribs=True)
class SelectiveReleaseDpEvent(DpEvent):  # type: ignore[misc]
    """Proposals of which a private test lets some pass (DPSUR). Every attempt is charged.

    Attributes:
        event: One attempt: the proposal and its test together.
        accepted: Attempts whose proposal was let out.
        attempts: All attempts.
        beta: The test passes below beta times the range to which it clips what it tests.
        charge: What ended the run: a budget that pays for `all_attempts`, or, as in the `paper`, for the
            accepted ones. The second lets the data decide how many attempts there are.
        unpaid: What was let out besides and no noise covers, each in words. Then there is no price, only
            the authors' claim.
    """

    event: DpEvent
    accepted: int
    attempts: int
    beta: float = -1.0
    charge: str = "all_attempts"
    unpaid: tuple[str, ...] = ()


@attr.s(frozen=True, slots=True, auto_attribs=True)
class ClaimedDpEvent(DpEvent):  # type: ignore[misc]
    """What authors charge for a method, where their code lets out more than its noise covers.

    Attributes:
        event: What they say was done.
        unpaid: What was let out besides, each in words; so there is no price, only their claim.
    """

    event: DpEvent
    unpaid: tuple[str, ...]

"""DP events that dp-accounting does not have; the harness accounts for them."""

import attr
from dp_accounting import DpEvent


@attr.s(frozen=True, slots=True, auto_attribs=True)
class PureDpEvent(DpEvent):  # type: ignore[misc]  # dp-accounting is untyped
    """Any (epsilon, 0)-DP mechanism."""

    epsilon: float


@attr.s(frozen=True, slots=True, auto_attribs=True)
class MetricDpEvent(DpEvent):  # type: ignore[misc]
    """A mechanism that is epsilon * d(x, x') private for a metric d (Chatzikokolakis et al. 2013).

    `diameter` is the largest distance of two records: 2 on the unit sphere for the Euclidean distance, pi for
    the angle. It implies (epsilon * diameter, 0)-DP.
    """

    epsilon: float
    diameter: float


@attr.s(frozen=True, slots=True, auto_attribs=True)
class VonMisesFisherDpEvent(DpEvent):  # type: ignore[misc]
    """A von Mises-Fisher draw around a direction in `dimension` dimensions, with concentration `kappa`.

    A vector drawn in several independent pieces (rows, layers) is a composition of these. With `per_example`
    every record's direction is perturbed and the draws are summed: the number of records is then visible, so
    only replace-one adjacency applies. Without it one direction of the whole batch is perturbed, which covers
    any change of the batch.
    """

    dimension: int
    kappa: float
    per_example: bool = True


@attr.s(frozen=True, slots=True, auto_attribs=True)
class ParallelDpEvent(DpEvent):  # type: ignore[misc]
    """Events on disjoint parts of the data; every record is in one part, chosen independently of the data."""

    events: tuple[DpEvent, ...]


@attr.s(frozen=True, slots=True, auto_attribs=True)
class OneOfDpEvent(DpEvent):  # type: ignore[misc]
    """One of several events on the same data, chosen at random independently of the data.

    The choice may be released: at every order the divergence is at most the largest of the parts.
    """

    events: tuple[DpEvent, ...]


@attr.s(frozen=True, slots=True, auto_attribs=True)
class NoisyVotesDpEvent(DpEvent):  # type: ignore[misc]
    """Labels from a noisy vote of teachers on disjoint shards (PATE, Papernot et al. 2017 and 2018).

    Attributes:
        votes: One row of counts per query, zeros if unknown. Private: an epsilon computed from them is not
            sanitised.
        aggregator: `laplace`, `gaussian`, or `confident` (a noisy threshold test before the vote).
        noise: The Laplace scale, or the Gaussian's standard deviation, on every count.
        threshold: Of the test; the largest count, with noise, must reach it.
        threshold_noise: The Gaussian's standard deviation on the largest count in the test.
        answered: For `confident`, which queries were answered; all if empty.
        most_answers: For `confident`, the maximum number of answers, fixed in advance: the number that is
            charged. None: the actual number, so that epsilon is known only afterwards.
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
    """Proposals that are released if they pass a private test (DPSUR). Every attempt is charged.

    Attributes:
        event: One attempt: the proposal and its test together.
        accepted: Attempts whose proposal was released.
        attempts: All attempts.
        beta: The test passes below beta times its clipping range.
        charge: What the run's budget charged: `all_attempts`, or, as in the `paper`, accepted ones only. With
            the second the number of attempts depends on the data.
        unpaid: Descriptions of what was released without noise. If there are any, there is no epsilon, only
        the
            authors' claim.
    """

    event: DpEvent
    accepted: int
    attempts: int
    beta: float = -1.0
    charge: str = "all_attempts"
    unpaid: tuple[str, ...] = ()


@attr.s(frozen=True, slots=True, auto_attribs=True)
class ClaimedDpEvent(DpEvent):  # type: ignore[misc]
    """The claimed accounting of a method whose code releases more than its noise covers.

    Attributes:
        event: The claimed event.
        unpaid: Descriptions of what was released besides; there is no epsilon, only the claim.
    """

    event: DpEvent
    unpaid: tuple[str, ...]

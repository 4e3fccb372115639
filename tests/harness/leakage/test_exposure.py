"""Figures of single records: facts, constructed cells, and no findings without leakage."""

from collections.abc import Callable

import numpy as np
import pytest
from scipy import stats

from harness.leakage.exposure import agreement, ppv, record_tpr_p99, records_exposed
from harness.leakage.influence import Scored
from harness.leakage.matrices import Bools, Floats


def test_facts_of_the_precision() -> None:
    assert ppv(0.0606, prior=0.01) == pytest.approx(0.0576813250, abs=5e-11)
    assert ppv(0.0606) == pytest.approx(0.4023904382, abs=5e-11)
    assert ppv(0.01) == pytest.approx(0.1), "an attack that finds nothing leaves the prior"
    assert ppv(1.0) == pytest.approx(0.1 / 0.109)
    assert (ppv(0.0), ppv(None)) == (0, None)


def halves_of(
    masks: Callable[..., Bools], exposed: int, records: int = 1000, seed: int = 0
) -> tuple[Scored, Scored]:
    """Two halves of four models that reveal the first `exposed` records whenever they trained on them."""
    random = np.random.default_rng(seed)
    found = []
    for _ in range(2):
        members = masks(random, 4, records, records // 2)
        scores = random.standard_normal(members.shape)
        scores[:, :exposed] += 10 * members[:, :exposed]
        found.append(Scored(scores, members))
    return found[0], found[1]


def test_halves_agree_on_exposed_records_and_not_on_luck(masks: Callable[..., Bools]) -> None:
    found = agreement(*halves_of(masks, exposed=100))
    assert found is not None
    assert found.value > 0.7 and found.chance < 0.06 and found.untrained < 0.06
    luck = agreement(*halves_of(masks, exposed=0, records=4000))
    assert luck is not None
    assert luck.value == pytest.approx(luck.chance, abs=0.03)


def test_agreement_equals_its_definition(masks: Callable[..., Bools]) -> None:
    first, second = halves_of(masks, exposed=30)
    flags = {"trained": [], "untrained": []}  # type: dict[str, list[set[int]]]
    for half in (first, second):
        cut = np.sort(half.scores[~half.members])[::-1][int((~half.members).sum()) // 100]
        for name, side in (("trained", half.members), ("untrained", ~half.members)):
            flagged = set()
            for i in range(1000):
                hits = [half.scores[m, i] > cut for m in range(4) if side[m, i]]
                if hits and sum(hits) >= len(hits) / 2:
                    flagged.add(i)
            flags[name].append(flagged)
    found = agreement(first, second)
    assert found is not None
    (a, b), (c, d) = flags["trained"], flags["untrained"]
    assert found.value == pytest.approx(len(a & b) / len(a | b))
    assert found.untrained == pytest.approx(len(c & d) / len(c | d))
    shares = len(a) / 1000, len(b) / 1000
    assert found.chance == pytest.approx(np.prod(shares) / (sum(shares) - np.prod(shares)))


def test_a_difficult_record_is_flagged_without_having_been_trained_on(masks: Callable[..., Bools]) -> None:
    """Scores that depend on the record alone: the models not trained on it agree as much."""
    random = np.random.default_rng(0)
    difficulty = random.standard_normal(4000)
    halves = [Scored(np.tile(difficulty, (4, 1)), masks(random, 4, 4000, 2000)) for _ in range(2)]
    found = agreement(*halves)
    assert found is not None
    assert found.value > 0.5 and found.untrained > 0.5


def test_too_few_flags_are_no_agreement(masks: Callable[..., Bools]) -> None:
    first, second = halves_of(masks, exposed=0, records=100)
    assert agreement(first, second) is None


def unscored(members: Bools) -> Scored:
    """Membership only: exposed records are found from signals, not from scores."""
    return Scored(np.zeros(members.shape), members)


def slow_exposed(phi: Floats, scored: Scored) -> tuple[int, int]:
    values = []
    for column, inside, outside in zip(phi.T, scored.included.T, scored.excluded.T, strict=True):
        if min(inside.sum(), outside.sum()) >= 4:
            test = stats.ttest_ind(column[inside], column[outside], alternative="greater")
            values.append(float(test.pvalue))
    rejected = stats.false_discovery_control(values) <= 0.05
    return int(rejected.sum()), len(values)


@pytest.mark.slow
def test_exposed_records_equal_scipys_tests(masks: Callable[..., Bools]) -> None:
    random = np.random.default_rng(0)
    members = masks(random, 16, 400, 120)  # some records have fewer than 4 models
    phi = random.normal(1, 2, 400) + random.normal(size=members.shape)
    phi[:, :50] += 3 * members[:, :50]
    aside = members & (random.random(members.shape) < 0.2)
    for scored in (Scored(phi, members), Scored(phi, members, ~aside)):
        found = records_exposed(phi, scored)
        assert found == slow_exposed(phi, scored)
        assert found is not None and 10 < found[0] < 60 and found[1] < 400


def test_without_leakage_hardly_any_record_is_exposed(masks: Callable[..., Bools]) -> None:
    random = np.random.default_rng(1)
    exposed = []
    for _ in range(20):
        members = masks(random, 64, 800, 400)
        found = records_exposed(random.normal(size=members.shape), unscored(members))
        assert found is not None
        exposed.append(found[0])
    assert np.mean(exposed) < 0.3, "any at all in one cell of twenty"


def test_a_record_without_spread_is_no_evidence(masks: Callable[..., Bools]) -> None:
    members = masks(np.random.default_rng(0), 16, 30, 15)
    assert records_exposed(0.1 + members.astype(np.float64), unscored(members)) == (0, 30)
    assert records_exposed(np.full(members.shape, 0.1), unscored(members)) == (0, 30)


def test_fewer_than_sixteen_models_test_nothing(masks: Callable[..., Bools]) -> None:
    random = np.random.default_rng(0)
    members = masks(random, 15, 2000, 1000)
    assert records_exposed(random.normal(size=members.shape), unscored(members)) is None
    assert record_tpr_p99(Scored(random.normal(size=members.shape), members)) is None


def test_no_record_to_test_is_no_record_exposed() -> None:
    members = np.zeros((16, 5), dtype=np.bool_)
    assert records_exposed(np.zeros((16, 5)), unscored(members)) == (0, 0)


def test_the_99th_percentile_of_records(masks: Callable[..., Bools]) -> None:
    random = np.random.default_rng(0)
    members = masks(random, 16, 1000, 500)
    scores = random.standard_normal(members.shape)
    scores[:, :15] += 20 * members[:, :15]
    assert record_tpr_p99(Scored(scores, members)) == 1
    plain = record_tpr_p99(Scored(random.standard_normal(members.shape), members))
    assert plain is not None and plain < 0.3
    few = Scored(scores[:, :60], members[:, :60])
    assert record_tpr_p99(few) is None, "480 non-members or so do not resolve 1 %"

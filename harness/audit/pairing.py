"""Members and others side by side: what only shows when both are known."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from harness.audit.given import Outputs
from harness.leakage.declared import TEMPERATURE
from harness.leakage.matrices import Bools, Floats, Ints
from harness.leakage.roc import RATES
from workloads.errors import DataError

Digests = NDArray[np.void]
DIGEST = 16
"""Bytes by which a record is known."""
FEWEST = 50
"""Members, and others, below which an audit is refused unless `few` is given."""
SHARED = 0.01
"""The share of the smaller set that may also be in the other one: duplicates, no overlap."""
WITHIN = 3.0
"""Where records have duplicates within a set, so many times their share may be in the other set, too."""
SATURATED = 0.01
"""The share of records with a probability of exactly 1 from which their ties are worth a warning."""
CHANCE = 0.001
"""The level at which shadows are found to have been trained on members more, or less, than on others."""
LEANING = 0.1
"""The difference of these shares above which attacks would read membership off the shadows."""


@dataclass(frozen=True)
class Pairing:
    """The records of an audit: first the members, then the others, and in no figure the population."""

    members: Outputs
    others: Outputs
    population: Outputs | None
    warnings: list[str] = field(default_factory=list)

    @property
    def shadows(self) -> int:
        """Shadow models."""
        return len(self.members.shadow_members)

    @property
    def leaning(self) -> float:
        """The share of members that the mean shadow was trained on, minus that of others."""
        if not self.shadows:
            return 0.0
        return float(self.members.shadow_members.mean() - self.others.shadow_members.mean())

    @cached_property
    def truth(self) -> Bools:
        """(1 + K, n): the members of the audited model, then of its shadows."""
        own = np.arange(len(self.members) + len(self.others)) < len(self.members)
        return np.vstack([own[None], np.hstack([self.members.shadow_members, self.others.shadow_members])])

    @cached_property
    def phi(self) -> Floats:
        """(1 + K, n): rescaled logits."""
        return self._phi(1.0)

    @cached_property
    def tempered(self) -> Floats:
        """(1 + K, n): the same at the temperature of `rmia`; losses have only their own."""
        return self._phi(TEMPERATURE)

    def calibrating(self, temperature: float = 1.0) -> Floats:
        """(1 + K, p): rescaled logits on the population, or on the others if none was given.

        With one audited model the population does not change the order of the records, whichever it is.
        """
        return (self.population or self.others).phi(temperature)

    @property
    def labels(self) -> Ints:
        """(n,); all 0 if only losses are known."""
        found = (self.members.labels, self.others.labels)
        count = len(self.members) + len(self.others)
        known = [each for each in found if each is not None]
        return np.concatenate(known) if len(known) == 2 else np.zeros(count, dtype=np.int64)

    @property
    def features(self) -> NDArray[np.float32] | None:
        """(n, d); None if either side lacks them."""
        if self.members.features is None or self.others.features is None:
            return None
        return np.concatenate([self.members.features, self.others.features])

    def _phi(self, temperature: float) -> Floats:
        return np.hstack([self.members.phi(temperature), self.others.phi(temperature)])


def pair(members: Outputs, others: Outputs, population: Outputs | None = None, few: bool = False) -> Pairing:
    """Check members against others; DataError if an audit of them would mean nothing."""
    for role, each in (("others", others), ("population", population)):
        if each is not None:
            _same_kind(role, each, members)
    found = Pairing(members, others, population)
    if not few:
        _check_numbers(len(members), len(others))
    _check_classes(found)
    found.warnings.extend(_check_overlap(members, others))
    found.warnings.extend(_remarks(found))
    return found


def leaning_chance(pairing: Pairing) -> float:
    """The two-sided p-value of shadows that were trained on members as often as on others, but for chance.

    Every shadow draws its records without looking at the audited model's: its count of members is
    hypergeometric, and shadows are independent.
    """
    inside, outside = pairing.members.shadow_members, pairing.others.shadow_members
    n1, n = inside.shape[1], inside.shape[1] + outside.shape[1]
    drawn = inside.sum(axis=1) + outside.sum(axis=1)
    law = stats.hypergeom(n, n1, drawn)
    spread = float(law.var().sum())
    if spread == 0:
        return 1.0
    return float(2 * stats.norm.sf(abs(float((inside.sum(axis=1) - law.mean()).sum())) / spread**0.5))


def _same_kind(role: str, each: Outputs, members: Outputs) -> None:
    for field_name, own, theirs in (
        ("signal", members.signal, each.signal),
        ("classes", members.classes, each.classes),
        ("shadows", len(members.shadow_members), each.values.shape[0] - 1),
    ):
        if own != theirs:
            raise DataError(
                f"members have {field_name} {own}, {role} {theirs}: give the outputs of the same models for "
                "both",
                field=field_name,
                value=theirs,
                allowed=own,
            )
    pairs = (members.features, each.features) if role == "others" else (None, None)
    if (pairs[0] is None) != (pairs[1] is None) and role == "others":
        raise DataError(
            "features were given for one of members and others: the blind check needs both",
            field="features",
            value=None,
            allowed="both or neither",
        )
    if pairs[0] is not None and pairs[1] is not None and pairs[0].shape[1] != pairs[1].shape[1]:
        raise DataError(
            f"members have {pairs[0].shape[1]} features, {role} {pairs[1].shape[1]}: give the same",
            field="features",
            value=pairs[1].shape[1],
            allowed=pairs[0].shape[1],
        )


def _check_numbers(members: int, others: int) -> None:
    fewer = min(members, others)
    if fewer >= FEWEST:
        return
    deviation = ((members + others + 1) / (12 * members * others)) ** 0.5
    resolved = [f"{float(rate):.0%}" for rate in RATES.values() if others * rate >= 10]
    rates = (
        f"the share of members found at {resolved[0]} false alarms"
        if resolved
        else "no share of found members"
    )
    raise DataError(
        f"{members} members and {others} others are few: at least {FEWEST} of each are needed. These could "
        "say no "
        f"more than an AUC, to within ±{1.96 * deviation:.2f}, and {rates}. Give more records, or --few "
        "(few=True) to "
        "see that",
        field="records",
        value=fewer,
        allowed=FEWEST,
    )


def _check_classes(found: Pairing) -> None:
    if found.members.labels is None:
        return
    seen = np.unique(found.labels)
    if len(seen) < 2:
        raise DataError(
            f"all records have the label {seen[0]}: give records of all classes, in the shares of the "
            "training",
            field="labels",
            value=1,
            allowed=2,
        )


def _check_overlap(members: Outputs, others: Outputs) -> Iterable[str]:
    """Warnings of records in both sets; DataError if they are more than duplicates."""
    if members.ids is not None and others.ids is not None:
        both = int(np.isin(members.ids, others.ids).sum())
        if both:
            raise _overlap(both, len(members), len(others), "by their ids", 0)
        return
    own, theirs, known = _identities(members, others)
    if own.shape == theirs.shape and bool((own == theirs).all()):
        raise DataError(
            "members and others are the same records: give records that the model was not trained on as "
            "others",
            field="others",
            value="the members",
            allowed="other records",
        )
    both = int(np.isin(own, theirs).sum())
    alike = max(_alike(own), _alike(theirs))
    most = max(1, int((SHARED + WITHIN * alike) * min(len(own), len(theirs))))
    if both > most:
        raise _overlap(both, len(members), len(others), f"by their {known}", most)
    if not both or (known == "outputs" and alike > SHARED):
        return
    yield (
        f"{both} members have a duplicate among the others, by their {known}: the model was in effect "
        "trained on "
        "those others too, which hides leakage"
    )


def _identities(members: Outputs, others: Outputs) -> tuple[Digests, Digests, str]:
    """A digest of every record, equal for equal records: of its features and label, or else its outputs."""
    sides = (members, others)
    known = "outputs" if any(each.features is None for each in sides) else "features"
    parts = [each.values[0] if known == "outputs" else each.features for each in sides]
    labelled = all(each.labels is not None for each in sides)
    digests = []
    for part, each in zip(parts, sides, strict=True):
        rows = np.ascontiguousarray(np.asarray(part, dtype=np.float64).reshape(len(each), -1))
        labels = each.labels if labelled and each.labels is not None else np.zeros(len(each), dtype=np.int64)
        found = [_digest(row.tobytes() + label.tobytes()) for row, label in zip(rows, labels, strict=True)]
        digests.append(np.array(found, dtype=f"V{DIGEST}"))
    return digests[0], digests[1], known


def _digest(record: bytes) -> bytes:
    return blake2b(record, digest_size=DIGEST).digest()


def _alike(records: Digests) -> float:
    """The share of records that are equal to another one of the same set."""
    _, counts = np.unique(records, return_counts=True)
    return float(counts[counts > 1].sum() / len(records))


def _overlap(both: int, members: int, others: int, known: str, allowed: int) -> DataError:
    return DataError(
        f"{both} of {members} members are also among the {others} others ({known}): an audit compares "
        "records that "
        "the model was trained on with records that it was not; take them out of the others",
        field="others",
        value=both,
        allowed=allowed,
    )


def _remarks(found: Pairing) -> Iterable[str]:
    if found.members.recognised or found.others.recognised:
        yield f"the outputs were taken for {found.members.signal}: declare them if they are not"
    values = (
        np.hstack([found.members.values[0], found.others.values[0]])
        if found.members.values.ndim == 2
        else None
    )
    if found.members.signal == "losses":
        zeros = float((values == 0).mean()) if values is not None else 0.0
        if zeros > SATURATED:
            yield (
                f"{zeros:.1%} of the losses are exactly 0 and cannot be told apart: give logits if you "
                "have them"
            )
        return
    parts = (found.members.values[0], found.others.values[0])
    if found.members.signal == "probabilities":
        full = float(np.concatenate([each.max(axis=1) == 1 for each in parts]).mean())
        if full > SATURATED:
            yield (
                f"{full:.1%} of the records have a probability of exactly 1 and cannot be told apart: give "
                "logits if "
                "you have them"
            )
    elif all(bool(((each >= 0) & (each <= 1)).all()) for each in parts):
        sums = np.concatenate([each.sum(axis=1, dtype=np.float64) for each in parts])
        if bool((np.abs(sums - 1) < SHARED).all()):
            yield (
                "the logits look like probabilities (all in 0 to 1, with a sum of 1): declare them so if "
                "they are"
            )

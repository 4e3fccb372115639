"""What an audit is given: a model's outputs on some records, by name, checked one set at a time.

The names are those of the arrays of an .npz file, of the columns of a table (harness/audit/scores_file.py),
and of
the keys of a mapping in Python; docs/audit-a-model.md lists them.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from harness.leakage.matrices import Bools, Floats, Ints
from harness.leakage.scoring import rescaled_logit
from workloads.errors import DataError

Signal = Literal["logits", "probabilities", "losses"]
SIGNALS: tuple[Signal, ...] = get_args(Signal)
UNDECLARED = "outputs"
"""The name of outputs whose kind is to be recognised."""
NAMES = (*SIGNALS, UNDECLARED, "labels", "shadow_members", "features", "ids", "member")
SHADOWS = {f"shadow_{name}": name for name in (*SIGNALS, UNDECLARED)}
SUM_SLACK = 1e-3
"""How far a record's probabilities may sum from 1."""
LARGEST_PHI = -np.log(1e-45)
"""The rescaled logit of a loss of zero: as that of a probability of zero, with the sign turned."""

Arrays = Mapping[str, Any]


@dataclass(frozen=True)
class Outputs:
    """The outputs of the audited model and its shadows on n records, and what is known of these."""

    signal: Signal
    recognised: bool
    """Whether the kind of signal was recognised from the values."""
    values: Floats | NDArray[np.float32]
    """(1 + K, n, C), or (1 + K, n) losses: of the audited model, then of K shadows."""
    shadow_members: Bools
    """(K, n): the records that each shadow was trained on."""
    labels: Ints | None
    """(n,); None beside losses that came without."""
    features: NDArray[np.float32] | None
    """(n, d)"""
    ids: NDArray[np.str_] | None

    def __len__(self) -> int:
        return int(self.values.shape[1])

    @property
    def classes(self) -> int | None:
        """None for losses."""
        return int(self.values.shape[2]) if self.values.ndim == 3 else None

    def phi(self, temperature: float = 1.0) -> Floats:
        """(1 + K, n): rescaled logits. Losses have lost the other classes, and any temperature but 1."""
        if self.signal == "losses":
            return rescaled_loss(np.asarray(self.values, dtype=np.float64))
        labels = self.labels if self.labels is not None else np.empty(0, dtype=np.int64)
        return rescaled_logit(self.logits, labels, temperature)

    @property
    def logits(self) -> NDArray[Any]:
        """(1 + K, n, C): as given, or log-probabilities, which are logits too."""
        if self.signal == "probabilities":
            with np.errstate(divide="ignore"):  # a zero has a finite stand-in later
                return np.asarray(np.log(self.values))
        return self.values

    @property
    def accuracy(self) -> float | None:
        """The share of records whose highest output is at their label; None for losses."""
        if self.labels is None or self.signal == "losses":
            return None
        return float((self.values[0].argmax(axis=1) == self.labels).mean())


def rescaled_loss(losses: Floats) -> Floats:
    """log p - log(1 - p) of p = exp(-loss), without rounding near p = 1; a loss of 0 gets a finite value."""
    with np.errstate(divide="ignore"):
        phi = -losses - np.log(-np.expm1(-losses))
    return np.asarray(np.minimum(phi, LARGEST_PHI))


def read_outputs(arrays: Arrays, role: str, declared: Signal | None = None) -> Outputs:
    """Check what was given of one set of records; DataError with what was expected.

    Args:
        arrays: by name: one of `logits`, `probabilities`, `losses` and `outputs`, `labels`, and optionally
        the
            same of shadows as `shadow_...`, `shadow_members`, `features` and `ids`.
        role: members, others or population, for messages.
        declared: the kind of `outputs`; None: recognise it.
    """
    name = _only_signal(arrays, role)
    own = _numbers(arrays[name], name, role)
    signal, recognised = _kind(own, name, declared)
    own = _as_classes(own, signal, name, role)
    if not len(own):
        raise DataError(f"{role} holds no record: give at least one", field=name, value=0, allowed=1)
    labels = _labels(arrays.get("labels"), signal, own, role)
    stacked, shadow_members = _with_shadows(arrays, own, signal, role)
    check_values(stacked, signal, name, role)
    features = arrays.get("features")
    ids = arrays.get("ids")
    for field, given in (("features", features), ("ids", ids)):
        if given is not None:
            _same_length(field, len(given), len(own), role)
    flat = None if features is None else _numbers(features, "features", role, finite=False)
    return Outputs(
        signal=signal,
        recognised=recognised,
        values=stacked,
        shadow_members=shadow_members,
        labels=labels,
        features=None if flat is None else flat.reshape(len(own), -1).astype(np.float32),
        ids=None if ids is None else np.asarray(ids).astype(str),
    )


def check_values(values: NDArray[Any], signal: Signal, name: str, role: str) -> None:
    """DataError unless logits are numbers, probabilities sum to 1, and losses are not negative."""
    if signal == "logits":
        broken = np.isnan(values) | np.isposinf(values)
        rows = np.asarray(broken.any(axis=2) | np.isneginf(values).all(axis=2))
        _refuse(rows, name, role, "NaN or infinite logits", "finite logits: look for a diverged training")
    elif signal == "losses":
        rows = np.asarray(~np.isfinite(values) | (values < 0))
        _refuse(
            rows, name, role, "losses that are negative or not finite", "cross-entropies in nats, from 0 up"
        )
    else:
        outside = np.asarray(~((values >= 0) & (values <= 1 + SUM_SLACK)).all(axis=2))
        _refuse(
            outside, name, role, "probabilities outside 0 to 1", "softmax outputs; for logits, name them so"
        )
        sums = values.sum(axis=2, dtype=np.float64)
        off = np.abs(sums - 1)
        if off.max() > SUM_SLACK:
            worst = float(sums.ravel()[off.argmax()])
            raise DataError(
                f"{name} of {role}: {int((off > SUM_SLACK).sum())} of {off.size} rows do not sum to 1 (one "
                "sums to "
                f"{worst:.4g}): give one probability for every class; for logits, name them `logits`",
                field=name,
                value=worst,
                allowed=(1 - SUM_SLACK, 1 + SUM_SLACK),
            )


def places_of(classes: NDArray[Any], labels: NDArray[Any], role: str) -> Ints:
    """Labels as positions among the sorted classes of an estimator; DataError for any other label."""
    places = np.searchsorted(classes, labels).clip(0, len(classes) - 1)
    strange = np.asarray(classes[places] != labels)
    if strange.any():
        raise DataError(
            f"{int(strange.sum())} labels of {role} are no classes of the estimator (one is "
            f"{labels[strange][0]!r}): it knows {', '.join(map(str, classes[:8]))}",
            field="labels",
            value=labels[strange][0],
            allowed=tuple(classes.tolist()),
        )
    return np.asarray(places, dtype=np.int64)


def recognise(values: NDArray[Any]) -> Signal:
    """The kind of outputs: one column is losses; rows in [0, 1] with a sum of 1 are probabilities."""
    if values.ndim == 1:
        return "losses"
    sums = values.sum(axis=1, dtype=np.float64)
    bounded = bool(((values >= 0) & (values <= 1 + SUM_SLACK)).all())
    return "probabilities" if bounded and bool((np.abs(sums - 1) <= SUM_SLACK).all()) else "logits"


def _only_signal(arrays: Arrays, role: str) -> str:
    unknown = sorted(set(arrays) - set(NAMES) - set(SHADOWS))
    found = [name for name in (*SIGNALS, UNDECLARED) if arrays.get(name) is not None]
    if len(found) != 1:
        seen = ", ".join(sorted(arrays)) or "nothing"
        raise DataError(
            f"{role} must hold exactly one of {', '.join((*SIGNALS, UNDECLARED))}, and holds {seen}",
            field="columns",
            value=tuple(sorted(arrays)),
            allowed=(*SIGNALS, UNDECLARED),
        )
    if unknown:
        raise DataError(
            f"{role} holds {', '.join(unknown)}, which no audit reads: leave them out, or use the names "
            f"{', '.join((*NAMES, *SHADOWS))}",
            field="columns",
            value=tuple(unknown),
            allowed=(*NAMES, *SHADOWS),
        )
    return found[0]


def _numbers(given: Any, name: str, role: str, finite: bool = True) -> NDArray[Any]:
    values = np.asarray(given)
    if values.dtype.kind not in "fiub":
        raise DataError(
            f"{name} of {role} are of type {values.dtype}: give numbers",
            field=name,
            value=str(values.dtype),
            allowed="numbers",
        )
    if values.dtype.kind != "f" or values.dtype.itemsize < 4:
        values = values.astype(np.float64)
    return values


def _kind(values: NDArray[Any], name: str, declared: Signal | None) -> tuple[Signal, bool]:
    for signal in SIGNALS:
        if name == signal:
            if declared not in (None, signal):
                raise DataError(
                    f"the outputs are named {name} and were declared {declared}: leave one of the two out",
                    field="signal",
                    value=declared,
                    allowed=signal,
                )
            return signal, False
    return (declared, False) if declared else (recognise(values), True)


def _as_classes(values: NDArray[Any], signal: Signal, name: str, role: str) -> NDArray[Any]:
    """(n, C) outputs; one column is that of class 1 of two."""
    if signal == "losses":
        if values.ndim == 2 and values.shape[1] == 1:
            return values[:, 0]
        if values.ndim != 1:
            raise _wrong_shape(values, name, role, "(records,)")
        return values
    if values.ndim == 1:
        values = values[:, None]
    if values.ndim != 2:
        raise _wrong_shape(values, name, role, "(records, classes)")
    if values.shape[1] == 1:
        zero = 1 - values if signal == "probabilities" else np.zeros_like(values)
        return np.hstack([zero, values])
    return values


def _wrong_shape(values: NDArray[Any], name: str, role: str, allowed: str) -> DataError:
    return DataError(
        f"{name} of {role} have the shape {values.shape}: give {allowed}",
        field=name,
        value=values.shape,
        allowed=allowed,
    )


def _labels(given: Any, signal: Signal, own: NDArray[Any], role: str) -> Ints | None:
    if given is None:
        if signal == "losses":
            return None
        raise DataError(
            f"{role} holds {signal} and no labels: give the label of every record, from 0 to "
            f"{own.shape[1] - 1}",
            field="labels",
            value=None,
            allowed=(0, own.shape[1] - 1),
        )
    labels = np.asarray(given).reshape(-1)
    _same_length("labels", len(labels), len(own), role)
    whole = labels.astype(np.float64) if labels.dtype.kind in "fiub" else None
    last = own.shape[1] - 1 if signal != "losses" else None
    if whole is None or not np.isfinite(whole).all() or (whole != np.floor(whole)).any():
        raise DataError(
            f"the labels of {role} are not whole numbers: give each class its number, from 0, in the order "
            "of the "
            "outputs",
            field="labels",
            value=str(labels.dtype),
            allowed="whole numbers from 0",
        )
    outside = (whole < 0) | (whole > (np.inf if last is None else last))
    if outside.any():
        raise DataError(
            f"{int(outside.sum())} labels of {role} are outside the classes (one is {whole[outside][0]:g}): "
            "give "
            f"labels from 0 to {last}, in the order of the outputs",
            field="labels",
            value=int(whole[outside][0]),
            allowed=(0, last),
        )
    return whole.astype(np.int64)


def _with_shadows(arrays: Arrays, own: NDArray[Any], signal: Signal, role: str) -> tuple[NDArray[Any], Bools]:
    """(1 + K, n, ...) outputs of the model and its shadows, and (K, n) the shadows' members."""
    found = [name for name in SHADOWS if arrays.get(name) is not None]
    none = np.zeros((0, len(own)), dtype=np.bool_)
    if not found:
        if arrays.get("shadow_members") is not None:
            raise DataError(
                f"{role} holds shadow_members and no shadow_{signal}: give the shadows' outputs too",
                field=f"shadow_{signal}",
                value=None,
                allowed=f"({len(arrays['shadow_members'])}, {len(own)}, ...)",
            )
        return own[None], none
    name = found[0]
    if len(found) > 1 or SHADOWS[name] not in (signal, UNDECLARED):
        raise DataError(
            f"{role} holds {signal} of the model and {', '.join(found)}: give the same signal of both",
            field=name,
            value=tuple(found),
            allowed=f"shadow_{signal}",
        )
    shadows = _numbers(arrays[name], name, role)
    expected = (shadows.shape[0] if shadows.ndim else 0, *own.shape)
    if shadows.shape != expected:
        raise DataError(
            f"{name} of {role} have the shape {shadows.shape}: give (shadows, "
            f"{', '.join(map(str, own.shape))})",
            field=name,
            value=shadows.shape,
            allowed=("shadows", *own.shape),
        )
    trained = arrays.get("shadow_members")
    if trained is None or np.shape(trained) != shadows.shape[:2]:
        shape = None if trained is None else np.shape(trained)
        raise DataError(
            f"{role} holds {len(shadows)} shadows; shadow_members must say on which of the {len(own)} "
            "records each "
            f"was trained, in the shape {shadows.shape[:2]}, and is "
            f"{'missing' if shape is None else f'of {shape}'}",
            field="shadow_members",
            value=shape,
            allowed=shadows.shape[:2],
        )
    mask = np.asarray(trained)
    if not np.isin(mask, (0, 1)).all():
        raise DataError(
            f"shadow_members of {role} must be true and false, or 1 and 0",
            field="shadow_members",
            value=str(mask.dtype),
            allowed=(0, 1),
        )
    return np.concatenate([own[None], shadows.astype(own.dtype)]), mask.astype(np.bool_)


def _same_length(field: str, found: int, expected: int, role: str) -> None:
    if found != expected:
        raise DataError(
            f"{role} has outputs of {expected} records and {found} {field}: give one for every record",
            field=field,
            value=found,
            allowed=expected,
        )


def _refuse(rows: NDArray[np.bool_], name: str, role: str, what: str, wanted: str) -> None:
    count = int(rows.any(axis=0).sum())
    if count:
        raise DataError(
            f"{name} of {role}: {what} on {count} of {rows.shape[1]} records; an audit needs {wanted}",
            field=name,
            value=count,
            allowed=0,
        )

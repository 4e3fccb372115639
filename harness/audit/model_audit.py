"""The audit of a model that can be called: its outputs, and the attacks that query it or read its weights."""

from collections.abc import Iterable
from typing import Any

from harness.audit.door import Asked, conclude
from harness.audit.given import read_outputs
from harness.audit.leakage_audit import LeakageAudit
from harness.audit.limits import check_resolved
from harness.audit.measurement import ATTACKS, Measured, measure
from harness.audit.pairing import pair
from harness.audit.target_model import TargetModel, evaluating, join, query, read_examples, wrap


def audit_model(model: Any, members: Any, others: Any, batch: int, asked: Asked) -> LeakageAudit:
    """Call a model on members and others, then attack it; a module is left in the mode that it had."""
    target = wrap(model, asked.signal, batch)
    examples = {role: read_examples(each, role) for role, each in (("members", members), ("others", others))}
    with evaluating(target.module) as was_training:
        first = examples["members"].x
        signal = target.recognise(first)
        outputs = {
            role: read_outputs(target.arrays(each, role, signal), role) for role, each in examples.items()
        }
        given = pair(outputs["members"], outputs["others"], few=asked.few)
        given.warnings.extend(_remarks(target, first, was_training))
        check_resolved(asked.limits, len(given.others))
        # An empty choice is one: only attacks on the model itself may have been asked for.
        found = measure(given, [name for name in asked.attacks or ATTACKS if name in ATTACKS])
        pool = join(examples["members"], examples["others"])
        figures, skipped, scores = query(target, given, pool, signal, asked.attacks)
    everything = Measured(
        [*found.figures, *figures], [*found.skipped, *skipped], {**found.scores, **scores}, found.warnings
    )
    return conclude("model", f"the model {target.name}", given, everything, asked)


def _remarks(target: TargetModel, x: Any, was_training: bool) -> Iterable[str]:
    if was_training:
        yield "the model was in training mode: it was audited in evaluation mode, and is as it was again"
    if target.is_random(x):
        yield (
            "the model gives other outputs when it is called again on the same records: one call was audited"
        )

"""Attacks that do not fit a cell: what each kind needs, and what an attack declares besides."""

from harness.attacks.base import Attack, AttackedCell, Attacker, Limited, Selection
from harness.attacks.parts.attribute_metrics import NOTHING_SENSITIVE, Inference
from harness.attacks.parts.inversion import Inversion, explain_no_images
from methods.base import Method, Params, Rebuilt, Stepped


def find_misfit(attacker: Attacker, cell: AttackedCell, method: Method) -> str | None:
    """Why the attack cannot run on the cell or would measure nothing; None if it fits."""
    found = None
    if isinstance(attacker, Attack | Selection) and not cell.canaries:
        found = explain_no_nonmembers(cell)
    elif isinstance(attacker, Inference):
        found = NOTHING_SENSITIVE if cell.sensitive is None else explain_no_nonmembers(cell)
    elif isinstance(attacker, Inversion):
        found = explain_no_images(cell.shape) if cell.shape is not None else None
        found = found or explain_no_gradient(method, method.Params)
    if found is None and isinstance(attacker, Limited):
        found = attacker.unfit(cell)
    return found


def explain_no_nonmembers(cell: AttackedCell) -> str | None:
    """Why a cell has no non-members; None if it has some."""
    if cell.pool is None or cell.members < cell.pool:
        return None
    return (
        f"every model trains on the whole pool of {cell.pool:,} records, so there are no non-members to "
        f"distinguish members from: give a smaller n_train, such as {max(1, cell.pool // 2):,}"
    )


def explain_no_gradient(method: Method, params: type[Params]) -> str | None:
    """Why a method with these parameters shares no gradient; None if it does."""
    if isinstance(method, Rebuilt):
        why = "releases another module than the one it trains"
    elif not issubclass(params, Stepped):
        why = f"declares no single step: {params.__name__} has no one_step"
    else:
        return None
    return f"'{type(method).__name__}' {why}, so it shares no gradient; attack its predictions instead"

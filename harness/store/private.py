"""Figures of a result that depend on private data and must not be published.

The only list of them. Databases, reports and exports are made without these figures.
"""

from harness.store.result import Result

PRIVATE_EPSILONS = ("data_dependent",)
"""Of a guarantee's epsilons. A data-dependent epsilon is computed from the teachers' votes and not sanitised
(Papernot et al. 2018), so it reveals how the teachers voted."""


def publishable(result: Result) -> Result:
    """Return the result without private figures and the assumptions that mention them."""
    guarantee = result.figures.get("guarantee")
    if not guarantee or not any(name in guarantee.get("epsilons", {}) for name in PRIVATE_EPSILONS):
        return result
    kept = {
        "epsilons": {
            name: value for name, value in guarantee["epsilons"].items() if name not in PRIVATE_EPSILONS
        },
        "assumptions": [line for line in guarantee["assumptions"] if not _mentions_private(line)],
    }
    return result.giving({**result.figures, "guarantee": {**guarantee, **kept}})


def _mentions_private(line: str) -> bool:
    return any(f"epsilons.{name}" in line for name in PRIVATE_EPSILONS)

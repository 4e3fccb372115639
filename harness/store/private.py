"""What stays in the store: figures of a result that read private data and must not be published.

The only place that says which. Databases, reports and exports are made of what is left.
"""

from harness.spec import Json

PRIVATE_EPSILONS = ("data_dependent",)
"""Of a guarantee's epsilons. The price of votes as they fell reads them and is not sanitised (Papernot et al.
2018): that epsilon itself tells how the teachers voted."""


def publishable(result: Json) -> Json:
    """The result without what stays in the store, and without the assumptions that speak of it."""
    guarantee = result.get("guarantee")
    if not guarantee or not any(name in guarantee.get("epsilons", {}) for name in PRIVATE_EPSILONS):
        return result
    kept = {
        "epsilons": {
            name: value for name, value in guarantee["epsilons"].items() if name not in PRIVATE_EPSILONS
        },
        "assumptions": [line for line in guarantee["assumptions"] if not _speaks_of_private(line)],
    }
    return {**result, "guarantee": {**guarantee, **kept}}


def _speaks_of_private(line: str) -> bool:
    return any(f"epsilons.{name}" in line for name in PRIVATE_EPSILONS)

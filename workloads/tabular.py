"""Binary tabular records: Location-30 and Purchase-100."""

from dataclasses import dataclass, field
from functools import lru_cache, partial
from pathlib import Path

import torch

from workloads.base import Attribute, Records
from workloads.data.places import data_root
from workloads.models.mlp import mlp
from workloads.published import OnPublishedData, Splits, published

SPLIT_SEED = 1
PLACE = Attribute("a visit to place 69", column=69, values=(0.0, 1.0))
"""The meaning of Location-30's bits is not published. Half of the records have this one: hardest to infer."""
PRODUCT = Attribute("a purchase of product 0", column=0, values=(0.0, 1.0))
"""Any of Purchase-100 would do."""


@dataclass(frozen=True)
class Bits(OnPublishedData):
    """A network on bits. The data have no split: pool and test are a fixed random choice."""

    pool_size: int = 0
    test_size: int = 0
    sensitive: Attribute = field(kw_only=True)

    def splits(self) -> Splits:
        """Pool and test, read once per process."""
        return records(self.dataset, self.pool_size, self.test_size, data_root())


@lru_cache(maxsize=2)
def records(dataset: str, pool: int, test: int, root: Path) -> Splits:
    """The first `pool` and the next `test` records of a data set in a fixed random order."""
    arrays = published(dataset).load()
    return split_bits(torch.from_numpy(arrays["x"]), torch.from_numpy(arrays["y"]), pool, test)


def split_bits(x: torch.Tensor, y: torch.Tensor, pool: int, test: int) -> Splits:
    """The same records for the same sizes, as float32."""
    order = torch.randperm(len(y), generator=torch.Generator().manual_seed(SPLIT_SEED))
    first, second = order[:pool], order[pool : pool + test]
    return Records(x[first].float(), y[first]), Records(x[second].float(), y[second])


def location(name: str, network: str, widths: tuple[int, ...]) -> Bits:
    """A workload on Location-30: half of 4,510 train each model, 500 test."""
    build = partial(mlp, widths)
    return Bits(
        name, network, "location-30", 30, 2_255, build, pool_size=4_510, test_size=500, sensitive=PLACE
    )


workloads = [
    location("location30-linear", "one linear layer 446-30", (446, 30)),
    location("location30-mlp", "MLP 446-128-30 with ReLU", (446, 128, 30)),
    # As in PD-SGD: 25,000 members, and as many more for the shadows.
    Bits(
        "purchase100-linear",
        "one linear layer 600-100",
        "purchase-100",
        100,
        25_000,
        partial(mlp, (600, 100)),
        pool_size=50_000,
        test_size=20_000,
        sensitive=PRODUCT,
    ),
]

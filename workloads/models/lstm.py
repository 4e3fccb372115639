"""The recurrent network of DPSUR for film reviews, with per-example gradients."""

from torch import Tensor, nn

from workloads.models.activation import Activation, activation
from workloads.models.init import seeded


class ReviewLstm(nn.Module):
    """Word numbers (B, length) to two logits: embedding 100, 32 units, LSTM 32 both ways, mean, 16 units.

    2,021,202 parameters for 20,000 words. Opacus's LSTM computes what torch's does, in layers that have
    per-example gradients.
    """

    def __init__(self, words: int, act: Activation) -> None:
        from opacus.layers import DPLSTM  # a second of imports that only this model needs

        super().__init__()
        self.embedding = nn.Embedding(words, 100)
        self.narrow = nn.Sequential(nn.Linear(100, 32), activation(act))
        self.lstm = DPLSTM(32, 32, batch_first=True, bidirectional=True)
        self.head = nn.Sequential(nn.Linear(64, 16), activation(act), nn.Linear(16, 2))

    def forward(self, tokens: Tensor) -> Tensor:
        """Logits of reviews; padding counts as a word, as in DPSUR."""
        states, _ = self.lstm(self.narrow(self.embedding(tokens)))
        logits: Tensor = self.head(states.mean(dim=1))
        return logits


def review_lstm(seed: int, words: int = 20_000, act: Activation = "tanh") -> ReviewLstm:
    """A fresh network."""
    with seeded(seed):
        return ReviewLstm(words, act)

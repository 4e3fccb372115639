"""The inference network of adversarial regularisation, and its training (Nasr et al. 2018)."""

from typing import Any

import torch
from torch import Tensor, nn, optim
from torch.nn.functional import mse_loss, one_hot

from methods.base import Run
from methods.training.descent import predict
from workloads.base import Records
from workloads.models.init import seeded
from workloads.models.mlp import mlp

INITIAL_DEVIATION = 0.01


class InferenceNetwork(nn.Module):
    """Maps logits and the true label to the probability of membership, as in the SELENA repository."""

    def __init__(self, classes: int, seed: int) -> None:
        super().__init__()
        self.classes = classes
        self.features = mlp((classes, 1024, 512, 64), seed)
        self.labels = mlp((classes, 128, 64), seed)
        self.combine = mlp((128, 512, 256, 128, 64, 1), seed)
        with seeded(seed):
            for name, weight in self.named_parameters():
                nn.init.normal_(weight, std=0.0 if name.endswith("bias") else INITIAL_DEVIATION)

    def forward(self, logits: Tensor, labels: Tensor) -> Tensor:
        """(B,) probabilities."""
        seen = self.features(logits).relu()
        true = self.labels(one_hot(labels, self.classes).to(logits)).relu()
        inferred: Tensor = self.combine(torch.cat([seen, true], dim=1)).squeeze(1).sigmoid()
        return inferred


class Adversary:
    """The inference network in training: distinguishes training records from reference records.

    Part of the state of `run.steps`.

    Args:
        classifier: The classifier whose logits it reads; not changed here.
        trained: Training records of the classifier.
        reference: Records it is not trained on.
        classes: Number of labels.
        batch_size: Records of each kind per step, if there are that many.
        learning_rate: Of Adam.
        run: The run it belongs to.
    """

    def __init__(
        self,
        classifier: nn.Module,
        trained: Records,
        reference: Records,
        classes: int,
        batch_size: int,
        learning_rate: float,
        run: Run,
    ) -> None:
        self.classifier, self.trained, self.reference, self.run = classifier, trained, reference, run
        self.network = InferenceNetwork(classes, run.seed("adversary")).to(run.device)
        # Fused: the network is larger than most classifiers here, and its update a large part of a step.
        self.optimizer = optim.Adam(self.network.parameters(), lr=learning_rate, fused=True)
        # Samples of one size, so that both kinds are equally likely in every batch.
        self.size = min(batch_size, len(trained), len(reference))
        self.samplers = [
            run.sampler("fixed_size", kind, self.size, "adversary") for kind in (trained, reference)
        ]

    def step(self) -> Tensor:
        """Make one step on the squared error (1 for trained, 0 for reference records); return it."""
        with self.run.drawing():
            batch = join(*(sampler.draw() for sampler in self.samplers))
        with self.run.clock("adversary"):
            inferred = self.network(predict(self.classifier, batch), batch.y)
            truth = torch.ones_like(inferred)
            truth[self.size :] = 0.0
            loss = mse_loss(inferred, truth)
            torch.autograd.backward(loss)
            self.optimizer.step()
            self.optimizer.zero_grad()
            self.classifier.train()
        return loss.detach()

    def accuracy(self) -> float:
        """Balanced accuracy on trained and reference records."""
        with torch.no_grad():
            sides = [
                self.network(predict(self.classifier, kind), kind.y) > 0.5
                for kind in (self.trained, self.reference)
            ]
        return float((sides[0].double().mean() + (~sides[1]).double().mean()) / 2)

    def state_dict(self) -> dict[str, Any]:
        """Network, optimizer and samplers."""
        return {
            "network": self.network.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "samplers": [sampler.state_dict() for sampler in self.samplers],
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore a saved state."""
        self.network.load_state_dict(state["network"])
        self.optimizer.load_state_dict(state["optimizer"])
        for sampler, saved in zip(self.samplers, state["samplers"], strict=True):
            sampler.load_state_dict(saved)


def join(first: Records, second: Records) -> Records:
    """Concatenate records."""
    return Records(torch.cat([first.x, second.x]), torch.cat([first.y, second.y]))

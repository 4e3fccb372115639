"""The LeNet of the gradient-inversion papers."""

from torch import nn

from workloads.models.activation import Activation, activation
from workloads.models.init import seeded


def lenet(seed: int, channels: int, side: int, classes: int, act: Activation = "sigmoid") -> nn.Sequential:
    """Three 5 x 5 convolutions of 12 filters and one linear layer (Zhu et al. 2019), on square images.

    15,826 parameters for 3 x 32 x 32 and 10 classes. Weights and biases are uniform in (-0.5, 0.5), as there.
    """
    # Two convolutions of stride 2, each rounding up.
    last = (side + 3) // 4
    with seeded(seed):
        network = nn.Sequential(
            nn.Conv2d(channels, 12, kernel_size=5, stride=2, padding=2),
            activation(act),
            nn.Conv2d(12, 12, kernel_size=5, stride=2, padding=2),
            activation(act),
            nn.Conv2d(12, 12, kernel_size=5, stride=1, padding=2),
            activation(act),
            nn.Flatten(),
            nn.Linear(12 * last * last, classes),
        )
        for weight in network.parameters():
            nn.init.uniform_(weight, -0.5, 0.5)
    return network

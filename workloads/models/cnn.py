"""The small convolutional networks of Handcrafted-DP and DPSUR, trained end to end."""

from torch import nn

from workloads.models.activation import Activation, activation
from workloads.models.init import seeded


def mnist_cnn(seed: int, act: Activation = "tanh") -> nn.Sequential:
    """28 x 28 grey images to 10 classes: 26,010 parameters (Papernot et al. 2021; Tramer and Boneh 2021)."""
    with seeded(seed):
        return nn.Sequential(
            nn.Conv2d(1, 16, kernel_size=8, stride=2, padding=2),
            activation(act),
            nn.MaxPool2d(2, stride=1),
            nn.Conv2d(16, 32, kernel_size=4, stride=2),
            activation(act),
            nn.MaxPool2d(2, stride=1),
            nn.Flatten(),
            nn.Linear(512, 32),
            activation(act),
            nn.Linear(32, 10),
        )


def cifar_cnn(seed: int, act: Activation = "tanh") -> nn.Sequential:
    """32 x 32 colour images to 10 classes: 550,570 parameters (the sources of mnist_cnn)."""
    layers: list[nn.Module] = []
    channels = 3
    with seeded(seed):
        for width in (32, 64, 128):
            for fan_in in (channels, width):
                layers += [nn.Conv2d(fan_in, width, kernel_size=3, padding=1), activation(act)]
            layers.append(nn.MaxPool2d(2))
            channels = width
        head = [nn.Flatten(), nn.Linear(128 * 4 * 4, 128), activation(act), nn.Linear(128, 10)]
        return nn.Sequential(*layers, *head)

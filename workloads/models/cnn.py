"""The small convolutional networks of tutorials and papers, trained end to end."""

from torch import nn

from workloads.models.activation import Activation, activation
from workloads.models.init import keras_defaults, seeded


def mnist_cnn(
    seed: int, act: Activation = "tanh", padding: int = 2, widths: tuple[int, int] = (16, 32)
) -> nn.Sequential:
    """28 x 28 grey images to 10 classes: 26,010 parameters (Papernot et al. 2021; Tramer and Boneh 2021).

    With padding 3 and ReLU the network of Opacus's example and, by `keras_defaults`, of TensorFlow Privacy's
    tutorial: as many parameters, because pooling drops the border. Widths (32, 64) make 68,042.
    """
    first, second = widths
    with seeded(seed):
        return nn.Sequential(
            nn.Conv2d(1, first, kernel_size=8, stride=2, padding=padding),
            activation(act),
            nn.MaxPool2d(2, stride=1),
            nn.Conv2d(first, second, kernel_size=4, stride=2),
            activation(act),
            nn.MaxPool2d(2, stride=1),
            nn.Flatten(),
            nn.Linear(second * 4 * 4, 32),
            activation(act),
            nn.Linear(32, 10),
        )


def keras_mnist_cnn(seed: int) -> nn.Sequential:
    """The network of TensorFlow Privacy's tutorial, initialised as in Keras: 26,010 parameters."""
    with seeded(seed):
        return keras_defaults(mnist_cnn(seed, "relu", padding=3))


def plain_mnist_cnn(seed: int) -> nn.Sequential:
    """The network of DP-KFC, two convolutions that keep the size: 206,922 parameters."""
    with seeded(seed):
        return nn.Sequential(
            nn.Conv2d(1, 16, kernel_size=3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(16, 32, kernel_size=3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Flatten(),
            nn.Linear(1568, 128),
            nn.ReLU(),
            nn.Linear(128, 10),
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

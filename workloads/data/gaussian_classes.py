"""Gaussian classes with a shared covariance: data whose best possible accuracy is known."""

import math
from dataclasses import dataclass
from functools import cache

import numpy as np
import torch
from numpy.typing import NDArray

from workloads.base import Records


@dataclass(frozen=True)
class GaussianClasses:
    """x = A (distance * e_y + z) with z standard normal, y uniform, A invertible.

    e_y are unit vectors, so all classes are equally far apart, and A gives every class the same
    covariance A A'. The posterior of y is the softmax of distance * (A^-1 x)_k over the classes k.
    """

    classes: int
    features: int
    distance: float
    seed: int

    def draw(self, count: int, stream: int) -> Records:
        """`count` independent records; another `stream` gives others from the same distribution."""
        random = np.random.default_rng([self.seed, stream])
        labels = random.integers(self.classes, size=count)
        latent = random.standard_normal((count, self.features))
        latent[np.arange(count), labels] += self.distance
        x = latent @ mixing(self.features, self.seed).T
        return Records(torch.tensor(x, dtype=torch.float32), torch.tensor(labels))

    def posterior(self, x: NDArray[np.floating]) -> NDArray[np.float64]:
        """(n, classes): the probability of each label given the features."""
        latent = np.linalg.solve(mixing(self.features, self.seed), np.asarray(x, np.float64).T).T
        scores = self.distance * latent[:, : self.classes]
        weights = np.exp(scores - scores.max(axis=1, keepdims=True))
        posterior: NDArray[np.float64] = weights / weights.sum(axis=1, keepdims=True)
        return posterior

    def bayes_accuracy(self) -> float:
        """The accuracy of the Bayes classifier, to 1e-9.

        It predicts the largest latent coordinate among the class directions; that is right when the
        shifted one beats classes - 1 standard normals: the integral over t of
        phi(t - distance) Phi(t)^(classes - 1).
        """
        from scipy.integrate import quad  # every worker loads this module, and few the integral
        from scipy.special import ndtr

        def integrand(t: float) -> float:
            density = math.exp(-0.5 * (t - self.distance) ** 2) / math.sqrt(2 * math.pi)
            return float(density * ndtr(t) ** (self.classes - 1))

        # Beyond twelve standard deviations the mass is below 1e-32.
        low, high = self.distance - 12, self.distance + 12
        return float(quad(integrand, low, high, epsabs=1e-11, epsrel=1e-11, limit=200)[0])


@cache
def mixing(features: int, seed: int) -> NDArray[np.float64]:
    """An invertible matrix with singular values from 1/2 to 2: correlated features of different scales."""
    random = np.random.default_rng([seed, 0])
    left, _ = np.linalg.qr(random.standard_normal((features, features)))
    right, _ = np.linalg.qr(random.standard_normal((features, features)))
    product: NDArray[np.float64] = (left * np.geomspace(0.5, 2.0, features)) @ right
    return product

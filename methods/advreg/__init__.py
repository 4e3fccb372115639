"""advreg: training against a network that infers membership, as a penalty on the classifier's loss."""

from methods.advreg.advreg import Advreg, AdvregParams, method

__all__ = ["Advreg", "AdvregParams", "method"]

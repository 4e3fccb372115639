"""selena: predictions of sub-models that did not see a record, distilled into one model."""

from methods.selena.selena import Selena, SelenaParams, method

__all__ = ["Selena", "SelenaParams", "method"]

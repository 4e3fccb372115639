"""Numbers with bounds, for parameters: an error names the parameter, the bound and what was given."""

import math
from typing import Annotated

from pydantic import AfterValidator, ValidationInfo


def _positive(value: float, info: ValidationInfo) -> float:
    if not value > 0:
        raise ValueError(f"{info.field_name} must be > 0, got {value}")
    return value


def _not_negative(value: float, info: ValidationInfo) -> float:
    if not value >= 0:
        raise ValueError(f"{info.field_name} must be >= 0, got {value}")
    return value


def _finite(value: float, info: ValidationInfo) -> float:
    if not math.isfinite(value):
        raise ValueError(f"{info.field_name} must be a finite number, got {value}")
    return value


def _below_one(value: float, info: ValidationInfo) -> float:
    if not value < 1:
        raise ValueError(f"{info.field_name} must be < 1, got {value}")
    return value


# Comparisons are written so that NaN fails them.
Positive = Annotated[float, AfterValidator(_positive)]
"""> 0; infinity is allowed."""
Rate = Annotated[float, AfterValidator(_finite), AfterValidator(_positive)]
"""> 0 and finite."""
Amount = Annotated[float, AfterValidator(_finite), AfterValidator(_not_negative)]
""">= 0 and finite."""
Fraction = Annotated[float, AfterValidator(_not_negative), AfterValidator(_below_one)]
""">= 0 and < 1."""
Probability = Annotated[float, AfterValidator(_positive), AfterValidator(_below_one)]
"""> 0 and < 1."""
Count = Annotated[int, AfterValidator(_positive)]
"""A whole number > 0."""

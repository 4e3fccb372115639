"""Frozen features of records: modules that bind `banks = [...]`, and their encoders."""

from typing import TYPE_CHECKING

from workloads.family import Family

if TYPE_CHECKING:
    from workloads.features.bank import Bank

family: "Family[Bank]" = Family("bank", __name__, "banks")

"""Data sets: one file each, binding `dataset`; loaders beside it."""

from workloads.data.dataset import Dataset
from workloads.family import Family

family: Family[Dataset] = Family("dataset", __name__, "dataset")

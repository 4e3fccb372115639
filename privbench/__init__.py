"""The Python interface of privbench: what notebooks, scripts and plug-ins may rely on.

Results of a store as data frames::

    import privbench
    frontier = privbench.open_store("privbench-store").frontier()

The epsilon of a ledger of events, by accountants that must agree::

    privbench.price(dp_accounting.GaussianDpEvent(2.0), delta=1e-5)

Plug-ins import the protocols and types they implement and use from here (docs/add-a-method.md,
docs/add-a-workload.md, docs/add-an-attack.md, docs/add-a-backend.md). Names load on first use: `import
privbench` loads neither torch nor the database. A name leaves this module only after a release that
deprecates it.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from harness.accounting import Guarantee as Guarantee
    from harness.accounting import price as price
    from harness.attacks.base import Attack as Attack
    from harness.attacks.base import AttackedCell as AttackedCell
    from harness.attacks.base import Audit as Audit
    from harness.attacks.base import Bound as Bound
    from harness.attacks.base import Evidence as Evidence
    from harness.attacks.base import Floats as Floats
    from harness.attacks.base import Informed as Informed
    from harness.attacks.base import Limited as Limited
    from harness.attacks.parts.attribute_metrics import Guesses as Guesses
    from harness.attacks.parts.attribute_metrics import Inference as Inference
    from harness.attacks.parts.inversion import Intercepted as Intercepted
    from harness.attacks.parts.inversion import Inversion as Inversion
    from harness.attacks.parts.inversion import Reconstructions as Reconstructions
    from harness.audit.door import audit as audit
    from harness.audit.leakage_audit import LeakageAudit as LeakageAudit
    from harness.audit.scorer import leakage_scorer as leakage_scorer
    from harness.backends.base import Backend as Backend
    from harness.backends.base import Finding as Finding
    from harness.backends.base import Job as Job
    from harness.backends.base import SchedulerJob as SchedulerJob
    from harness.backends.base import Settings as Settings
    from harness.backends.base import Standing as Standing
    from harness.backends.base import job_command as job_command
    from harness.backends.base import publish_failure as publish_failure
    from harness.backends.profile import ProfileFile as ProfileFile
    from harness.backends.sent import unfinished as unfinished
    from harness.leakage.intervals import Dependence as Dependence
    from harness.leakage.moments import leave_one_out as leave_one_out
    from harness.leakage.scoring import cross_entropy as cross_entropy
    from harness.leakage.scoring import rescaled_logit as rescaled_logit
    from harness.report.audit_page import write_audit_page as write_audit_page
    from harness.results.frames import Results as Results
    from harness.results.frames import open_store as open_store
    from harness.store import Store as Store
    from methods.base import Amount as Amount
    from methods.base import Assisted as Assisted
    from methods.base import Averaged as Averaged
    from methods.base import Batches as Batches
    from methods.base import Budget as Budget
    from methods.base import Budgeted as Budgeted
    from methods.base import Calibrated as Calibrated
    from methods.base import Count as Count
    from methods.base import Detached as Detached
    from methods.base import Differentiated as Differentiated
    from methods.base import Extensible as Extensible
    from methods.base import Fraction as Fraction
    from methods.base import Illustrated as Illustrated
    from methods.base import Level as Level
    from methods.base import Method as Method
    from methods.base import Noise as Noise
    from methods.base import Params as Params
    from methods.base import PerExample as PerExample
    from methods.base import Positive as Positive
    from methods.base import Probability as Probability
    from methods.base import Problem as Problem
    from methods.base import Rate as Rate
    from methods.base import Rebuilt as Rebuilt
    from methods.base import Released as Released
    from methods.base import Repeatable as Repeatable
    from methods.base import Run as Run
    from methods.base import Searched as Searched
    from methods.base import Shaped as Shaped
    from methods.base import Stepped as Stepped
    from methods.gradients import Engine as Engine
    from methods.gradients import make_engine as make_engine
    from methods.search import Derived as Derived
    from methods.search import Fixed as Fixed
    from methods.search import Search as Search
    from methods.search import Spending as Spending
    from methods.training.optimizer import OptimizerParams as OptimizerParams
    from methods.training.optimizer import make_optimizer as make_optimizer
    from methods.training.sampling import FixedSizeSampler as FixedSizeSampler
    from methods.training.sampling import PoissonSampler as PoissonSampler
    from methods.training.sampling import Sampler as Sampler
    from methods.training.sampling import ShuffleSampler as ShuffleSampler
    from workloads.base import Attribute as Attribute
    from workloads.base import Fetched as Fetched
    from workloads.base import Grouped as Grouped
    from workloads.base import Prepared as Prepared
    from workloads.base import Public as Public
    from workloads.base import Records as Records
    from workloads.base import Sensitive as Sensitive
    from workloads.base import Workload as Workload
    from workloads.drawings import Dot as Dot
    from workloads.drawings import Drawing as Drawing
    from workloads.drawings import DrawnPanel as DrawnPanel
    from workloads.drawings import DrawnTable as DrawnTable
    from workloads.drawings import Line as Line
    from workloads.drawings import Printed as Printed
    from workloads.drawings import Trained as Trained
    from workloads.errors import AccountingError as AccountingError
    from workloads.errors import BackendError as BackendError
    from workloads.errors import BenchError as BenchError
    from workloads.errors import DataError as DataError
    from workloads.errors import Diverged as Diverged
    from workloads.errors import SpecError as SpecError
    from workloads.errors import StoreError as StoreError
    from workloads.errors import UnknownName as UnknownName
    from workloads.models.init import seeded as seeded
    from workloads.models.mlp import mlp as mlp
    from workloads.records import LazyRecords as LazyRecords

_HOMES = {
    "harness.accounting": ("Guarantee", "price"),
    "harness.attacks.base": (
        "Attack",
        "AttackedCell",
        "Audit",
        "Bound",
        "Evidence",
        "Floats",
        "Informed",
        "Limited",
    ),
    "harness.attacks.parts.attribute_metrics": ("Guesses", "Inference"),
    "harness.attacks.parts.inversion": ("Intercepted", "Inversion", "Reconstructions"),
    "harness.audit.door": ("audit",),
    "harness.audit.leakage_audit": ("LeakageAudit",),
    "harness.audit.scorer": ("leakage_scorer",),
    "harness.backends.base": (
        "Backend",
        "Finding",
        "Job",
        "SchedulerJob",
        "Settings",
        "Standing",
        "job_command",
        "publish_failure",
    ),
    "harness.backends.profile": ("ProfileFile",),
    "harness.backends.sent": ("unfinished",),
    "harness.leakage.intervals": ("Dependence",),
    "harness.leakage.moments": ("leave_one_out",),
    "harness.leakage.scoring": ("cross_entropy", "rescaled_logit"),
    "harness.report.audit_page": ("write_audit_page",),
    "harness.results.frames": ("Results", "open_store"),
    "harness.store": ("Store",),
    "methods.base": (
        "Amount",
        "Assisted",
        "Averaged",
        "Batches",
        "Budget",
        "Budgeted",
        "Calibrated",
        "Count",
        "Detached",
        "Differentiated",
        "Extensible",
        "Fraction",
        "Illustrated",
        "Level",
        "Method",
        "Noise",
        "Params",
        "PerExample",
        "Positive",
        "Probability",
        "Problem",
        "Rate",
        "Rebuilt",
        "Released",
        "Repeatable",
        "Run",
        "Searched",
        "Shaped",
        "Stepped",
    ),
    "methods.gradients": ("Engine", "make_engine"),
    "methods.search": ("Derived", "Fixed", "Search", "Spending"),
    "methods.training.optimizer": ("OptimizerParams", "make_optimizer"),
    "methods.training.sampling": ("FixedSizeSampler", "PoissonSampler", "Sampler", "ShuffleSampler"),
    "workloads.base": (
        "Attribute",
        "Fetched",
        "Grouped",
        "Prepared",
        "Public",
        "Records",
        "Sensitive",
        "Workload",
    ),
    "workloads.drawings": ("Dot", "Drawing", "DrawnPanel", "DrawnTable", "Line", "Printed", "Trained"),
    "workloads.errors": (
        "AccountingError",
        "BackendError",
        "BenchError",
        "DataError",
        "Diverged",
        "SpecError",
        "StoreError",
        "UnknownName",
    ),
    "workloads.models.init": ("seeded",),
    "workloads.models.mlp": ("mlp",),
    "workloads.records": ("LazyRecords",),
}
_HOME = {name: module for module, names in _HOMES.items() for name in names}

__all__ = sorted(_HOME)


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'privbench' has no attribute {name!r}; it has {', '.join(__all__)}")
    found = getattr(importlib.import_module(_HOME[name]), name)
    globals()[name] = found  # the next time it is found without this function
    return found


def __dir__() -> list[str]:
    return __all__

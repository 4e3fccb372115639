"""Modules under their names of privbench 0.1, for plug-ins and job scripts of that version.

An old name gives the module itself, with a DeprecationWarning that names the new one; `python -m` with an old
name runs it. The stable names are in `privbench` (docs/add-a-method.md).
"""

import importlib
import importlib.util
import sys
import warnings
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from types import CodeType, ModuleType

MOVED = {
    "harness.backends.element": "harness.backends.slurm.element",
    "harness.backends.keeper": "harness.backends.docker.keeper",
    "harness.backends.supervisor": "harness.backends.machine.supervisor",
    "harness.attacks.attribute": "harness.attacks.parts.attribute_metrics",
    "harness.attacks.augment": "harness.attacks.parts.augment",
    "harness.attacks.boosting": "harness.attacks.parts.boosting",
    "harness.attacks.inversion": "harness.attacks.parts.inversion",
    "harness.attacks.lbfgs": "harness.attacks.parts.lbfgs",
    "harness.attacks.moments": "harness.leakage.moments",
    "harness.attacks.posteriors": "harness.attacks.parts.posteriors",
    "harness.attacks.queries": "harness.attacks.parts.queries",
    "harness.notebook": "harness.results.frames",
    "harness.query": "harness.results.query",
    "methods.averaging": "methods.training.averaging",
    "methods.bounds": "methods.base",
    "methods.descent": "methods.training.descent",
    "methods.ensembles": "methods.training.ensembles",
    "methods.events": "methods.mechanisms.events",
    "methods.gaussian": "methods.mechanisms.gaussian",
    "methods.holdout": "methods.training.holdout",
    "methods.line_search": "methods.mechanisms.line_search",
    "methods.noise": "methods.mechanisms.noise",
    "methods.optimizer": "methods.training.optimizer",
    "methods.sampling": "methods.training.sampling",
    "methods.votes": "methods.pate.aggregation",
    "workloads.digits": "workloads.embedded",
    "workloads.data.cache": "workloads.data.array_cache",
}
"""Modules that plug-ins of 0.1 could import and job scripts could start: old name to new."""


class Moved:
    """Finds and loads modules under their old names.

    Not a subclass of those in importlib.abc, which load much else and add nothing.
    """

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """See importlib.abc.MetaPathFinder."""
        return ModuleSpec(fullname, self) if fullname in MOVED else None  # type: ignore[arg-type]

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """The module as it is now."""
        warnings.warn(
            f"{spec.name} is {MOVED[spec.name]} since privbench 0.2; plug-ins import from privbench",
            DeprecationWarning,
            stacklevel=2,
        )
        module = importlib.import_module(MOVED[spec.name])
        spec.loader_state = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Restore the module's own spec, which the import under the old name has replaced."""
        if module.__spec__ is not None:
            module.__spec__ = module.__spec__.loader_state

    def get_code(self, fullname: str) -> CodeType | None:
        """For `python -m`: the code of the module as it is now."""
        spec = importlib.util.find_spec(MOVED[fullname])
        code: CodeType | None = spec.loader.get_code(spec.name)  # type: ignore[union-attr]
        return code


def install() -> None:
    """Make modules importable under their old names in this process."""
    if not any(isinstance(each, Moved) for each in sys.meta_path):
        sys.meta_path.append(Moved())

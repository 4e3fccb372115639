"""`import privbench`: the names users may rely on, and what importing it costs."""

import ast
import inspect
import json
import subprocess
import sys

import privbench

EXPORTED = {
    *("Results", "open_store", "Guarantee", "price", "audit", "LeakageAudit", "write_audit_page"),
    "leakage_scorer",
    *(
        "Method",
        "Calibrated",
        "Extensible",
        "Searched",
        "Shaped",
        "Stepped",
        "Budgeted",
        "Assisted",
        "Rebuilt",
        "Detached",
        "Illustrated",
        "PerExample",
        "Repeatable",
    ),
    *("Drawing", "DrawnPanel", "DrawnTable", "Line", "Dot", "Trained", "Printed"),
    *("Params", "Differentiated", "Averaged"),
    *("Problem", "Run", "Released", "Budget", "Engine", "make_engine", "OptimizerParams", "make_optimizer"),
    *("Batches", "Noise", "Sampler", "PoissonSampler", "FixedSizeSampler", "ShuffleSampler"),
    *("Positive", "Rate", "Amount", "Fraction", "Probability", "Count"),
    *("Search", "Level", "Fixed", "Derived", "Spending"),
    *("Workload", "Records", "LazyRecords", "Public", "Sensitive", "Attribute", "Prepared", "mlp", "seeded"),
    *("Attack", "Audit", "Bound", "Inference", "Guesses", "Inversion", "Intercepted", "Reconstructions"),
    *("AttackedCell", "Informed", "Limited", "Fetched", "Grouped", "DataError"),
    *("Evidence", "Dependence", "Floats", "cross_entropy", "rescaled_logit", "leave_one_out"),
    *("Backend", "ProfileFile", "Job", "Settings", "Standing", "SchedulerJob", "Finding", "Store"),
    *("job_command", "publish_failure", "unfinished"),
    *("BenchError", "SpecError", "UnknownName", "StoreError", "AccountingError", "BackendError", "Diverged"),
}
"""A name that leaves this list breaks somebody's plug-in."""


def test_the_exported_names() -> None:
    assert set(privbench.__all__) == set(dir(privbench)) == EXPORTED
    for name in privbench.__all__:
        assert getattr(privbench, name) is not None


def test_what_type_checkers_see_is_what_there_is() -> None:
    (block,) = (
        node
        for node in ast.parse(inspect.getsource(privbench)).body
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
    )
    seen = {
        alias.asname: node.module
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert seen == privbench._HOME


def test_an_unknown_name_is_an_attribute_error_that_lists_the_names() -> None:
    done = subprocess.run(
        [sys.executable, "-c", "import privbench; privbench.methods"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert "AttributeError" in done.stderr
    assert "open_store" in done.stderr


def test_importing_it_is_cheap_and_loads_no_torch() -> None:
    code = (
        "import json, sys, time; begin = time.process_time(); import privbench; "
        "print(json.dumps([time.process_time() - begin, sorted(sys.modules)]))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    seconds, loaded = json.loads(done.stdout)
    assert seconds < 0.1
    assert not {"torch", "numpy", "duckdb", "pydantic", "harness", "methods"} & set(loaded)

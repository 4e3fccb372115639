"""Files are data, never code: what our own sources may not call, found by walking their syntax."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("harness", "methods", "workloads", "db")
PICKLERS = {
    "pickle",
    "cPickle",
    "_pickle",
    "marshal",
    "shelve",
    "dill",
    "cloudpickle",
    "joblib",
    "jsonpickle",
}
RUNNERS = {"eval", "exec", "compile", "__import__"}
SHELLS = {"system", "popen", "getoutput", "getstatusoutput", "create_subprocess_shell"}
READER = "workloads/data/pickled.py"
"""The only file that may name pickle: it resolves every name in a pickle itself (tests/workloads/data)."""


def findings(source: str) -> Iterator[str]:
    """The parts of a source that could execute the content of a file."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import | ast.ImportFrom):
            names = [node.module or ""] if isinstance(node, ast.ImportFrom) else [a.name for a in node.names]
            yield from (f"imports {name}" for name in names if name.split(".")[0] in {*PICKLERS, "yaml"})
        if isinstance(node, ast.Call):
            yield from _calls(node)


def _calls(call: ast.Call) -> Iterator[str]:
    function, options = ast.unparse(call.func), {each.arg: each.value for each in call.keywords}
    if function in RUNNERS or function.rpartition(".")[2] in SHELLS:
        yield f"calls {function}"
    if "shell" in options and not _is(options["shell"], False):
        yield "starts a shell"
    if function.endswith("torch.load") and not _is(options.get("weights_only"), True):
        yield "torch.load without weights_only=True"
    if "allow_pickle" in options and not _is(options["allow_pickle"], False):
        yield "numpy with allow_pickle"


def _is(node: ast.expr | None, value: bool) -> bool:
    return isinstance(node, ast.Constant) and node.value is value


@pytest.mark.parametrize(
    "source",
    [
        "import pickle",
        "from cloudpickle import loads",
        "import joblib.memory",
        "import yaml",
        "eval('1')",
        "exec(open('x').read())",
        "import os; os.system('ls')",
        "subprocess.run('ls', shell=True)",
        "subprocess.run('ls', shell=given)",
        "torch.load(file)",
        "torch.load(file, weights_only=False)",
        "np.load(file, allow_pickle=True)",
    ],
)
def test_the_walk_finds(source: str) -> None:
    assert list(findings(source))


@pytest.mark.parametrize(
    "source",
    ["model.eval()", "torch.load(f, weights_only=True)", "re.compile('x')", "run(['ls'], shell=False)"],
)
def test_the_walk_accepts(source: str) -> None:
    assert not list(findings(source))


@pytest.mark.slow
def test_no_source_of_ours_executes_file_content() -> None:
    found = {}
    for package in PACKAGES:
        for file in sorted((ROOT / package).rglob("*.py")):
            name = file.relative_to(ROOT).as_posix()
            if each := list(findings(file.read_text(encoding="utf-8"))):
                found[name] = each
    assert found == {READER: ["imports pickle"]}


def test_submitit_only_writes_scripts() -> None:
    source = ast.parse((ROOT / "harness" / "backends" / "slurm" / "slurm.py").read_text(encoding="utf-8"))
    asked = {
        node.attr
        for node in ast.walk(source)
        if isinstance(node, ast.Attribute) and ast.unparse(node.value) == "executor"
    }
    # `submit` and `map_array` would pickle what they are given, and a node would unpickle it.
    assert asked == {"update_parameters", "parameters", "_make_submission_file_text"}

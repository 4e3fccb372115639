"""What users give: scripts, functions, arrays and files, and what cannot be used."""

import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch

from harness.programs.ask import find_function, take_command, take_functions, take_script
from harness.programs.child import ProgramError
from harness.programs.given_records import Arrays
from harness.programs.program import Program
from harness.programs.shelf import describe_given
from harness.store import Store
from tests.harness.programs.conftest import RECORDS, TRAIN, Trained, Write
from workloads.errors import DataError, SpecError

QUICK = "\n\ndef train(x, y, seed):\n    return lambda x: x[:, :3] + 5\n"


@pytest.fixture
def module(write: Write, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """A user's module `mine`, imported as from a notebook."""
    file = write(RECORDS + QUICK, "mine.py")
    spec = importlib.util.spec_from_file_location("mine", file)
    assert spec is not None and spec.loader is not None
    found = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "mine", found)
    spec.loader.exec_module(found)
    yield found


FORMS = {
    "four": "return x, y, tx, ty",
    "pairs": "return (x, y), (tx, ty)",
    "mapping": "return dict(x=x, y=y, test_x=tx, test_y=ty)",
    "lists": "return x.tolist(), y.tolist(), tx.tolist(), ty.tolist()",
    "frames": "import pandas; return pandas.DataFrame(x), pandas.Series(y), pandas.DataFrame(tx), ty",
}


def test_every_form_of_data_is_the_same_records(write: Write, store: Store) -> None:
    found = set()
    for form in FORMS.values():
        body = f"    x, y, tx, ty = x[:100], y[:100], x[100:], y[100:]\n    {form}\n"
        found.add(take_script(store, write(RECORDS.partition("    return")[0] + body + QUICK)).workload)
    assert len(found) == 1


def test_the_script_and_the_records_decide_the_names(write: Write, store: Store) -> None:
    first = take_script(store, write(RECORDS + QUICK))
    assert first == take_script(store, write(RECORDS + QUICK))
    other = take_script(store, write(RECORDS + QUICK + "# a remark\n"))
    assert other.workload == first.workload and other.method != first.method
    moved = take_script(store, write(RECORDS.replace("default_rng(0)", "default_rng(1)") + QUICK))
    assert moved.workload != first.workload


def test_what_it_imports_from_its_folder_is_part_of_the_name(write: Write, store: Store) -> None:
    write("BIAS = 5", "settings.py")
    script = write(RECORDS + "import settings" + QUICK.replace("+ 5", "+ settings.BIAS"))
    first = take_script(store, script)
    assert describe_given(store, first.method)["files"].keys() == {"files/settings.py", "files/train.py"}
    write("BIAS = 6", "settings.py")
    assert take_script(store, script).method != first.method


def test_functions_of_a_module_are_found_by_their_file(
    module: ModuleType, store: Store, first_training: Trained
) -> None:
    given = take_functions(store, module.train, module.data)
    assert given.method.startswith("mine-")
    assert first_training(given).done


def test_functions_of_a_package_import_as_there(
    write: Write, store: Store, first_training: Trained, monkeypatch: pytest.MonkeyPatch
) -> None:
    write("", "parcel/__init__.py")
    write("BIAS = 5", "parcel/beside.py")
    file = write("from .beside import BIAS\n" + QUICK.replace("5", "BIAS"), "parcel/inner.py")
    monkeypatch.syspath_prepend(str(file.parents[1]))
    inner: Any = importlib.import_module("parcel.inner")
    records = {"x": np.eye(60)[:, :4], "y": np.arange(60) % 3, "test_x": np.eye(4), "test_y": [0, 1, 2, 0]}
    assert first_training(take_functions(store, inner.train, records)).done


def test_arrays_and_tensors_can_be_given(module: ModuleType, store: Store, arrays: Arrays) -> None:
    plain = take_functions(store, module.train, arrays)
    tensors = take_functions(store, module.train, [torch.tensor(each) for each in arrays.values()])
    assert plain.workload == tensors.workload
    told = [describe_given(store, each.method)["tensors"] for each in (plain, tensors)]
    assert told == [False, True]


def test_functions_that_no_child_can_import(module: ModuleType) -> None:
    def inside(x: Any, y: Any, seed: int) -> None: ...

    typed = ModuleType("notebook")
    exec("def train(x, y, seed): ...", vars(typed))
    for given in (inside, lambda x, y, seed: None, typed.train, Program):
        with pytest.raises(SpecError) as refused:
            find_function(given, "train")
        assert refused.value.field == "train"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (RECORDS, "train.py has no function train(): it trains on the members"),
        (QUICK, "train.py has no function data(): it returns the pool"),
        (RECORDS + "def train(x, y): ...", "train() of train.py cannot be called with (x, y, seed)"),
        ("def data(): return 3" + QUICK, "data() returned a int: return (x, y, test_x, test_y)"),
        ("def data(): return {'x': 3}" + QUICK, "data() returned a mapping without y, test_x, test_y"),
        ("def data(): return [['a']] * 4" + QUICK, "values of type <U1 were returned"),
        ("def data(): return open('no.csv')" + QUICK, "FileNotFoundError: [Errno 2]"),
        ("import no_such_package" + QUICK, "No module named 'no_such_package'"),
    ],
)
def test_a_script_that_cannot_be_used(text: str, message: str, write: Write, store: Store) -> None:
    with pytest.raises(ProgramError) as refused:
        take_script(store, write(text))
    assert message in str(refused.value)
    assert refused.value.field == "look"
    assert not list(store.given.glob("*"))


def test_nan_and_one_class_are_refused(write: Write, store: Store) -> None:
    broken = RECORDS.replace("    return", "    x[3, 1] = np.nan\n    return")
    with pytest.raises(DataError) as refused:
        take_script(store, write(broken + QUICK))
    assert (refused.value.field, refused.value.value) == ("x", 1)
    alone = RECORDS.replace("    return", "    y[:] = 1\n    return")
    with pytest.raises(DataError) as refused:
        take_script(store, write(alone + QUICK))
    assert (refused.value.field, refused.value.value) == ("y", 1)


def test_a_script_may_audit_itself(write: Write, store: Store) -> None:
    """It imports privbench, and starts its audit under `if __name__ == "__main__"`."""
    audited = "\n\nif __name__ == '__main__':\n    privbench.audit(train, data, models=2)\n"
    take_script(store, write("import privbench\n" + RECORDS + QUICK + audited))


def test_a_name_that_no_module_may_have(write: Write, store: Store, first_training: Trained) -> None:
    given = take_script(store, write(RECORDS + QUICK, "2-my train.v2.py"))
    assert given.method.startswith("2-my-train-v2-")
    assert first_training(given).done


def test_files_that_do_not_exist(store: Store, tmp_path: Path, write: Write) -> None:
    with pytest.raises(SpecError) as refused:
        take_script(store, tmp_path / "no.py")
    assert refused.value.field == "SCRIPT"
    for other in (tmp_path / "no.toml", tmp_path):
        with pytest.raises(SpecError) as refused:
            take_script(store, write(RECORDS + TRAIN), [other])
        assert (refused.value.field, refused.value.value) == ("--with", str(other))
    with pytest.raises(DataError) as unread:
        take_command(store, "a {members} {records} {predictions}", tmp_path / "no.npz")
    assert unread.value.field == "--data"

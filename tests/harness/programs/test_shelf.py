"""What a store was given: named by its content, checked before it is used."""

import pytest

import methods
import workloads
from harness.programs.given_records import Arrays
from harness.programs.program import Program
from harness.programs.shelf import admit_names, keep_program, keep_records
from harness.spec import Json
from harness.store import Store
from workloads.errors import StoreError

ABOUT: Json = {
    "module": "train",
    "function": "train",
    "file": "train.py",
    "tensors": False,
    "shown": "train.py",
}


def test_names_are_hashes_of_the_content(store: Store, arrays: Arrays) -> None:
    records = keep_records(store, arrays)
    assert keep_records(store, arrays) == records
    assert keep_records(store, {**arrays, "y": 2 - arrays["y"]}) != records
    program = keep_program(store, "My Train", ABOUT, {"train.py": b"1"})
    assert program.startswith("my-train-")
    assert keep_program(store, "My Train", ABOUT, {"train.py": b"1"}) == program
    assert keep_program(store, "My Train", ABOUT, {"train.py": b"2"}) != program
    assert keep_program(store, "My Train", {**ABOUT, "tensors": True}, {"train.py": b"1"}) != program


def test_what_a_task_names_becomes_a_member_of_its_family(store: Store, arrays: Arrays) -> None:
    records, program = keep_records(store, arrays), keep_program(store, "a", ABOUT, {"train.py": b"1"})
    admit_names(store, records, program)
    assert len(workloads.family.get(records).pool()) == 100
    assert isinstance(methods.family.get(program), Program)


def test_names_that_the_store_was_not_given_are_left_to_the_families(store: Store) -> None:
    admit_names(store, "digits-linear", "../../etc-0123456789ab")
    admit_names(store, "records-0123456789ab", "sgd")
    assert "records-0123456789ab" not in workloads.family.members


@pytest.mark.parametrize("file", ["files/train.py", "about.json"])
def test_an_altered_program_is_refused_and_rewritten(file: str, store: Store) -> None:
    program = keep_program(store, "a", {**ABOUT, "shown": file}, {"train.py": b"1"})
    kept = store.given / program / file
    kept.write_bytes(kept.read_bytes().replace(b"1", b"2"))
    with pytest.raises(StoreError) as refused:
        admit_names(store, "digits-linear", program)
    assert (refused.value.field, refused.value.value) == ("given", program)
    assert keep_program(store, "a", {**ABOUT, "shown": file}, {"train.py": b"1"}) == program
    admit_names(store, "digits-linear", program)

import pytest

from tests.safety.dependencies import (
    BY_MACHINE,
    LICENCES,
    LOCK,
    VENDORED,
    closure,
    families_of,
    hashes_of,
    licence_of,
    pins,
)

PAGE = """
<a href="https://files.example/ab/thing-1.0.tar.gz#sha256={a}">thing-1.0.tar.gz</a>
<a href="../../thing-1.0-py3-none-any.whl#sha256={b}" data-requires-python="&gt;=3.11">thing</a>
<a href="../../thing-1.0%2Bcpu-py3-none-any.whl#sha256={c}">another build</a>
<a href="../../thing-1.0.1-py3-none-any.whl#sha256={d}">another version</a>
<a href="../../thing-1.0.exe#sha256={e}">an old kind</a>
""".format(**{letter: letter * 64 for letter in "abcde"})


@pytest.mark.slow
def test_every_package_that_is_needed_has_a_licence_we_may_use() -> None:
    needed = closure("privbench")
    assert {"torch", "duckdb", "numpy"} <= needed.keys()
    unknown = {name: licence_of(each) for name, each in needed.items() if not families_of(licence_of(each))}
    assert not unknown


@pytest.mark.parametrize("licence", ["GPL-3.0-only", "AGPL", "Proprietary", "not stated", "UNKNOWN"])
def test_other_licences_are_not_known(licence: str) -> None:
    assert not families_of(licence)


def test_the_list_of_licences_is_of_the_pinned_versions() -> None:
    rows = [line.split(" | ") for line in LICENCES.read_text(encoding="utf-8").splitlines() if " | " in line]
    listed = {row[0].removeprefix("| "): row[1] for row in rows[2:]}
    missing = closure("privbench").keys() - listed.keys()
    assert not missing, f"run `make licences`: {sorted(missing)}"
    versions = pins()
    stale = {name for name, version in listed.items() if not version.startswith(versions.get(name, version))}
    assert not stale, f"run `make licences`: {sorted(stale)}"


def test_every_pinned_version_has_its_hashes() -> None:
    text = LOCK.read_text(encoding="utf-8").replace("\\\n", "")
    lines = [line.split() for line in text.splitlines() if not line.startswith("#")]
    locked = dict(words[0].split("==") for words in lines)
    assert locked == {name: version for name, version in pins().items() if name not in BY_MACHINE}
    assert all(
        len(words) > 1 and all(each.startswith("--hash=sha256:") for each in words[1:]) for words in lines
    )


def test_hashes_are_those_of_the_files_of_one_version() -> None:
    assert sorted(hashes_of("thing", "1.0", PAGE)) == ["a" * 64, "b" * 64]


def test_vendored_files_are_as_published_with_their_licence() -> None:
    for each in VENDORED:
        assert each.is_whole(), each.file.name
        assert f"v{each.version}" in each.file.read_text(encoding="utf-8")[:200]
        assert each.terms.read_text(encoding="utf-8").startswith(f"{each.licence} License")
        assert f"| {each.package} | {each.version} | {each.licence} |" in LICENCES.read_text(encoding="utf-8")


def test_no_other_file_of_others_is_in_the_package() -> None:
    known = {file for each in VENDORED for file in (each.file, each.terms)}
    assert set(VENDORED[0].file.parent.iterdir()) == known

from pathlib import Path

import pytest

from workloads.errors import SpecError
from workloads.toml import parse_toml, read_toml


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"a = \n", "thing is not TOML: .*line 1"),
        (b"\xff\xfe", "thing is not TOML: .*utf-8"),
        (b"a = " + b"[" * 3_000, "thing is not TOML: nested too deeply"),
        (b"a = " + b"1" * 5_000, "thing is not TOML: .*4300 digits"),
        (b"a = 0x" + b"f" * 5_000, "thing is not TOML: .*4300 digits"),
    ],
)
def test_what_is_not_toml_is_reported(content: bytes, message: str) -> None:
    with pytest.raises(SpecError, match=message):
        parse_toml(content, "thing")


@pytest.mark.parametrize("name", ["nowhere.toml", "n" * 5_000, "nul\0"])
def test_a_file_that_cannot_be_read_is_reported(tmp_path: Path, name: str) -> None:
    with pytest.raises(SpecError, match="thing cannot be read"):
        read_toml(tmp_path / name, "thing")


def test_content_comes_back(tmp_path: Path) -> None:
    file = tmp_path / "a.toml"
    file.write_text("a = [1, 2]\n[b]\nc = 'ε'\n", encoding="utf-8")
    assert read_toml(file, "thing") == {"a": [1, 2], "b": {"c": "ε"}}

"""Where data and caches live by default."""

from pathlib import Path

import pytest

from workloads.data.places import cache_root, data_root


def test_given_folders(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PRIVBENCH_DATA", str(tmp_path / "a"))
    monkeypatch.setenv("PRIVBENCH_CACHE", "~/b")
    assert data_root() == tmp_path / "a"
    assert cache_root() == Path.home() / "b"


def test_the_users_cache_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("PRIVBENCH_DATA", raising=False)
    monkeypatch.setenv("PRIVBENCH_CACHE", "")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert data_root() == tmp_path / "privbench" / "data"
    assert cache_root() == tmp_path / "privbench" / "arrays"

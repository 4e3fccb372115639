from pathlib import Path

import pytest

from harness.jobs import cgroup


@pytest.mark.parametrize(
    ("content", "kills"),
    [
        ("low 0\nhigh 0\nmax 7\noom 2\noom_kill 2\noom_group_kill 0\n", 2),
        ("oom_kill_disable 0\nunder_oom 0\noom_kill 3\n", 3),
        ("oom_kill_disable 0\nunder_oom 0\n", 0),
        ("oom_kill many\n", 0),
    ],
)
def test_kills_are_read_from_either_version(
    content: str, kills: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "events").write_text(content)
    monkeypatch.setattr(cgroup, "COUNTS", (tmp_path / "none", tmp_path / "events"))
    assert cgroup.oom_kills() == kills


@pytest.mark.parametrize(
    ("content", "shown"),
    [
        ("1258291200\n", "1200 MiB"),
        ("max\n", "all memory of the machine"),
        ("9223372036854771712\n", "all memory of the machine"),
    ],
)
def test_the_limit_is_formatted_for_display(
    content: str, shown: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "limit").write_text(content)
    monkeypatch.setattr(cgroup, "LIMITS", (tmp_path / "none", tmp_path / "limit"))
    assert cgroup.memory_limit() == shown

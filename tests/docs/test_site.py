"""The site as `make docs` builds it: strictly, and without any network resource."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("mkdocs", reason="the site is built with the development tools: pip install -e '.[dev]'")
pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("site")]

FETCHED = re.compile(r"""(?:<script[^>]*\ssrc|<link[^>]*\shref|<img[^>]*\ssrc)=["']?(https?:)?//""")
"""Everything that a browser would request from the network when it opens a page."""


@pytest.fixture(scope="module")
def site(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)],
        cwd=root,
        env=os.environ | {"NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def test_every_page_is_in_it(site: Path, root: Path) -> None:
    pages = [file.relative_to(root / "docs").with_suffix(".html") for file in root.glob("docs/**/*.md")]
    assert [str(page) for page in pages if not (site / page).is_file()] == []
    assert "Quickstart" in (site / "index.html").read_text(encoding="utf-8")
    assert (site / "img/frontier.png").is_file()


def test_no_page_makes_a_network_request(site: Path) -> None:
    pages = {file: file.read_text(encoding="utf-8") for file in site.rglob("*.html")}
    assert FETCHED.search('<script defer src="https://cdn.example/x.js">')
    assert [file.name for file, text in pages.items() if FETCHED.search(text)] == []
    styles = [file for file in site.rglob("*.css") if re.search(r"url\([\"']?https?:", file.read_text())]
    assert styles == []


def test_blocks_of_a_file_are_titled_with_its_name(site: Path) -> None:
    text = (site / "add-a-workload.html").read_text(encoding="utf-8")
    assert 'class="filename">breast_cancer.py<' in text
    assert "```" not in re.sub(r"<code>.*?</code>", "", text, flags=re.DOTALL)


def test_links_out_of_the_pages_lead_to_copies(site: Path) -> None:
    assert 'href="files/slurm/site.toml"' in (site / "slurm.html").read_text(encoding="utf-8")
    assert (site / "files/slurm/site.toml").is_file()

"""Hooks of mkdocs: pages are written for the repository, and the site takes them as they are.

The README is the front page, and the pages beside it come along. A link to any other file outside docs/
leads to a copy of it. What follows a fence's language, a file's name or `needs-slurm`, is the block's title.
"""

import posixpath
import re
from pathlib import Path, PurePosixPath
from typing import Any

from mkdocs.structure.files import File

ROOT = Path(__file__).resolve().parents[1]
FRONT = {
    "README.md": "index.md",
    **{name: name for name in ("CHANGELOG.md", "CONTRIBUTING.md", "LICENCES.md", "SECURITY.md")},
    **{f"examples/{name}/README.md": f"examples/{name}.md" for name in ("plugin", "slurm")},
}
"""Pages outside docs/: path in the repository to path in the site."""
NEEDS = {
    "data": "the data sets",
    "docker": "Docker",
    "duckdb": "DuckDB's command line",
    "gpu": "a GPU",
    "lightning": "Lightning",
    "network": "a network",
    "postgres": "PostgreSQL",
    "root": "root on Debian",
    "slurm": "a SLURM cluster",
    "time": "minutes to hours",
}
"""What a block that no test runs may be marked with, as a reader is told."""
LINK = re.compile(r"(?<=\]\()([^)\s#:]+)(#[^)\s]*)?(?=\))")
TITLED = re.compile(r"^( *```\w+) (?:needs-(\w+)|([\w./-]+))$", re.MULTILINE)


def on_files(files: Any, config: Any) -> Any:
    """Add the pages beside the README, and whatever pages link to outside docs/."""
    for path, uri in FRONT.items():
        files.append(File.generated(config, uri, abs_src_path=str(ROOT / path)))
    for page in list(files.documentation_pages()):
        for link, _ in LINK.findall(page.content_string):
            path = target(page.src_uri, link)
            uri = site_uri(path)
            if uri.startswith("files/") and uri not in files.src_uris and (ROOT / path).is_file():
                files.append(File.generated(config, uri, abs_src_path=str(ROOT / path)))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Point links at the site's own files, and give blocks their titles."""

    def moved(link: re.Match[str]) -> str:
        path = target(page.file.src_uri, link[1])
        if not (ROOT / path).exists():  # dead, which mkdocs reports, or brackets in a block of code
            return link[0]
        uri = site_uri(path)
        return posixpath.relpath(uri, posixpath.dirname(page.file.src_uri) or ".") + (link[2] or "")

    def titled(fence: re.Match[str]) -> str:
        return f'{fence[1]} title="{f"needs {NEEDS[fence[2]]}" if fence[2] else fence[3]}"'

    return TITLED.sub(titled, LINK.sub(moved, markdown))


def target(page: str, link: str) -> str:
    """The path in the repository that a link on a page of the site was written for."""
    written = next((path for path, uri in FRONT.items() if uri == page), f"docs/{page}")
    return posixpath.normpath(posixpath.join(posixpath.dirname(written), link))


def site_uri(path: str) -> str:
    """Where the site has a file of the repository."""
    if path in FRONT:
        return FRONT[path]
    inside = PurePosixPath(path)
    return str(inside.relative_to("docs")) if inside.parts[0] == "docs" else f"files/{path}"

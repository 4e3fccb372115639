"""Hooks of mkdocs: pages are written for the repository, and the site takes them as they are.

The README is the front page, and the pages beside it come along. A link to any other file outside docs/
leads to a copy of it. The name of a file after a fence's language becomes the block's title.
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
LINK = re.compile(r"(?<=\]\()([^)\s#:]+)(#[^)\s]*)?(?=\))")
TITLED = re.compile(r"^(```\w+) ([\w./-]+)$", re.MULTILINE)


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
    """Point links at the site's own files, and give blocks of a file its name."""

    def moved(link: re.Match[str]) -> str:
        path = target(page.file.src_uri, link[1])
        if not (ROOT / path).exists():  # dead, which mkdocs reports, or brackets in a block of code
            return link[0]
        uri = site_uri(path)
        return posixpath.relpath(uri, posixpath.dirname(page.file.src_uri) or ".") + (link[2] or "")

    return TITLED.sub(r'\1 title="\2"', LINK.sub(moved, markdown))


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

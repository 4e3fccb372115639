"""Names become text, never markup: every report of a store whose names are code."""

import json
import xml.etree.ElementTree as ElementTree
from html.parser import HTMLParser
from importlib import resources
from pathlib import Path

import pytest

from harness.report import write_all
from harness.report.page.html import PLOTLY
from harness.results.collect import collect
from harness.spec import PROTOCOL, Json, hash_of
from harness.store import Store
from harness.store.files import checksum, dump

SOURCE = Path(__file__).resolve().parents[1] / "data" / "store-of-protocol-0" / "tasks"
HTML = "<script>alert('owned')</script>"
IMAGE = '"><img src=x onerror=alert(1)>'
LATEX = "\\input{/etc/passwd}\\write18{id}$x^2$ 100%"
MARKDOWN = "a|b](https://example.org/x) `c`"
MARKED = "{{plotly}}</title><b>"


def plant(store: Store) -> None:
    """Trainings and attacks whose workload, method, label, host and message are hostile."""
    for folder in sorted(SOURCE.glob("??/*")):
        spec: Json = json.loads((folder / "spec.json").read_text())
        result: Json = json.loads((folder / "result.json").read_text())
        task = spec["task"]
        task |= {"protocol": PROTOCOL, "workload": {"name": HTML, "version": IMAGE}}
        task["method"] = {"name": LATEX, "version": MARKED}
        spec["notes"] = {"cell": MARKDOWN, "label": f"{HTML} {LATEX} {MARKDOWN}", "tuned": None}
        result |= {"key": hash_of(task), "provenance": {"host": IMAGE, "device": HTML, "threads": 1}}
        write(store, spec, result)
        if task["kind"] == "train":  # and one that failed, with a message
            task["seed"] += 1
            failed = {"status": "failed", "reason": HTML, "message": f"{IMAGE}\n{LATEX}", "artefacts": {}}
            write(store, spec, {**result, **failed, "key": hash_of(task)})


def write(store: Store, spec: Json, result: Json) -> None:
    folder = store.folder(result["key"])
    folder.mkdir(parents=True)
    (folder / "spec.json").write_bytes(dump(spec))
    (folder / "result.json").write_bytes(dump({**result, "checksum": checksum(result)}))


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Every file of `privbench report all`, by name."""
    store = Store.open(tmp_path_factory.mktemp("hostile") / "store", create=True)
    plant(store)
    done = collect(store.path)
    assert (done.total, done.broken) == (6, ())
    written = write_all(store.path, store.reports)
    assert {file.suffix for file in written} >= {".html", ".svg", ".png"}
    assert all(file.is_relative_to(store.reports) for file in written)
    return {file.name: file for file in written}


class Tags(HTMLParser):
    """The elements of a page, and the code they would run."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []
        self.handlers: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.append(tag)
        self.handlers += [name for name, _ in attrs if name.startswith("on")]


@pytest.mark.slow
def test_the_page_has_no_element_of_a_name(files: dict[str, Path]) -> None:
    text = files["index.html"].read_text(encoding="utf-8")
    tags = Tags()
    tags.feed(text)
    assert HTML not in text
    assert IMAGE not in text
    assert "img" not in tags.names
    assert tags.handlers == []
    plotly = (resources.files("harness.report.page") / PLOTLY).read_text(encoding="utf-8")
    assert text.replace(plotly, "").count("</title>") == 1


@pytest.mark.slow
def test_pictures_hold_names_as_text(files: dict[str, Path]) -> None:
    drawn = [file for name, file in files.items() if name.endswith(".svg")]
    texts = "".join(file.read_text(encoding="utf-8") for file in drawn)
    assert "owned" in texts
    for file in drawn:
        for element in ElementTree.parse(file).iter():
            assert element.tag.rpartition("}")[2] not in ("script", "foreignObject", "img")
            assert not any(name.startswith("on") for name in element.attrib)


@pytest.mark.slow
def test_tables_hold_names_as_text(files: dict[str, Path]) -> None:
    kinds = (".md", ".tex")
    tables = {name: file.read_text(encoding="utf-8") for name, file in files.items() if file.suffix in kinds}
    markdown = [text for name, text in tables.items() if name.endswith(".md")]
    latex = [text for name, text in tables.items() if name.endswith(".tex")]
    assert markdown
    assert latex
    for text in markdown:
        assert "<script" not in text
        assert "<img" not in text
        assert "a|b](" not in text
    for text in latex:
        assert "\\input{" not in text
        assert "\\write18" not in text

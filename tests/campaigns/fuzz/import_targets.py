"""Imported results: archives that are broken, and intact ones with false content."""

import io
import json
import tempfile
import zipfile
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from harness.results.archive import MANIFEST, Manifest, write_archive
from harness.results.transfer import FORMAT, import_results
from harness.spec import PROTOCOL, Json
from harness.store.files import checksum, dump
from tests.campaigns.fuzz.ground import Ground
from tests.campaigns.fuzz.inputs import altered, files, names
from tests.campaigns.fuzz.store_targets import TASKS, fill, results
from tests.campaigns.fuzz.target import Target

HEAD: Json = {"format": FORMAT, "privbench": "0", "protocol": PROTOCOL, "weights": False, "tasks": len(TASKS)}
CONTENTS = {
    f"tasks/{result['key'][:2]}/{result['key']}/{name}.json": dump(content)
    for spec, result in TASKS
    for name, content in (("spec", spec), ("result", result))
}
RESULT = f"tasks/{TASKS[0][1]['key'][:2]}/{TASKS[0][1]['key']}/result.json"


def packed(suffix: str, contents: dict[str, bytes]) -> bytes:
    """An archive as `privbench export` writes it, with valid checksums for any content."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / f"theirs{suffix}"
        write_archive(file, Manifest(**HEAD), contents)
        return file.read_bytes()


def forged(head: Json, contents: dict[str, bytes]) -> bytes:
    """The same as a zip with any manifest and a valid checksum."""
    whole, altered = io.BytesIO(packed(".zip", contents)), io.BytesIO()
    with zipfile.ZipFile(whole) as source, zipfile.ZipFile(altered, "w") as target:
        manifest = {**head, "files": json.loads(source.read(MANIFEST))["files"]}
        target.writestr(MANIFEST, dump({**manifest, "checksum": checksum(manifest)}))
        for entry in source.infolist():
            if entry.filename != MANIFEST:
                target.writestr(entry, source.read(entry))
    return altered.getvalue()


GOOD = {suffix: packed(suffix, CONTENTS) for suffix in (".zip", ".parquet")}


def import_file(ground: Ground, given: tuple[str, bytes]) -> str:
    """`privbench import FILE`."""
    file = ground.lay(f"theirs{given[0]}", given[1])
    return ground.survives(lambda: import_results(ground.store.path, file, replace=True))


def import_lies(ground: Ground, given: tuple[Any, dict[str, bytes]]) -> str:
    """The same for an archive whose checksums are all valid."""
    head, extra = given
    manifest = head if isinstance(head, dict) else {"head": head}
    clean = {name.encode("utf-8", "replace").decode(): content for name, content in extra.items()}
    try:
        content = forged(manifest, {**CONTENTS, **clean})
    except (ValueError, TypeError, IndexError):
        return "refused"  # JSON cannot hold the manifest, or zip the name: it cannot exist
    return import_file(ground, (".zip", content))


def import_name(ground: Ground, name: str) -> str:
    """`privbench import FILE --as NAME`."""
    file = ground.lay("theirs.zip", GOOD[".zip"])
    return ground.survives(lambda: import_results(ground.store.path, file, name, replace=True))


member_names = names | st.just(RESULT) | st.builds("tasks/../{}".format, names)
contents = results(TASKS[0][1]) | st.binary(max_size=20)

TARGETS = (
    Target(
        "import files",
        st.one_of(*(st.tuples(st.just(suffix), files(good)) for suffix, good in GOOD.items())),
        import_file,
        (".zip", GOOD[".zip"]),
        weight=1,
        fill=fill,
    ),
    Target(
        "import contents",
        st.tuples(st.just(HEAD) | altered(HEAD), st.dictionaries(member_names, contents, max_size=2)),
        import_lies,
        (HEAD, {}),
        weight=1,
        fill=fill,
    ),
    Target("import names", names, import_name, "colleague", weight=1, fill=fill),
)

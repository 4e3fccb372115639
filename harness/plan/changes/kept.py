"""Answers about a workload that are kept on disk until its code or its data change.

Loading records and building a model take seconds and load torch, and every `plan` asks for their shapes,
checks and fingerprints. An answer is kept with the fingerprint of the workload's code and with every file
that its data were read from (see `reads.py`): size, time of change and inode. It is computed anew if one of
them differs, or if an environment variable that the plug-in's code names has another value.

What cannot be observed is not kept: a plug-in whose code mentions a reader that opens files in native code,
or whose data came from another process or the network. Nor is a failure, nor an answer about too many files.
"""

import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from harness.plan.changes import reads
from workloads.code.project import OURS, top_of
from workloads.disk_cache import default_folder, digest, read_cached, write_cached
from workloads.fingerprint import member_module, own_fingerprint, walk

Json = TypeVar("Json", bound=Any)

FOLDER = "workloads"
"""The name of the cache."""
FORMAT = 1
"""Raised when the meaning of an entry changes."""
MOST_FILES = 20_000
"""More files are not compared one by one: loading the data would be as quick."""
VARIABLES = ("PRIVBENCH_DATA", "PRIVBENCH_CACHE")
"""Environment variables that say where data are, beside those that a plug-in's code names."""
NATIVE = re.compile(
    r"\b(pyarrow|fastparquet|h5py|netCDF4|xarray|duckdb|polars|zarr|lmdb|safetensors|tensorstore"
    r"|cv2|rasterio|torchaudio|torchvision\.io|tensorflow|tfrecord|psycopg\w*|sqlalchemy|pymongo|rocksdb"
    r"|read_(?:parquet|feather|orc|hdf|sql)|load_dataset|from_file)\b"
    r"|^\s*(?:import|from)\s+tables\b",  # PyTables; elsewhere a word of every text about tables
    re.MULTILINE,
)
"""Readers that open files, or reach servers, without an audit event of Python."""
NAMED = re.compile(r"""(?:environ(?:\.get)?\s*[\[(]|getenv\s*\()\s*["'](\w+)["']""")


def kept_for(
    workload: str, question: str, compute: Callable[[], Json], kind: str = "workload", anew: bool = False
) -> Json:
    """The kept answer to a question about a workload, or else that of `compute`, which is kept.

    The answer is a plain value, as JSON has it; what `compute` returns is given back as it is. A question is
    any text that says what was asked and by which version of the code that asks. Of a method or an attack it
    is asked by its `kind`, which the question names. `anew` replaces what was kept.
    """
    code = code_of(workload, kind)
    if code is None or not code.observable:
        return compute()
    folder, asked = default_folder(FOLDER), [FORMAT, workload, question]
    entry = read_cached(folder, asked)
    if entry is not None and not anew and _stands(entry, code):
        reads.note(code.top, entry["files"])
        answer: Json = entry["answer"]
        return answer
    with reads.watching(code.top) as seen:
        answer = compute()
    if seen.complete and len(seen.files) <= MOST_FILES:
        entry = {
            "code": code.digest,
            "environment": code.environment,
            "folder": str(Path.cwd()) if seen.relative else None,
            "files": seen.present(),
            "answer": answer,
        }
        write_cached(folder, asked, entry)
    return answer


@dataclass(frozen=True)
class Code:
    """The code of a workload."""

    top: str
    """Its top-level package."""
    digest: str
    """Of its sources, and of what they use of ours."""
    environment: str
    """A digest of the environment variables that it reads."""
    observable: bool
    """Whether Python sees which files it opens."""


def code_of(name: str, kind: str = "workload") -> Code | None:
    """The code of a workload, or of a member of another kind; None if there is none of this name."""
    module = member_module(kind, name)
    if module is None:
        return None
    walked = walk([module])
    ours = top_of(module) in OURS
    own = own_fingerprint(*([module] if ours else sorted(walked.ours)))
    texts = "" if ours else "\n".join(map(_text, walked.paths))
    names = {*VARIABLES, *NAMED.findall(texts)}
    return Code(
        top_of(module),
        digest([dict(walked.files) if not ours else {}, own.digest]),
        digest({name: os.environ.get(name) for name in sorted(names)}),
        NATIVE.search(texts) is None,
    )


def _text(file: str) -> str:
    try:
        return Path(file).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def _stands(entry: Any, code: Code) -> bool:
    """Whether an entry is of the present code, environment and files."""
    try:
        here = entry["folder"] is None or entry["folder"] == str(Path.cwd())
        same = (entry["code"], entry["environment"]) == (code.digest, code.environment)
        return (
            here and same and all(reads.stamp(file) == tuple(each) for file, each in entry["files"].items())
        )
    except (KeyError, TypeError, AttributeError, OSError):
        return False

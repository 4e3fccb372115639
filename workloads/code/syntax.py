"""The code in a source file: a digest without comments, formatting and docstrings; and what it imports."""

import ast
import contextlib
import hashlib
import json
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import astuple, dataclass

DIGITS = 16
"""Hexadecimal digits of a digest: 64 bits distinguish accidents, and no one gains by a collision."""
SETTLED_SECONDS = 2.0
"""A file changed within this time is read again: its next change may have the same time and size."""
GAP = "\0"
FORMAT = 1
"""Raised when the digest of the same code changes."""


@dataclass(frozen=True)
class Import:
    """An import statement: `from module import names`, or `import module` without names."""

    module: str
    names: tuple[str, ...] = ()
    level: int = 0
    """The number of dots of a relative import."""
    typing: bool = False
    """Whether it is for type checkers only."""


@dataclass(frozen=True)
class Source:
    """The code of one file: its digest, and what it imports."""

    digest: str
    imports: tuple[Import, ...] = ()


_known: dict[str, tuple[tuple[int, ...], Source]] = {}
_frozen = False


def freeze() -> None:
    """From here on, a file that was read once is what it was: this process has loaded its code."""
    global _frozen
    _frozen = True


def read_source(file: str) -> Source:
    """The code of a file. What is not Python, or cannot be read, is known by its bytes."""
    try:
        if _frozen and file in _known:
            return _known[file][1]
        status = os.stat(file)  # noqa: PTH116 - a hundred files in some milliseconds
        stamp = (status.st_mtime_ns, status.st_size, status.st_ino)
        if file in _known and _known[file][0] == stamp:
            return _known[file][1]
        with open(file, "rb") as opened:  # noqa: PTH123
            content = opened.read()
    except OSError:
        return Source(hashed(b""))
    source = _kept(content) if file.endswith(".py") else Source(hashed(content))
    if _frozen or time.time() - status.st_mtime > SETTLED_SECONDS:
        _known[file] = stamp, source
    return source


def _kept(content: bytes) -> Source:
    """Parse a file, or take from disk what was found when the same bytes were parsed before."""
    base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")  # noqa: PTH111
    folder = f"{base}/privbench/sources"
    python = ".".join(map(str, sys.version_info[:2]))
    file = f"{folder}/{hashlib.sha256(content).hexdigest()[:32]}-{python}-{FORMAT}.json"
    try:
        with open(file, encoding="utf-8") as opened:  # noqa: PTH123
            digest, imports = json.load(opened)
        return Source(
            str(digest), tuple(Import(each[0], tuple(each[1]), each[2], each[3]) for each in imports)
        )
    except (OSError, ValueError, TypeError, IndexError):
        source = parse_source(content)
    with contextlib.suppress(OSError):  # a home that cannot be written: parsed again next time
        os.makedirs(folder, exist_ok=True)  # noqa: PTH103
        with tempfile.NamedTemporaryFile("w", dir=folder, delete=False, encoding="utf-8") as aside:
            json.dump([source.digest, [astuple(each) for each in source.imports]], aside)
        os.replace(aside.name, file)  # noqa: PTH105
    return source


def parse_source(content: bytes) -> Source:
    """The code in the content of a Python file."""
    try:
        tree = ast.parse(content)
        code = "\0".join(_spelled(tree))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return Source(hashed(content))
    return Source(hashed(code.encode("utf-8", "surrogatepass")), tuple(_imports(tree)))


def hashed(content: bytes) -> str:
    """The digest of some bytes."""
    return hashlib.sha256(content).hexdigest()[:DIGITS]


NOT_CODE = frozenset({"ctx", "kind", "type_comment", "type_ignores"})
"""Fields of syntax trees that follow from the rest or are comments."""


def _spelled(tree: ast.AST) -> list[str]:
    """A syntax tree as texts, the same by every version of Python: fields that are empty are left out.

    Texts that stand alone are docstrings, those of attributes as well; they and `pass` do nothing.
    """
    texts: list[str] = []
    add = texts.append

    def spell(node: object) -> None:
        if isinstance(node, ast.Constant):
            add(f"{type(node.value).__name__} {node.value!r}")
        elif isinstance(node, ast.JoinedStr):
            add("JoinedStr")
            for text, part in _parts(node):
                add(repr(text)) if part is None else spell(part)
            add(")")
        elif isinstance(node, ast.AST):
            add(type(node).__name__)
            for name in node._fields:
                value = getattr(node, name, None)
                if value is not None and value != [] and name not in NOT_CODE:
                    add(name)
                    spell(value)
            add(")")
        elif isinstance(node, list):
            for each in node:
                if not _does_nothing(each):
                    spell(each)
            add("]")
        else:
            add(repr(node))

    spell(tree)
    return texts


def _parts(joined: ast.JoinedStr) -> Iterator[tuple[str, ast.expr | None]]:
    """The parts of a formatted text: texts, and expressions. Python's versions split it differently."""
    text = ""
    for each in joined.values:
        if isinstance(each, ast.Constant):
            text += str(each.value)
            continue
        if text:
            yield text, None
        yield "", each
        text = ""
    if text:
        yield text, None


def texts_of(content: str) -> Iterator[str]:
    """Every text in a Python file; the expressions of a formatted one are gaps."""
    for node in ast.walk(ast.parse(content)):
        if isinstance(node, ast.JoinedStr):
            yield "".join(text or GAP for text, _ in _parts(node))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def _does_nothing(node: object) -> bool:
    if isinstance(node, ast.Expr):
        return isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
    return isinstance(node, ast.Pass)


def _imports(tree: ast.AST) -> Iterator[Import]:
    """Every import statement, wherever it is, and `import_module` of a given name."""
    waiting: list[tuple[ast.AST, bool]] = [(tree, False)]
    while waiting:
        node, typing = waiting.pop()
        if isinstance(node, ast.Import):
            yield from (Import(each.name, typing=typing) for each in node.names)
        elif isinstance(node, ast.ImportFrom):
            names = tuple(each.name for each in node.names if each.name != "*")
            yield Import(node.module or "", names, node.level, typing)
        elif isinstance(node, ast.Call):
            yield from _by_name(node)
        if isinstance(node, ast.If) and _is_type_checking(node.test):
            waiting += [(each, True) for each in node.body]
            waiting += [(each, typing) for each in node.orelse]
        elif not isinstance(node, ast.Constant | ast.Name):
            waiting += [(each, typing) for each in ast.iter_child_nodes(node)]


def _by_name(call: ast.Call) -> Iterator[Import]:
    named = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", None)
    first = call.args[0] if call.args else None
    if named in ("import_module", "__import__") and isinstance(first, ast.Constant):
        given = str(first.value)
        module = given.lstrip(".")
        yield Import(module, level=len(given) - len(module))


def _is_type_checking(test: ast.expr) -> bool:
    return "TYPE_CHECKING" in (getattr(test, "id", None), getattr(test, "attr", None))

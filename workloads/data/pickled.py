"""Third-party pickles as plain data: no class is ever instantiated, no code of theirs runs."""

import io
import pickle
import pickletools
from typing import Any

import numpy as np
from numpy.typing import NDArray

TYPES = ("u1", "i4", "i8")
"""The element types that the published files use."""


COUNTS = ("PUT", "BINPUT", "LONG_BINPUT")
"""The opcodes of a pickle that memoise an object by number."""


class _Kind:
    """A stand-in for numpy.dtype: keeps its code and refuses everything else a type can do."""

    def __init__(self, code: object, *_: object) -> None:
        self.code = code.decode("ascii", "replace") if isinstance(code, bytes) else str(code)
        self.order = "|"
        if self.code not in TYPES:
            raise pickle.UnpicklingError(f"an array of type {self.code}; allowed are {', '.join(TYPES)}")

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        order = state[1]
        self.order = order.decode("ascii", "replace") if isinstance(order, bytes) else str(order)

    def dtype(self) -> np.dtype[Any]:
        """The real type, made from one of the allowed codes."""
        return np.dtype(self.code).newbyteorder(">" if self.order == ">" else "<")


class _Array:
    """A stand-in for numpy.ndarray: keeps shape, type and bytes until they are checked."""

    def __init__(self) -> None:
        self.content: NDArray[Any] | None = None

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        _, shape, kind, fortran, raw = state
        if not isinstance(kind, _Kind) or not isinstance(raw, bytes):
            raise pickle.UnpicklingError("an array without plain bytes")
        self.content = np.frombuffer(raw, kind.dtype()).reshape(shape, order="F" if fortran else "C")


def _reconstruct(*_: object) -> _Array:
    return _Array()


def _encode(text: str, encoding: str = "latin1") -> bytes:
    if encoding not in ("latin1", "latin-1"):
        raise pickle.UnpicklingError(f"bytes encoded as {encoding}; allowed is latin1")
    return text.encode("latin1")


ALLOWED: dict[tuple[str, str], Any] = {
    ("numpy", "ndarray"): _Array,
    ("numpy", "dtype"): _Kind,
    ("numpy.core.multiarray", "_reconstruct"): _reconstruct,  # numpy 1, as in the published files
    ("numpy._core.multiarray", "_reconstruct"): _reconstruct,  # numpy 2
    ("_codecs", "encode"): _encode,  # how Python 3 writes bytes in protocol 2
}


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        try:
            return ALLOWED[module, name]
        except KeyError:
            raise pickle.UnpicklingError(f"a pickle that imports {module}.{name}") from None


def _refuse_bombs(content: bytes) -> None:
    """Refuse a pickle that would make the unpickler allocate more memory than the file can fill.

    Its memo is as long as the highest index in the file, which may be four billion in a file of ten bytes.
    Lengths are checked by genops itself.
    """
    try:
        codes = pickletools.genops(content)
        most = max((int(each or 0) for code, each, _ in codes if code.name in COUNTS), default=0)
    except ValueError as error:
        raise pickle.UnpicklingError(f"a broken or truncated pickle ({error})") from error
    if most > len(content):
        raise pickle.UnpicklingError(f"a pickle of {len(content)} bytes with a memo of {most} objects")


def read_dict(content: bytes) -> dict[str, Any]:
    """The dictionary of a pickle: numbers, text, bytes, lists and arrays of whole numbers, keys as text.

    ValueError states what else was found. pickle.load would run any code in the file; here the few names that
    arrays need resolve to stand-ins, and every other name is refused.
    """
    try:
        _refuse_bombs(content)
        found = _Unpickler(io.BytesIO(content), encoding="bytes").load()
    except Exception as error:  # a pickle is a program: a broken one can raise anything
        raise ValueError(str(error) or type(error).__name__) from error
    if not isinstance(found, dict):
        raise ValueError(f"a pickle of a {type(found).__name__}")
    return {_text(key): each.content if isinstance(each, _Array) else each for key, each in found.items()}


def _text(key: object) -> str:
    return key.decode("ascii", "replace") if isinstance(key, bytes) else str(key)

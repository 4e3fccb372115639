"""Names shortened in the middle so that they fit a column and stay distinct."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from rich.cells import cell_len

DOTS = "…"
HEADS = (0.5, 0.35, 0.65, 0.2, 0.8, 0.0, 1.0)
"""Shares of a shortened name that come from its beginning, in the order they are tried."""


def shorten(name: str, width: int, head: float = 0.5) -> str:
    """The name with its middle left out so that it takes at most `width` columns."""
    if cell_len(name) <= width:
        return name
    if width < 2:
        return DOTS[:width]
    left = round((width - 1) * head)
    return f"{_first(name, left)}{DOTS}{_last(name, width - 1 - left)}"


def shorten_distinctly(names: Iterable[str], width: int) -> Mapping[str, str]:
    """Every name, shortened to at most `width` columns (at least 4); distinct names stay distinct.

    Beginning and end are kept if that distinguishes them, else the part where they begin to differ; if
    nothing that fits distinguishes them they are numbered.
    """
    every = list(dict.fromkeys(names))
    found = {name: shorten(name, width) for name in every}
    for twins in _collisions(found):
        found |= _told_apart(twins, width, {short for name, short in found.items() if name not in twins})
    return found


def _collisions(found: Mapping[str, str]) -> list[list[str]]:
    """Groups of names that were shortened to the same text."""
    groups: dict[str, list[str]] = {}
    for name, short in found.items():
        groups.setdefault(short, []).append(name)
    return [names for names in groups.values() if len(names) > 1]


def _told_apart(names: Sequence[str], width: int, taken: set[str]) -> dict[str, str]:
    for candidate in _candidates(names, width):
        shorts = set(candidate.values())
        if len(shorts) == len(names) and not shorts & taken:
            return candidate
    return _numbered(names, width, taken)


def _candidates(names: Sequence[str], width: int) -> Iterator[dict[str, str]]:
    for head in HEADS:
        yield {name: shorten(name, width, head) for name in names}
    start = _shared(min(names), max(names))
    for kept in (width // 3, 1):  # of the common beginning, then the part that differs
        rest = width - kept - 1
        yield {name: f"{_first(name, kept)}{DOTS}{shorten(name[start:], rest, 1.0)}" for name in names}


def _shared(one: str, other: str) -> int:
    """The length of the common beginning; of the first and the last in order: of all between them."""
    pairs = zip(one, other, strict=False)
    return next((place for place, (a, b) in enumerate(pairs) if a != b), min(len(one), len(other)))


def _numbered(names: Sequence[str], width: int, taken: set[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    number = 0
    for name in names:
        while True:
            number += 1
            mark = f"{DOTS}{number}"
            short = _first(name, max(0, width - len(mark))) + mark
            if short not in taken and short not in found.values():
                break
        found[name] = short
    return found


def _first(text: str, width: int) -> str:
    """The longest beginning that takes at most `width` columns."""
    taken = 0
    for place, sign in enumerate(text):
        taken += cell_len(sign)
        if taken > width:
            return text[:place]
    return text


def _last(text: str, width: int) -> str:
    return _first(text[::-1], width)[::-1]

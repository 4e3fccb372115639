"""TOML of what a tune writes: tomllib only reads."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any


def pairs(content: Mapping[str, Any]) -> list[str]:
    """A line for each key."""
    return [f"{key(name)} = {inline(value)}" for name, value in content.items()]


def listed(name: str, items: Sequence[str]) -> Iterator[str]:
    """A list with an item to a line; nothing if it is empty."""
    if items:
        yield from (f"{name} = [", *(f"    {each}," for each in items), "]")


def inline(value: Any) -> str:
    """A value on one line."""
    if isinstance(value, Mapping):
        held = ", ".join(f"{key(name)} = {inline(each)}" for name, each in value.items())
        return f"{{ {held} }}" if held else "{}"
    if isinstance(value, list):
        return f"[{', '.join(map(inline, value))}]"
    if isinstance(value, bool):
        return str(value).lower()
    return text(value) if isinstance(value, str) else repr(value)


def text(value: str) -> str:
    """A quoted text."""
    return json.dumps(value, ensure_ascii=False)


def key(name: str) -> str:
    """A key, quoted where it must be."""
    plain = name.isascii() and all(each.isalnum() or each in "-_" for each in name)
    return name if plain and name[:1].isalpha() else text(name)

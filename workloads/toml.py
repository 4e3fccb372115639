"""TOML files written by users: parsed, or refused with the reason; tomllib alone raises other errors, too."""

import tomllib
from pathlib import Path
from typing import Any

from workloads.errors import SpecError

NOT_TOML = (ValueError, RecursionError)
"""What tomllib raises: its own error, and others for numbers of thousands of digits and for deep nesting."""


def read_toml(file: Path, what: str) -> dict[str, Any]:
    """The content of a file, which messages call `what`; SpecError if it is missing or not TOML."""
    try:
        content = file.read_bytes()
    except (OSError, ValueError) as error:  # ValueError: a name that no file can have
        raise SpecError(f"{what} cannot be read: {error}", field=what) from error
    return parse_toml(content, what)


def parse_toml(content: bytes, what: str) -> dict[str, Any]:
    """The content of these bytes; SpecError if they are not TOML."""
    try:
        found = tomllib.loads(content.decode("utf-8"))
        repr(found)  # a hexadecimal number may be longer than messages can print
        return found
    except NOT_TOML as error:
        reason = "nested too deeply" if isinstance(error, RecursionError) else error
        raise SpecError(f"{what} is not TOML: {reason}", field=what) from error


def parse_value(text: str) -> Any:
    """Parse as a TOML value, or return the text itself."""
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except NOT_TOML:
        return text

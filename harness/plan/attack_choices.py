"""Attacks with parameters as one text: `--attack 'rmia:gamma=2:temperature=1,lira'`.

    attacks   = attack ("," attack)*
    attack    = NAME (":" parameter | "," parameter)*
    parameter = NAME "=" VALUE

No name contains "=", so that what follows a comma is a parameter of the attack before it if it has one, else
the next attack: `rmia:gamma=2,temperature=1,lira` is the same. Values are TOML, or plain text; separators
within quotes or brackets are part of a value.
"""

from collections.abc import Iterator
from typing import Any

from workloads.errors import SpecError
from workloads.toml import parse_value

FORM = "NAME or NAME:PARAMETER=VALUE:PARAMETER=VALUE, separated by commas"


def parse_attacks(text: str) -> list[str | dict[str, Any]]:
    """The `attacks` of a sweep file; SpecError for a text of another form."""
    found: list[dict[str, Any]] = []
    for separator, part in _parts(text):
        name, equals, value = part.partition("=")
        name = name.strip()
        if not equals and separator != ":":
            found.append({"attack": name})
            continue
        if not equals or not name or not value.strip():
            raise _wrong(text, f"'{part}' is not PARAMETER=VALUE")
        if not found:
            raise _wrong(text, f"'{part}' is a parameter of no attack")
        if name in found[-1]:
            taken = "is the attack's name" if name == "attack" else "is given twice"
            raise _wrong(text, f"'{name}' of {found[-1]['attack']} {taken}")
        found[-1][name] = parse_value(value.strip())
    return [each if len(each) > 1 else each["attack"] for each in found]


def _wrong(text: str, why: str) -> SpecError:
    return SpecError(f"--attack {text}: {why}; give {FORM}", field="--attack", value=text, allowed=FORM)


def _parts(text: str) -> Iterator[tuple[str, str]]:
    """The separator before each part, empty for the first, and the part."""
    separator, part, quote, depth = "", "", "", 0
    for letter in text:
        if letter in ",:" and not quote and depth == 0:
            yield separator, part
            separator, part = letter, ""
            continue
        part += letter
        if quote:
            quote = "" if letter == quote else quote
        elif letter in "\"'":
            quote = letter
        else:
            depth += (letter in "[{") - (letter in "]}")
    yield separator, part

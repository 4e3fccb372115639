"""What a store keeps for fingerprints of code and data: file lists, accepted changes and a secret.

    sources/<digest>.json        the files behind a fingerprint of code
    accepted/<old>-<new>.json    a change of code or data that a user accepted
    secret                       the key of fingerprints of data: never exported

A plain hash of all records confirms a guess of them. Whoever knows all but one of the records, against whom
differential privacy is defined, could try candidates for it. Results are shared, so a fingerprint of data is
keyed by a secret that stays in the store: equal data have equal fingerprints in one store only.
"""

import contextlib
import hashlib
import os
import re
import secrets
from collections.abc import Iterator, Mapping

from harness.spec import Json
from harness.store.files import dump_checked, parse_checked, write_atomic
from harness.store.journal import Accepted
from harness.store.store import Store

DIGEST = re.compile(r"[0-9a-f]{8,64}")


def write_sources(store: Store, digest: str, files: Mapping[str, str]) -> None:
    """Keep the files behind a fingerprint, once. Without them a change is found, but not in which file."""
    file = store.path / "sources" / f"{digest}.json"
    if files and not file.exists():
        with contextlib.suppress(OSError):  # a full disk must not fail a task
            file.parent.mkdir(exist_ok=True)
            write_atomic(file, dump_checked({"files": dict(files)}))


def read_sources(store: Store, digest: str) -> dict[str, str]:
    """The files behind a fingerprint; empty if they were not kept or are damaged."""
    if not DIGEST.fullmatch(digest):
        return {}
    try:
        content = parse_checked((store.path / "sources" / f"{digest}.json").read_bytes())
        return {str(file): str(each) for file, each in content["files"].items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}


def accept(store: Store, change: Accepted) -> None:
    """Record that results from before and after a change may stand together."""
    file = store.path / "accepted" / f"{change.before}-{change.after}.json"
    file.parent.mkdir(exist_ok=True)
    write_atomic(file, dump_checked(change.model_dump()))


def accepted(store: Store) -> Iterator[Accepted]:
    """The changes that were accepted; a damaged record counts as none."""
    for file in sorted(store.path.glob("accepted/*.json")):
        with contextlib.suppress(OSError, ValueError):
            yield Accepted.model_validate(parse_checked(file.read_bytes()))


def store_secret(store: Store, create: bool = False) -> bytes | None:
    """The secret of a store; None if it has none, unless `create`."""
    file = store.path / "secret"
    with contextlib.suppress(FileNotFoundError):
        return file.read_bytes()
    if not create:
        return None
    aside = file.with_name(f".secret-{secrets.token_hex(8)}")
    handle = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(handle, "wb") as out:
            out.write(secrets.token_hex(32).encode())
            out.flush()
            os.fsync(out.fileno())
        with contextlib.suppress(FileExistsError):  # another worker was first
            os.link(aside, file)
    finally:
        aside.unlink(missing_ok=True)
    return file.read_bytes()


def key_name(secret: bytes) -> str:
    """A public name of a secret: fingerprints of different secrets cannot be compared."""
    return hashlib.blake2b(secret, digest_size=4, person=b"privbench-key").hexdigest()


def keyed(described: Json, secret: bytes) -> Json:
    """The same description of records with keyed digests, and the name of their key."""
    found: Json = {"key": key_name(secret)}
    for part, fields in described.items():
        found[part] = {
            name: {**each, "digest": _keyed(each["digest"], secret)} for name, each in fields.items()
        }
    return found


def _keyed(digest: str, secret: bytes) -> str:
    return hashlib.blake2b(digest.encode(), key=secret[:64], digest_size=8).hexdigest()


def short_digest(parts: Json) -> str | None:
    """One digest of a fingerprint with several parts, for columns and file names; None of nothing."""
    if not parts:
        return None
    text = repr(sorted(_leaves(parts)))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _leaves(value: object, path: str = "") -> Iterator[tuple[str, str]]:
    if isinstance(value, Mapping):
        for name, each in value.items():
            yield from _leaves(each, f"{path}/{name}")
    else:
        yield path, str(value)

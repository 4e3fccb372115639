"""Data sets: their location, citation, licence and checksums."""

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Protocol

from workloads.data.array_cache import Arrays, cached, digest
from workloads.data.foreign_files import md5, open_plain, walk, wrong
from workloads.data.places import data_root
from workloads.errors import BenchError

State = Literal["good", "damaged", "unchecked", "absent"]


@dataclass(frozen=True)
class Verdict:
    """The outcome of a check of a data set."""

    state: State
    detail: str = ""


@dataclass(frozen=True)
class File:
    """One file as its publisher ships it.

    `md5` and `bytes` are None if neither the publisher nor a widely used copy states them. `urls` are tried
    in order.
    """

    name: str
    urls: tuple[str, ...]
    md5: str | None = None
    bytes: int | None = None


@dataclass(frozen=True)
class Place:
    """A folder or file below the data root that may hold a data set.

    `needs` are the files a complete folder holds; one that ends in .gz may also be unpacked.
    """

    path: str
    needs: tuple[str, ...] = ()

    def missing(self, root: Path) -> list[str]:
        """The needed files that are missing."""
        here = root / self.path
        return [name for name in self.needs if not any(each.exists() for each in variants(here / name))]


def variants(path: Path) -> list[Path]:
    """A file as shipped and, if that is gzip, unpacked."""
    return [path, path.with_suffix("")] if path.suffix == ".gz" else [path]


class Dataset(Protocol):
    """The data set protocol. `privbench data` lists, fetches and verifies data sets."""

    @property
    def about(self) -> str:
        """One line."""
        ...

    @property
    def licence(self) -> str:
        """As its publisher states it."""
        ...

    @property
    def citation(self) -> str:
        """The work to cite."""
        ...

    @property
    def files(self) -> tuple[File, ...]:
        """What `privbench data fetch` downloads; empty if the data come with a package."""
        ...

    @property
    def sha256(self) -> str | None:
        """The hash of the content behind our numbers; None if we never had the data."""
        ...

    def location(self) -> str | None:
        """Where it was found; None if it is missing."""
        ...

    def looked_for(self) -> list[str]:
        """Every place that is searched."""
        ...

    def size(self) -> int | None:
        """Bytes of what was found."""
        ...

    def verify(self) -> Verdict:
        """Check the local copy."""
        ...


@dataclass(frozen=True)
class Embedded:
    """Data from a package or a seeded generator: always available."""

    about: str
    licence: str
    citation: str
    where: str
    sha256: str
    content: Callable[[], bytes]
    files: tuple[File, ...] = ()

    def location(self) -> str | None:
        """The package or generator it comes from."""
        return self.where

    def looked_for(self) -> list[str]:
        """The package or generator it comes from."""
        return [self.where]

    def size(self) -> int | None:
        """Bytes of the content."""
        return len(self.content())

    def verify(self) -> Verdict:
        """Check the hash of the content."""
        found = hashlib.sha256(self.content()).hexdigest()
        return Verdict("good") if found == self.sha256 else Verdict("damaged", f"its SHA-256 is {found}")


@dataclass(frozen=True)
class Published:
    """Data that a publisher ships as files, parsed once and then read from a cache.

    Args:
        name: the name on the command line; also the folder below the data root that fetching fills.
        places: searched below the data root; the first complete one wins.
        read: arrays from a place (a folder or an archive), or an error with what was expected and found.
        files: what is fetched, into the folder `name`.
        sums: widely used MD5s of further files, by base name: archive members, other versions.
        sha256: `digest` of the arrays behind our numbers; None if we never had them.
        version: raised when `read` gives other arrays from the same files.
    """

    name: str
    about: str
    licence: str
    citation: str
    places: tuple[Place, ...]
    read: Callable[[Path], Arrays]
    files: tuple[File, ...]
    sums: Mapping[str, str] = field(default_factory=dict)
    sha256: str | None = None
    version: int = 1

    def load(self) -> Arrays:
        """The arrays, documented in the data set's module. Parsed on first use, then read from the cache."""
        place = self.place()
        if place is None:
            raise BenchError(self.absence(), field="data set", value=self.name)
        return cached(self.name, self._key(place), lambda: self.parse(place))

    def parse(self, place: Path) -> Arrays:
        """The arrays from the files, bypassing the cache; BenchError unless the content is as published."""
        try:
            arrays = self.read(place)
        except OSError as error:
            raise BenchError(f"{place} cannot be read: {error}", field=str(place)) from error
        if self.sha256 is not None:
            if (found := digest(arrays)) != self.sha256:
                named = ", ".join(self.differing(place)) or place.name
                raise wrong(
                    place,
                    f"the published content of {self.name} (SHA-256 of the arrays {self.sha256[:12]}...)",
                    f"{found[:12]}...; not as published: {named}",
                )
        elif differing := self.differing(place):
            raise wrong(
                place, f"the published files of {self.name}", f"other content in {', '.join(differing)}"
            )
        return arrays

    def place(self) -> Path | None:
        """The first place that exists and is complete."""
        root = data_root()
        for place in self.places:
            if (root / place.path).exists() and not place.missing(root):
                return root / place.path
        return None

    def location(self) -> str | None:
        """The place it was found at."""
        place = self.place()
        return None if place is None else str(place)

    def looked_for(self) -> list[str]:
        """Every place below the data root, in order."""
        return [str(data_root() / place.path) for place in self.places]

    def size(self) -> int | None:
        """Bytes of what was found."""
        place = self.place()
        return None if place is None else sum(size for _, size, _ in _marks(place))

    def absence(self) -> str:
        """Where it was searched, which places are incomplete, and how to get it."""
        root = data_root()
        lines = [f"data set '{self.name}' is missing: run `privbench data fetch {self.name}`"]
        for place in self.places:
            if place.needs and (root / place.path).exists() and len(place.missing(root)) < len(place.needs):
                lines.append(f"{root / place.path} lacks {', '.join(place.missing(root))}")
        lines.append(f"searched {', '.join(self.looked_for())}")
        lines.append(f"or {self.by_hand()}")
        return "; ".join(lines)

    def by_hand(self) -> str:
        """Which file to put where."""
        folder = data_root() / self.name
        return "; ".join(
            f"put {file.urls[0]} at {folder / file.name} "
            f"(MD5 {file.md5 or 'not published'}{f', {file.bytes:,} bytes' if file.bytes else ''})"
            for file in self.files
        )

    def known(self) -> dict[str, str]:
        """Every widely used MD5, by base name."""
        return {file.name: file.md5 for file in self.files if file.md5} | dict(self.sums)

    def checked(self, place: Path) -> list[Path]:
        """The files of a place that have a known checksum."""
        known = self.known()
        files = [place] if place.is_file() else [place / name for name, _ in walk(place) if "/" not in name]
        return [file for file in files if file.name in known]

    def differing(self, place: Path) -> list[str]:
        """The files of a place whose checksum differs; a gzip file counts by its content."""
        known = self.known()
        return [
            file.name
            for file in self.checked(place)
            if md5(file) != known[file.name] and not _same_inside(file, known.get(file.stem))
        ]

    def verify(self) -> Verdict:
        """Re-read everything and compare with the published checksums and the known content."""
        place = self.place()
        if place is None:
            return Verdict("absent")
        try:
            differing = self.differing(place)
            self.parse(place)
        except (BenchError, OSError) as error:
            return Verdict("damaged", str(error))
        if self.sha256 is None and not self.checked(place):
            return Verdict("unchecked", "the format is right; no checksum is published")
        return Verdict("good", f"packed differently: {', '.join(differing)}" if differing else "")

    def _key(self, place: Path) -> str:
        facts = [self.name, self.version, self.sha256, str(place.resolve()), _marks(place)]
        return hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:24]


def _same_inside(file: Path, inside: str | None) -> bool:
    if file.suffix != ".gz" or inside is None:
        return False
    try:
        with open_plain(file) as opened:
            content = hashlib.file_digest(opened, lambda: hashlib.md5(usedforsecurity=False))  # type: ignore[arg-type]
    except (OSError, EOFError):
        return False
    return content.hexdigest() == inside


def _marks(place: Path) -> list[tuple[str, int, int]]:
    """Name, size and modification time of every file, by which a changed source is detected."""
    files = [(place.name, place.stat())] if place.is_file() else list(walk(place))
    return [(name, status.st_size, status.st_mtime_ns) for name, status in files]

"""What a data set is: where it lies, whose it is, and the sums that tell it is whole."""

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
    """What a check of a data set found."""

    state: State
    detail: str = ""


@dataclass(frozen=True)
class File:
    """One file as its publisher ships it.

    `md5` and `bytes` are None where the publisher states none and no copy in wide use has one. `urls` are
    tried in their order.
    """

    name: str
    urls: tuple[str, ...]
    md5: str | None = None
    bytes: int | None = None


@dataclass(frozen=True)
class Place:
    """A folder or file below the data root where a data set may lie.

    `needs` are the files a folder must hold to be complete; one that ends in .gz may also lie there unpacked.
    """

    path: str
    needs: tuple[str, ...] = ()

    def missing(self, root: Path) -> list[str]:
        """The needed files that are not there."""
        here = root / self.path
        return [name for name in self.needs if not any(each.exists() for each in variants(here / name))]


def variants(path: Path) -> list[Path]:
    """A file as it is shipped and, where that is gzip, unpacked."""
    return [path, path.with_suffix("")] if path.suffix == ".gz" else [path]


class Dataset(Protocol):
    """A set of records that workloads read. `privbench data` lists, fetches and verifies them."""

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
        """What `privbench data fetch` gets; nothing where the data come with a package."""
        ...

    @property
    def sha256(self) -> str | None:
        """The hash of the content that our numbers were made with; None where we never had the data."""
        ...

    def location(self) -> str | None:
        """Where it was found; None where it is not here."""
        ...

    def looked_for(self) -> list[str]:
        """Every place it is looked for."""
        ...

    def size(self) -> int | None:
        """Bytes of what was found."""
        ...

    def verify(self) -> Verdict:
        """Whether what is here is what it should be."""
        ...


@dataclass(frozen=True)
class Embedded:
    """Data that come inside a package or out of a seeded generator: always here."""

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
        """Whether the content hashes to what it should."""
        found = hashlib.sha256(self.content()).hexdigest()
        return Verdict("good") if found == self.sha256 else Verdict("damaged", f"its SHA-256 is {found}")


@dataclass(frozen=True)
class Published:
    """Data that a publisher ships as files, read from there once and from a cache ever after.

    Args:
        name: the name on the command line; also the folder below the data root that fetching fills.
        places: where it is looked for below the data root; the first that holds it wins.
        read: arrays from a place (a folder or an archive), or an error that says what is wrong with it.
        files: what is fetched, into the folder `name`.
        sums: MD5s in wide use of further files, by base name: what lies in an archive, other versions.
        sha256: `digest` of the arrays that our numbers were made with; None where we never had them.
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
        """The arrays; the data set's own file names them. Parsed on first use, then mapped from the cache."""
        place = self.place()
        if place is None:
            raise BenchError(self.absence())
        return cached(self.name, self._key(place), lambda: self.parse(place))

    def parse(self, place: Path) -> Arrays:
        """The arrays from the files, past the cache; content that is not the published one is an error."""
        try:
            arrays = self.read(place)
        except OSError as error:
            raise BenchError(f"{place} cannot be read: {error}") from error
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
        """The first place that is there and complete."""
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
        """Where it was looked for, what is half there, and how to get it."""
        root, lines = data_root(), [f"data set '{self.name}' is not here"]
        for place in self.places:
            if place.needs and (root / place.path).exists() and len(place.missing(root)) < len(place.needs):
                lines.append(f"{root / place.path} lacks {', '.join(place.missing(root))}")
        lines.append(f"looked for {', '.join(self.looked_for())}")
        lines.append(f"run `privbench data fetch {self.name}`, or {self.by_hand()}")
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
        """Every MD5 in wide use, by base name."""
        return {file.name: file.md5 for file in self.files if file.md5} | dict(self.sums)

    def checked(self, place: Path) -> list[Path]:
        """The files of a place that have a known sum."""
        known = self.known()
        files = [place] if place.is_file() else [place / name for name, _ in walk(place) if "/" not in name]
        return [file for file in files if file.name in known]

    def differing(self, place: Path) -> list[str]:
        """The files of a place that do not have their known sum; a gzip file counts by what is inside."""
        known = self.known()
        return [
            file.name
            for file in self.checked(place)
            if md5(file) != known[file.name] and not _same_inside(file, known.get(file.stem))
        ]

    def verify(self) -> Verdict:
        """Read everything anew and compare with the published sums and with the content we know."""
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
    """Name, size and time of change of every file: what tells that a source is another than before."""
    files = [(place.name, place.stat())] if place.is_file() else list(walk(place))
    return [(name, status.st_size, status.st_mtime_ns) for name, status in files]

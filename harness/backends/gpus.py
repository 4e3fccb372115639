"""Discover the GPUs that tasks may use, by UUID, within what the environment allows.

Backends ask nvidia-smi because they do not load torch. UUIDs rather than indices: nvidia-smi and container
engines count cards by PCI bus, CUDA the fastest first.

    CUDA_VISIBLE_DEVICES   if set, only these (indices, UUIDs, UUIDs of MIG slices); empty or -1: none
    PRIVBENCH_DEVICE       cpu: none; cuda: an error if there is none
"""

import logging
import os
import re
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from harness.backends.base import Settings
from harness.jobs import cublas
from workloads.errors import BackendError

log = logging.getLogger(__name__)

DEVICE, VISIBLE = "PRIVBENCH_DEVICE", "CUDA_VISIBLE_DEVICES"
DEVICES = ("cpu", "cuda")
NONE = ("", "-1", "NoDevFiles")
"""Entries that end the list in CUDA_VISIBLE_DEVICES; schedulers write the last for a job without GPUs."""
ANSWER_SECONDS = 20.0
"""Timeout of nvidia-smi, which takes seconds if it has to load the driver."""
CARD = re.compile(r"^(?P<uuid>GPU-[^,\s]+), *(?P<index>\d+), *(?P<mode>[^,]+), *(?P<name>.+)$")
LISTED_CARD = re.compile(r"^GPU \d+: .*\(UUID: (GPU-[^)\s]+)\)")
LISTED_SLICE = re.compile(r"^\s+MIG .*\(UUID: (MIG-[^)\s]+)\)")
QUOTED_CHARACTERS = 300
"""How much unparsable output a warning quotes."""


@dataclass(frozen=True)
class Gpu:
    """A card or a MIG slice."""

    name: str
    """Its UUID; without nvidia-smi, an entry of CUDA_VISIBLE_DEVICES as given."""
    exclusive: bool = False
    """Whether the driver limits it to one process at a time."""


@dataclass(frozen=True)
class Card:
    """A card as listed by nvidia-smi."""

    uuid: str
    index: int
    model: str
    exclusive: bool
    slices: tuple[str, ...] = ()
    """UUIDs of its MIG slices; a card with slices is used only through them."""

    @property
    def gpus(self) -> list[Gpu]:
        """Its slices, or the card itself if it has none."""
        return [Gpu(name, self.exclusive) for name in self.slices or (self.uuid,)]


def usable(environment: Mapping[str, str] = os.environ) -> list[Gpu]:
    """List the GPUs that this environment allows; BackendError if it asks for a missing one."""
    asked = environment.get(DEVICE) or None
    if asked not in (None, *DEVICES):
        raise BackendError(
            f"{DEVICE} = {asked!r}: give {' or '.join(DEVICES)}, or leave it out",
            field=DEVICE,
            value=asked,
            allowed=DEVICES,
        )
    if asked == "cpu":
        return []
    entries = environment.get(VISIBLE)
    found = _every() if entries is None else _chosen(entries, environment)
    if asked == "cuda" and not found:
        allowed = "is not set" if entries is None else f"= {entries!r}"
        raise BackendError(
            f"{DEVICE} = cuda, but no usable GPU was found: nvidia-smi shows {len(cards())}, {VISIBLE} "
            f"{allowed}; leave {DEVICE} out to use the CPU",
            field=DEVICE,
            value=asked,
        )
    return found


def _every() -> list[Gpu]:
    return [gpu for card in cards() for gpu in card.gpus]


def cards() -> list[Card]:
    """List the cards of this machine by nvidia-smi; warns about unusable cards and unparsable output."""
    output = _ask("--query-gpu=uuid,index,compute_mode,name", "--format=csv,noheader")
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    found = [match for line in lines if (match := CARD.match(line))]
    if strange := [line for line in lines if not CARD.match(line)]:
        log.warning("nvidia-smi printed %r: %d GPUs are usable", _quoted("\n".join(strange)), len(found))
    slices = _slices() if found else {}
    usable_cards = []
    for each in found:
        if each["mode"] == "Prohibited":
            log.warning("the GPU %s is in compute mode Prohibited and is not used", each["uuid"])
            continue
        exclusive = each["mode"].startswith("Exclusive")
        parts = slices.get(each["uuid"], ())
        usable_cards.append(Card(each["uuid"], int(each["index"]), each["name"], exclusive, parts))
    return usable_cards


def _slices() -> dict[str, tuple[str, ...]]:
    """UUIDs of MIG slices by the UUID of their card."""
    found: dict[str, tuple[str, ...]] = {}
    card = ""
    for line in _ask("-L").splitlines():
        if match := LISTED_CARD.match(line):
            card = match[1]
        elif match := LISTED_SLICE.match(line):
            found[card] = (*found.get(card, ()), match[1])
    return found


def _ask(*words: str) -> str:
    """Output of nvidia-smi; empty if it is missing, and with a warning if it fails."""
    try:
        done = subprocess.run(
            ["nvidia-smi", *words],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=ANSWER_SECONDS,
            check=False,
        )
    except FileNotFoundError:
        return ""
    except (OSError, subprocess.TimeoutExpired) as error:
        log.warning("nvidia-smi does not respond (%s): no GPU is used", error)
        return ""
    if done.returncode:
        detail = _quoted(done.stdout + done.stderr)
        log.warning("nvidia-smi failed with exit code %d (%r): no GPU is used", done.returncode, detail)
        return ""
    return done.stdout


def _quoted(text: str) -> str:
    return text.strip()[:QUOTED_CHARACTERS]


def _chosen(entries: str, environment: Mapping[str, str]) -> list[Gpu]:
    """Resolve CUDA_VISIBLE_DEVICES to UUIDs if nvidia-smi lists them."""
    chosen: list[str] = []
    for entry in entries.split(","):
        if entry.strip() in NONE:
            break  # CUDA reads no further
        chosen.append(entry.strip())
    if not chosen:
        return []
    known = cards()
    if not known:
        return [Gpu(entry) for entry in dict.fromkeys(chosen)]
    _refuse_ambiguous(chosen, known, environment)
    return list(dict.fromkeys(_resolved(entry, entries, known) for entry in chosen))


def _refuse_ambiguous(chosen: Sequence[str], known: Sequence[Card], environment: Mapping[str, str]) -> None:
    """BackendError for indices that CUDA and nvidia-smi number differently: cards of several models."""
    indices = {int(entry) for entry in chosen if entry.isdecimal()}
    models = {card.model for card in known}
    by_bus = environment.get("CUDA_DEVICE_ORDER") == "PCI_BUS_ID"
    if indices and len(models) > 1 and not by_bus and indices != {card.index for card in known}:
        raise BackendError(
            f"{VISIBLE} = {','.join(chosen)!r} names cards by index, but CUDA orders cards of several models "
            f"({', '.join(sorted(models))}) differently from nvidia-smi: give UUIDs (`nvidia-smi -L`), "
            "or set CUDA_DEVICE_ORDER=PCI_BUS_ID",
            field=VISIBLE,
            value=",".join(chosen),
        )


def _resolved(entry: str, entries: str, known: Sequence[Card]) -> Gpu:
    """The GPU that one entry names: an index, or a prefix of a UUID, as CUDA allows.

    For a card with MIG slices CUDA takes the first.
    """
    if entry.isdecimal():
        found = [card.gpus[0] for card in known if card.index == int(entry)]
    else:
        cards_named = [card.gpus[0] for card in known if card.uuid.startswith(entry)]
        found = cards_named + [gpu for card in known for gpu in card.gpus if gpu.name.startswith(entry)]
        found = list(dict.fromkeys(found)) if entry.startswith(("GPU-", "MIG-")) else []
    if len(found) != 1:
        there = ", ".join(f"{card.index}: {' '.join(each.name for each in card.gpus)}" for card in known)
        raise BackendError(
            f"{VISIBLE} = {entries!r}: {entry!r} names {len(found)} GPUs; there are {there}",
            field=VISIBLE,
            value=entry,
        )
    return found[0]


def placed(settings: Settings) -> Settings:
    """Resolve the GPUs of the settings on this machine; BackendError if there are too many slots.

    Resolved at submission, since a running supervisor has another environment.
    """
    if settings.gpus is not None:
        return settings
    return replace(settings, gpus=handed_out(usable(), settings.slots, settings.share_gpus))


def handed_out(found: Sequence[Gpu], slots: int | None, share: bool) -> list[str]:
    """Assign GPUs to slots; a shared GPU is listed once per slot."""
    names = [gpu.name for gpu in found]
    more = (slots or len(found)) - len(found)
    if not found or more <= 0:
        return names
    allowed = f"--slots {slots}, but {len(found)} GPUs are usable ({', '.join(names)})"
    if not share:
        raise BackendError(
            f"{allowed}: give at most --slots {len(found)}, or --share-gpus to let trainings share a GPU",
            field="--slots",
            value=slots,
            allowed=len(found),
        )
    open_to_many = [gpu.name for gpu in found if not gpu.exclusive]
    if not open_to_many:
        raise BackendError(
            f"{allowed}, all in compute mode Exclusive_Process (one process at a time): "
            f"give at most --slots {len(found)}",
            field="--slots",
            value=slots,
            allowed=len(found),
        )
    return names + [open_to_many[number % len(open_to_many)] for number in range(more)]


def for_device(environment: Mapping[str, str], gpu: str | None) -> dict[str, str]:
    """The environment of a process that uses only this GPU, or the CPU if None.

    PRIVBENCH_DEVICE makes a training fail if its GPU is missing.
    """
    if gpu is None:
        return {**environment, VISIBLE: "", DEVICE: "cpu"}
    return {cublas.VARIABLE: cublas.WORKSPACE, **environment, VISIBLE: gpu, DEVICE: "cuda"}

"""The GPUs that tasks may use: named by UUID, within what the environment allows.

Asked of nvidia-smi, the driver's own tool, since torch stays out of backends. A UUID and not an index:
nvidia-smi and container engines count cards by PCI bus, CUDA the fastest first.

    CUDA_VISIBLE_DEVICES   set: these and no others (indices, UUIDs, UUIDs of MIG slices); empty or -1: none
    PRIVBENCH_DEVICE       cpu: none; cuda: an error where there is none
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
"""What ends the list in CUDA_VISIBLE_DEVICES; the last is what a scheduler writes for a job without GPUs."""
ANSWER_SECONDS = 20.0
"""After which an nvidia-smi that says nothing is given up; one that starts the driver takes seconds."""
CARD = re.compile(r"^(?P<uuid>GPU-[^,\s]+), *(?P<index>\d+), *(?P<mode>[^,]+), *(?P<name>.+)$")
LISTED_CARD = re.compile(r"^GPU \d+: .*\(UUID: (GPU-[^)\s]+)\)")
LISTED_SLICE = re.compile(r"^\s+MIG .*\(UUID: (MIG-[^)\s]+)\)")
QUOTED_CHARACTERS = 300
"""Of an answer that was not understood, as much as a warning repeats."""


@dataclass(frozen=True)
class Gpu:
    """A card or a MIG slice of one."""

    name: str
    """Its UUID; where nvidia-smi cannot tell, an entry of CUDA_VISIBLE_DEVICES as it was given."""
    exclusive: bool = False
    """Whether the driver lets one process at a time use it."""


@dataclass(frozen=True)
class Card:
    """A card as nvidia-smi describes it."""

    uuid: str
    index: int
    model: str
    exclusive: bool
    slices: tuple[str, ...] = ()
    """The UUIDs of its MIG slices; a card that has some is used through them."""

    @property
    def gpus(self) -> list[Gpu]:
        """What can be handed out of it."""
        return [Gpu(name, self.exclusive) for name in self.slices or (self.uuid,)]


def usable(environment: Mapping[str, str] = os.environ) -> list[Gpu]:
    """The GPUs a process with this environment may use; BackendError where it asks for what is not there."""
    asked = environment.get(DEVICE) or None
    if asked not in (None, *DEVICES):
        raise BackendError(f"{DEVICE} = {asked!r}: give {' or '.join(DEVICES)}, or leave it out")
    if asked == "cpu":
        return []
    entries = environment.get(VISIBLE)
    found = _every() if entries is None else _chosen(entries, environment)
    if asked == "cuda" and not found:
        allowed = "is not set" if entries is None else f"= {entries!r}"
        raise BackendError(
            f"{DEVICE} = cuda, and no GPU can be used here: nvidia-smi shows {len(cards())}, {VISIBLE} "
            f"{allowed}; leave {DEVICE} out to use the CPU"
        )
    return found


def _every() -> list[Gpu]:
    return [gpu for card in cards() for gpu in card.gpus]


def cards() -> list[Card]:
    """The cards of this machine by nvidia-smi; with a warning of what cannot be used or understood."""
    told = _ask("--query-gpu=uuid,index,compute_mode,name", "--format=csv,noheader")
    lines = [line.strip() for line in told.splitlines() if line.strip()]
    found = [match for line in lines if (match := CARD.match(line))]
    if strange := [line for line in lines if not CARD.match(line)]:
        log.warning("nvidia-smi says %r: %d GPUs can be used", _quoted("\n".join(strange)), len(found))
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
    """The MIG slices of every card that has some, by the card's UUID."""
    found: dict[str, tuple[str, ...]] = {}
    card = ""
    for line in _ask("-L").splitlines():
        if match := LISTED_CARD.match(line):
            card = match[1]
        elif match := LISTED_SLICE.match(line):
            found[card] = (*found.get(card, ()), match[1])
    return found


def _ask(*words: str) -> str:
    """What nvidia-smi prints; nothing where it is missing, and a warning where it fails."""
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
        log.warning("nvidia-smi gives no answer (%s): no GPU is used", error)
        return ""
    if done.returncode:
        said = _quoted(done.stdout + done.stderr)
        log.warning("nvidia-smi ends with exit code %d (%r): no GPU is used", done.returncode, said)
        return ""
    return done.stdout


def _quoted(text: str) -> str:
    return text.strip()[:QUOTED_CHARACTERS]


def _chosen(entries: str, environment: Mapping[str, str]) -> list[Gpu]:
    """The GPUs that CUDA_VISIBLE_DEVICES names, resolved to UUIDs where nvidia-smi tells them."""
    words: list[str] = []
    for word in entries.split(","):
        if word.strip() in NONE:
            break  # CUDA reads no further
        words.append(word.strip())
    if not words:
        return []
    known = cards()
    if not known:
        return [Gpu(word) for word in dict.fromkeys(words)]
    _refuse_ambiguous(words, known, environment)
    return list(dict.fromkeys(_resolved(word, entries, known) for word in words))


def _refuse_ambiguous(words: Sequence[str], known: Sequence[Card], environment: Mapping[str, str]) -> None:
    """Indices of unlike cards mean others to CUDA than to nvidia-smi, unless all are named."""
    indices = {int(word) for word in words if word.isdecimal()}
    models = {card.model for card in known}
    by_bus = environment.get("CUDA_DEVICE_ORDER") == "PCI_BUS_ID"
    if indices and len(models) > 1 and not by_bus and indices != {card.index for card in known}:
        raise BackendError(
            f"{VISIBLE} = {','.join(words)!r} names cards by index, and CUDA counts unlike cards "
            f"({', '.join(sorted(models))}) in another order than nvidia-smi: give UUIDs (`nvidia-smi -L`), "
            "or set CUDA_DEVICE_ORDER=PCI_BUS_ID"
        )


def _resolved(word: str, entries: str, known: Sequence[Card]) -> Gpu:
    """The GPU that one entry names: an index, or the beginning of a UUID, as CUDA allows.

    Of a card with MIG slices CUDA takes the first.
    """
    if word.isdecimal():
        found = [card.gpus[0] for card in known if card.index == int(word)]
    else:
        cards_named = [card.gpus[0] for card in known if card.uuid.startswith(word)]
        found = cards_named + [gpu for card in known for gpu in card.gpus if gpu.name.startswith(word)]
        found = list(dict.fromkeys(found)) if word.startswith(("GPU-", "MIG-")) else []
    if len(found) != 1:
        there = ", ".join(f"{card.index}: {' '.join(each.name for each in card.gpus)}" for card in known)
        raise BackendError(f"{VISIBLE} = {entries!r}: {word!r} names {len(found)} GPUs; there are {there}")
    return found[0]


def placed(settings: Settings) -> Settings:
    """The settings with the GPUs of this machine that trainings get; BackendError where slots do not fit.

    Found when tasks are sent: a supervisor that lives already has another environment.
    """
    if settings.gpus is not None:
        return settings
    return replace(settings, gpus=handed_out(usable(), settings.slots, settings.share_gpus))


def handed_out(found: Sequence[Gpu], slots: int | None, share: bool) -> list[str]:
    """The GPUs for so many slots; one that several slots share is named as often."""
    names = [gpu.name for gpu in found]
    more = (slots or len(found)) - len(found)
    if not found or more <= 0:
        return names
    allowed = f"--slots {slots}, and {len(found)} GPUs can be used ({', '.join(names)})"
    if not share:
        raise BackendError(
            f"{allowed}: give --slots {len(found)} at most, or --share-gpus to let trainings share a GPU"
        )
    open_to_many = [gpu.name for gpu in found if not gpu.exclusive]
    if not open_to_many:
        raise BackendError(
            f"{allowed}, all in compute mode Exclusive_Process, which one process at a time may use: "
            f"give --slots {len(found)} at most"
        )
    return names + [open_to_many[number % len(open_to_many)] for number in range(more)]


def for_device(environment: Mapping[str, str], gpu: str | None) -> dict[str, str]:
    """An environment in which a process uses this GPU and no other, or where there is none the CPU.

    PRIVBENCH_DEVICE makes a training fail that does not find the GPU it was given.
    """
    if gpu is None:
        return {**environment, VISIBLE: "", DEVICE: "cpu"}
    return {cublas.VARIABLE: cublas.WORKSPACE, **environment, VISIBLE: gpu, DEVICE: "cuda"}

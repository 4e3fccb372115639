"""The method made of a user's program: it gets the members and the records asked for, and gives predictions.

The program ends with its training, so what is released is its answers, not a model.
"""

import os
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar, NoReturn

import torch
from dp_accounting import NonPrivateDpEvent
from pydantic import Field
from torch import Tensor, nn

import methods.base
from harness.programs.child import Kind, ProgramError, run_child
from harness.programs.predictions import read_predictions, to_logits
from harness.programs.record_files import write_asked, write_members
from harness.spec import Json
from methods.base import Problem, Released, Run, Technical
from workloads.base import Records
from workloads.errors import BenchError, SpecError
from workloads.records import fingerprints

FILES = "files"
"""The folder of a program's own files, inside of its folder."""
PLACEHOLDERS = ("members", "records", "seed", "predictions")
SEED_BITS = 31
"""Of a program's seed: any library takes a seed below 2 ** 31."""


class ProgramParams(methods.base.Params):
    """Parameters of a program."""

    repetition: Annotated[int, Technical()] = Field(
        default=0, description="Another number trains on the same members with other seeds."
    )


class Program:
    """A user's training program, kept in the store."""

    version: ClassVar[str] = "1"
    source: ClassVar[str] = "given by the user of this store"
    guarantee: ClassVar[str] = "none"
    caveats: ClassVar[tuple[str, ...]] = (
        "whatever the program promises, privbench watched none of it: no guarantee is claimed",
        "only predictions are kept, so attacks that query or open the model do not fit",
    )
    no_model: ClassVar[str] = "of a program only the predictions are kept"
    Params: ClassVar[type[ProgramParams]] = ProgramParams

    def __init__(self, folder: Path, about: Mapping[str, Any]) -> None:
        """Args: its folder; what its `about.json` says."""
        self.folder, self.given = folder, about
        self.about = f"a program given by the user: {about['shown']}"

    def train(self, members: Records, problem: Problem, params: ProgramParams, run: Run) -> Released:
        """Run the program once, in a folder of its own that is deleted afterwards."""
        if problem.asked is None:
            raise BenchError("a program needs to know what it will be asked about", field="asked")
        logits = torch.zeros(len(problem.asked), problem.classes)
        seed = run.seed("program") >> (63 - SEED_BITS)
        for _ in run.steps("program", 1, {"logits": logits}):
            logits.copy_(self._run(members, problem.asked, problem.classes, seed))
        return Released(Answers(problem.asked, logits), NonPrivateDpEvent())

    def skeleton(self, problem: Problem, params: ProgramParams) -> NoReturn:
        """BenchError: there is no model to load."""
        raise BenchError(f"{self.no_model}: give an attack on logits", field="model", value=None)

    def detached(self, params: ProgramParams) -> str:
        """Why gradient canaries do not work."""
        return "the program trains a model of its own, which has no weights for them"

    def _run(self, members: Records, asked: Tensor, classes: int, seed: int) -> Tensor:
        with tempfile.TemporaryDirectory(prefix="privbench-program-") as place:
            scratch = Path(place).resolve()
            own = scratch / FILES
            shutil.copytree(self.folder / FILES, own)
            features = self.given.get("features")
            suffix = "npz" if features is None else "csv"
            files = {name: scratch / f"{name}.{suffix}" for name in ("members", "records")}
            files["predictions"] = scratch / f"predictions.{suffix.replace('npz', 'npy')}"
            write_members(files["members"], members.x.cpu().numpy(), members.y.cpu().numpy(), features)
            write_asked(files["records"], asked.numpy(), features)
            kind, order = self._order(own, {name: str(file) for name, file in files.items()}, seed, classes)
            try:
                run_child(kind, order, own, scratch, lambda line: os.write(1, line))
            except ProgramError as error:
                if kind == "train" and error.value == "FileNotFoundError":
                    raise hinted(error) from None
                raise
            return torch.from_numpy(to_logits(read_predictions(files["predictions"]), len(asked), classes))

    def _order(self, own: Path, files: Mapping[str, str], seed: int, classes: int) -> tuple[Kind, Json]:
        if "command" in self.given:
            values = {**files, "seed": str(seed)}
            return "command", {"command": [fill(word, values) for word in self.given["command"]]}
        script = {name: self.given[name] for name in ("module", "function", "file", "tensors")}
        order = {"folder": str(own), "asked": files["records"], "seed": seed, "classes": classes}
        return "train", {**files, **script, **order, "needs": {self.given["function"]: TRAIN}}


TRAIN = "it trains on the members and returns the model, as train(x, y, seed)"


def hinted(error: ProgramError) -> ProgramError:
    """The error of a file that is not where the program ran, and what to do."""
    return ProgramError(
        f"{error}. A training runs in a copy of the script's folder, with the script and what it imports "
        "from there: read data in data(), or name further files with --with",
        field=error.field,
        value=error.value,
    )


def fill(word: str, values: Mapping[str, str]) -> str:
    """A word of a command with its placeholders replaced."""
    for name, value in values.items():
        word = word.replace(f"{{{name}}}", value)
    return word


def check_command(words: list[str]) -> None:
    """SpecError unless a command has every placeholder that it cannot do without."""
    needed = [name for name in PLACEHOLDERS if name != "seed"]
    missing = [f"{{{name}}}" for name in needed if not any(f"{{{name}}}" in word for word in words)]
    if missing:
        raise SpecError(
            f"--command has no {' and no '.join(missing)}: the program reads the members' x and y from "
            "{members}, the x of all records to predict from {records}, and writes its predictions to "
            "{predictions}; {seed} is the number to seed it with",
            field="--command",
            value=" ".join(words),
            allowed=PLACEHOLDERS,
        )


class Answers(nn.Module):
    """The logits of known examples, looked up by the examples."""

    def __init__(self, asked: Tensor, logits: Tensor) -> None:
        super().__init__()
        self.logits = logits
        known = Records(asked, torch.zeros(len(asked), dtype=torch.int64))
        self.rows = {each: row for row, each in enumerate(fingerprints(known))}

    def forward(self, x: Tensor) -> Tensor:
        """The logits of these examples."""
        own = Records(x.cpu(), torch.zeros(len(x), dtype=torch.int64))
        return self.logits[torch.tensor([self.rows[each] for each in fingerprints(own)], dtype=torch.int64)]

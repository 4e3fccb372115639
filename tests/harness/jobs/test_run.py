import json
import math
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

from harness.jobs.checkpoint import read_checkpoint, write_checkpoint
from harness.jobs.run import LOOK_EVERY, Interrupted, Run
from methods.training.sampling import PoissonSampler
from workloads.base import Records
from workloads.errors import Diverged

CPU = torch.device("cpu")
STEPS = 8
PARAMS = {"steps": STEPS}


def never() -> bool:
    return False


def after(steps: int) -> Callable[[], bool]:
    """A `stop` that requests a stop after this many steps."""
    left = iter(range(steps - 1, -1, -1))
    return lambda: next(left) == 0


class Counted:
    """A `stop` that never stops and counts the steps."""

    times = 0

    def __call__(self) -> bool:
        self.times += 1
        return False


def interrupt(lab: ModuleType, folder: Path, steps: int) -> None:
    with pytest.raises(Interrupted):
        lab.train("trial", PARAMS, folder, after(steps))


@pytest.fixture(scope="module")
def undisturbed(lab_module: ModuleType) -> str:
    digest: str = lab_module.train("trial", PARAMS, None, never).digest
    return digest


# -- resuming ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Trainings whose processes were killed in both phases, at chosen steps and at random times."""
    small = {"steps": STEPS, "batch_size": 8, "learning_rate": 0.2}
    orders = [
        {"method": "trial", "params": PARAMS, "kills": [1, 4, 6, 1, 3], "raids": 4},
        {"method": "sgd", "params": {**small, "momentum": 0.9}, "kills": [3, 2], "raids": 1},
        {"method": "dp-sgd", "params": {**small, "noise_multiplier": 1.0}, "kills": [3, 2], "raids": 1},
    ]
    script = [sys.executable, "-W", "ignore", str(Path(__file__).parents[1] / "lab.py")]
    folder = tmp_path_factory.mktemp("killed")
    command = [*script, str(folder), json.dumps(orders)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    if done.returncode:
        raise AssertionError(done.stderr)
    outcomes: dict[str, Any] = json.loads(done.stdout)
    return outcomes


@pytest.mark.slow
@pytest.mark.parametrize("method", ["trial", "sgd", "dp-sgd"])
def test_a_training_killed_repeatedly_ends_with_the_same_bits(killed: dict[str, Any], method: str) -> None:
    phases = ("warm", "main") if method == "trial" else ("train",)
    assert killed[method]["undisturbed"]["steps"] == dict.fromkeys(phases, STEPS)
    assert killed[method]["resumed"] == killed[method]["undisturbed"]


@pytest.mark.parametrize("steps", [1, STEPS - 1, STEPS, STEPS + 1, 2 * STEPS - 1, 2 * STEPS])
def test_a_stopped_training_resumes_to_the_same_bits(
    lab_module: ModuleType, tmp_path: Path, undisturbed: str, steps: int
) -> None:
    interrupt(lab_module, tmp_path, steps)
    assert lab_module.train("trial", PARAMS, tmp_path, never).digest == undisturbed


PARTS = [
    ("state", "model"),
    ("state", "optimizer"),
    ("state", "average"),
    ("state", "tally"),
    ("state", "history"),
    ("streams", "sampling"),
    ("streams", "noise"),
    ("torch_stream", "cpu"),
    ("series", "values"),
]


@pytest.mark.parametrize("part", PARTS, ids="/".join)
@pytest.mark.parametrize("phase", ["warm", "main"])
def test_every_part_of_a_checkpoint_is_needed(
    lab_module: ModuleType, tmp_path: Path, undisturbed: str, phase: str, part: tuple[str, str]
) -> None:
    """An older copy of any part gives another result: a missing part would be detected."""
    before = STEPS if phase == "main" else 0
    interrupt(lab_module, tmp_path / "early", before + 2)
    interrupt(lab_module, tmp_path / "late", before + 5)
    early, late = (read_checkpoint(tmp_path / name / f"{phase}.safetensors") for name in ("early", "late"))
    assert early is not None
    assert late is not None
    late[part[0]][part[1]] = early[part[0]][part[1]]
    write_checkpoint(tmp_path / "late" / f"{phase}.safetensors", late)
    assert lab_module.train("trial", PARAMS, tmp_path / "late", never).digest != undisturbed


def truncate(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-100])


def empty(file: Path) -> None:
    file.write_bytes(b"")


def flip(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[-200] ^= 1
    file.write_bytes(bytes(content))


def rewrite(file: Path, **changes: Any) -> None:
    content = read_checkpoint(file)
    assert content is not None
    write_checkpoint(file, {**content, **changes})


def of_another_torch(file: Path) -> None:
    rewrite(file, torch="1.0")


def of_another_device(file: Path) -> None:
    rewrite(file, device="cuda")


def of_another_card(file: Path) -> None:
    rewrite(file, card="NVIDIA H100 80GB HBM3")


def of_another_run(file: Path) -> None:
    rewrite(file, run="another task")


def of_older_code(file: Path) -> None:
    rewrite(file, state={"model": {}})


def as_it_was(file: Path) -> None:
    assert file.exists()


@pytest.mark.parametrize(
    ("harm", "counts"),
    [
        (truncate, False),
        (empty, False),
        (flip, False),
        (of_another_torch, False),
        (of_another_device, False),
        (of_another_card, False),
        (of_another_run, False),
        (of_older_code, False),
        (as_it_was, True),
    ],
)
def test_a_phase_with_a_bad_checkpoint_restarts(
    lab_module: ModuleType, tmp_path: Path, undisturbed: str, harm: Callable[[Path], None], counts: bool
) -> None:
    interrupt(lab_module, tmp_path, STEPS + 5)
    harm(tmp_path / "main.safetensors")
    asked = Counted()
    again = lab_module.train("trial", PARAMS, tmp_path, asked)
    assert again.digest == undisturbed
    assert asked.times == (STEPS - 5 if counts else STEPS)


def test_a_finished_phase_with_a_bad_checkpoint_is_retrained(
    lab_module: ModuleType, tmp_path: Path, undisturbed: str
) -> None:
    interrupt(lab_module, tmp_path, STEPS + 5)
    truncate(tmp_path / "warm.safetensors")
    asked = Counted()
    again = lab_module.train("trial", PARAMS, tmp_path, asked)
    assert again.digest == undisturbed
    assert asked.times == STEPS + STEPS - 5


# -- what a run refuses ------------------------------------------------------------------------


class OnlySaved:
    def state_dict(self) -> dict[str, int]:
        return {}


@pytest.mark.parametrize(
    ("thing", "part"),
    [
        (3, "int"),
        ((1, 2), "tuple"),
        (torch.Generator(), "Generator"),
        (OnlySaved(), "OnlySaved"),
        ({"when": {1, 2}}, "set"),
        ({(1, 2): 3}, "tuple"),
        ([object()], "object"),
    ],
)
def test_state_that_cannot_be_restored_is_refused_before_the_first_step(thing: object, part: str) -> None:
    run = Run("name", CPU)
    done = []
    with pytest.raises(TypeError, match=f"'odd'.*{part}"):
        for step in run.steps("train", 3, {"fine": torch.zeros(1), "odd": thing}):
            done.append(step)
    assert done == []


def test_a_phase_name_is_used_once() -> None:
    run = Run("name", CPU)
    assert list(run.steps("train", 3, {})) == [0, 1, 2]
    with pytest.raises(ValueError, match="'train' was already run"):
        next(run.steps("train", 3, {}))


@pytest.mark.parametrize("name", ["", "Train", "a/b", "..", "a b", "-a"])
def test_a_phase_name_makes_a_file_name(name: str) -> None:
    with pytest.raises(ValueError, match="lower-case letters"):
        next(Run("name", CPU).steps(name, 3, {}))


@pytest.mark.parametrize("name", ["phase", "step", "wall_seconds", "cpu_seconds", "clock_x"])
def test_a_value_cannot_take_the_place_of_a_column(name: str) -> None:
    run = Run("name", CPU)
    with pytest.raises(ValueError, match=f"'{name}'"):
        for _ in run.steps("train", 3, {}):
            run.observe(**{name: 1.0})


# -- divergence --------------------------------------------------------------------------------


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf, torch.tensor(math.nan)])
@pytest.mark.parametrize("at", [0, 1, LOOK_EVERY - 1, LOOK_EVERY, LOOK_EVERY + 1, 99])
def test_divergence_names_its_step_and_phase(bad: float, at: int) -> None:
    run = Run("name", CPU)
    for _ in run.steps("first", 3, {}):
        run.observe(loss=1.0)
    done = 0
    with pytest.raises(Diverged, match=f"loss is not finite at step {at} of phase 'second'") as raised:
        for step in run.steps("second", 100, {}):
            run.observe(loss=bad if step == at else 1.0)
            done += 1
    assert (raised.value.phase, raised.value.step) == ("second", at)
    assert done <= at + LOOK_EVERY


def test_a_diverged_state_is_never_saved(tmp_path: Path) -> None:
    run = Run("name", CPU, tmp_path, interval=0.0)
    with pytest.raises(Diverged):
        for step in run.steps("train", 10, {}):
            run.observe(loss=math.nan if step == 4 else 1.0)
    saved = read_checkpoint(tmp_path / "train.safetensors")
    assert saved is not None
    assert saved["done"] == 4


def test_a_phase_left_early_keeps_its_own_values() -> None:
    run = Run("name", CPU)
    for step in run.steps("first", 10, {}):
        run.observe(loss=float(step))
        if step == 4:
            break
    for _ in run.steps("second", 2, {}):
        run.observe(other=1.0)
    assert run.phases["first"].values == {"loss": [0.0, 1.0, 2.0, 3.0]}
    assert run.phases["second"].values == {"other": [1.0, 1.0]}
    assert run.phases["first"].peak_memory_bytes > 0


def test_divergence_before_an_early_end_is_seen_at_the_finish() -> None:
    run = Run("name", CPU)
    for step in run.steps("train", 10, {}):
        run.observe(loss=math.nan if step == 2 else 1.0)
        if step == 4:
            break
    with pytest.raises(Diverged, match="step 2 of phase 'train'"):
        run.finish()


# -- series ------------------------------------------------------------------------------------


def is_missing(column: list[float]) -> list[bool]:
    return [math.isnan(each) for each in column]


@pytest.mark.parametrize("interrupted", [[], [3], [1, 4, 2]])
def test_series_have_a_value_per_step_resumed_or_not(
    lab_module: ModuleType, tmp_path: Path, interrupted: list[int]
) -> None:
    for steps in interrupted:
        interrupt(lab_module, tmp_path, steps)
    run = lab_module.train("trial", PARAMS, tmp_path, never)
    for series in run.phases.values():
        assert len(series.wall) == len(series.cpu) == STEPS
        assert len(series.clocks["forward"]) == len(series.values["loss"]) == STEPS
        assert 0 < series.resting_memory_bytes <= series.peak_memory_bytes
        assert all(
            0 < part <= whole for part, whole in zip(series.clocks["forward"], series.wall, strict=True)
        )
    main = run.phases["main"]
    expected = [step % 3 != 1 for step in range(STEPS)]
    assert is_missing(main.values["third"]) == expected
    assert is_missing(main.clocks["third"]) == expected
    assert [each for each in main.values["third"] if not math.isnan(each)] == [1.0, 4.0, 7.0]


def test_two_spans_of_one_clock_add_up() -> None:
    run = Run("name", CPU)
    for _ in run.steps("train", 2, {}):
        for _ in range(3):
            with run.clock("part"):
                sum(range(1000))
    series = run.phases["train"]
    assert len(series.clocks["part"]) == 2
    assert all(0 < part < wall for part, wall in zip(series.clocks["part"], series.wall, strict=True))


def test_the_position_shows_phase_and_step() -> None:
    run = Run("name", CPU)
    seen = [run.position for _ in run.steps("train", 2, {})]
    assert [*seen, run.position] == [("train", 0, 2), ("train", 1, 2), ("train", 2, 2)]


# -- randomness --------------------------------------------------------------------------------


def draws(run: Run, stream: str) -> list[float]:
    values: list[float] = torch.rand(4, generator=run.generator(stream)).tolist()
    return values


def test_streams_are_independent_and_depend_on_the_task_and_their_name_alone() -> None:
    plain, greedy = Run("task", CPU), Run("task", CPU)
    torch.rand(1000, generator=greedy.generator("sampling"))
    torch.rand(1000)
    assert draws(plain, "noise") == draws(greedy, "noise")
    assert draws(Run("task", CPU), "sampling") != draws(Run("task", CPU), "noise")
    assert draws(Run("task", CPU), "noise") != draws(Run("another", CPU), "noise")
    assert plain.seed("init") == greedy.seed("init") != plain.seed("other")
    assert 0 <= plain.seed("init") < 2**63


def test_layers_that_draw_for_themselves_are_seeded_by_the_task() -> None:
    streams = []
    for name in ("task", "another", "task"):
        Run(name, CPU)
        streams.append(torch.rand(4).tolist())
    assert streams[0] == streams[2] != streams[1]


def by_one(run: Run, sizes: list[int]) -> list[list[int]]:
    """Batches of a stream that are drawn one at a time, each by a sampler of its own size."""
    stream = torch.Generator().manual_seed(run.seed("stream/sampling"))
    return [PoissonSampler(50, size, stream).draw().tolist() for size in sizes]


def test_samplers_of_one_stream_draw_in_turn() -> None:
    """One that had it for itself reads ahead, and stops when there is a second."""
    run, records = Run("name", CPU), Records(torch.zeros(50, 1), torch.arange(50))
    first = run.sampler("poisson", records, 10)
    drawn = [first.draw() for _ in range(3)]
    second = run.sampler("poisson", records, 5)
    drawn += [each.draw() for each in (first, second, second, first)]
    assert [batch.y.tolist() for batch in drawn] == by_one(run, [10, 10, 10, 10, 5, 5, 10])


def test_batches_read_ahead_are_drawn_again_after_a_stop(tmp_path: Path) -> None:
    records, batches = Records(torch.zeros(50, 1), torch.arange(50)), []
    for stop in (after(5), after(66), never):
        run = Run("name", CPU, tmp_path, stop=stop)
        sampler = run.sampler("poisson", records, 10)
        with suppress(Interrupted):
            for _ in run.steps("train", 150, {"sampler": sampler}):
                batches.append(sampler.draw().y.tolist())
    assert batches == by_one(run, [10] * 150)

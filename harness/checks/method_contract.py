"""The contract of methods, on short trainings of a small model."""

import itertools
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load
from torch import Tensor, nn

import methods
import workloads
from harness.accounting import check, price
from harness.accounting.ledger import expand
from harness.checks.contract import Broken, Check, Contract, Skipped, demand, part_of
from harness.jobs.run import Interrupted, Run
from harness.jobs.setup import per_example_loss
from harness.jobs.train import train
from harness.plan.plan import make_plan
from harness.plan.solving import solve, solve_noise
from harness.plan.sweep_file import read_sweep
from methods.base import GUARANTEES, Calibrated, Method, Params, PerExample, Problem, Rebuilt, Released
from methods.search import AXES, Space, space
from workloads.base import Records
from workloads.devices import CPU
from workloads.errors import Diverged, SpecError
from workloads.models.init import seeded
from workloads.models.mlp import mlp

STEPS = 24
MEMBERS = 40
EPSILON = 8.0
SEEDS = 5
"""Trainings in which a parameter that only some steps need must be read."""
REAL = "digits-linear"
"""The workload of the check on non-members."""


def make_records(count: int) -> Records:
    """Random records with random labels, the same every time."""
    random = torch.Generator().manual_seed(1)
    x = torch.randn(count, 6, generator=random)
    return Records(x, torch.randint(3, (count,), generator=random))


def make_model(seed: int) -> nn.Module:
    """A fresh small network."""
    return mlp((6, 5, 3), seed)


def make_mixing_model(seed: int) -> nn.Module:
    """A network with batch normalisation without weights or running statistics."""
    with seeded(seed):
        norm = nn.BatchNorm1d(5, affine=False, track_running_stats=False)
        return nn.Sequential(nn.Linear(6, 5), norm, nn.Tanh(), nn.Linear(5, 3))


PROBLEM = Problem(3, make_model, per_example_loss, public=make_records(120).x)


def quick_params(method: Method, count: int, batch_size: int = 8) -> Params:
    """The method's defaults, made quick, at epsilon 8 if it has one."""
    wishes = {"steps": STEPS, "batch_size": batch_size, "epsilon": EPSILON}
    wishes |= {"teachers": 10, "teacher_steps": STEPS // 2, "classifier_steps": STEPS // 2}
    given: dict[str, Any] = {key: value for key, value in wishes.items() if key in method.Params.model_fields}
    return solve(method, method.Params(**given), count, make_model)


def problem_on(device: torch.device) -> Problem:
    """The problem, with its public records on a device."""
    return replace(PROBLEM, public=make_records(120).x.to(device))


def bits(result: Released) -> list[Tensor]:
    """The released weights on the CPU."""
    return [each.cpu() for each in result.predictor.state_dict().values()]


def equal(one: Released, other: Released) -> bool:
    """Whether two releases have the same weights and ledger."""
    return all(map(torch.equal, bits(one), bits(other))) and str(one.ledger) == str(other.ledger)


def demand_finite(result: Released, when: str) -> None:
    """Broken if a released weight is not finite."""
    demand(all(bool(each.isfinite().all()) for each in bits(result)), f"weights are not finite with {when}")


@dataclass(frozen=True)
class CheckedMethod:
    """A method, and short trainings of it."""

    name: str
    device: torch.device = CPU
    stops: tuple[int, ...] = (1, STEPS // 2, STEPS - 1)
    """The steps at which a training is interrupted."""
    counts: tuple[int, ...] = (MEMBERS - 1, MEMBERS + 1, 8)
    """Numbers of members to try."""

    @cached_property
    def member(self) -> Method:
        """The method."""
        return methods.family.get(self.name)

    @cached_property
    def whole(self) -> Released:
        """An undisturbed training."""
        return self.train()

    def train(
        self, members: Records | None = None, batch_size: int = 8, seed: str = "seed", **run: Any
    ) -> Released:
        """Train on these members, default 40."""
        members = make_records(MEMBERS) if members is None else members
        params = quick_params(self.member, len(members), batch_size)
        taken = Run(seed, self.device, **run)
        released = self.member.train(members, problem_on(self.device), params, taken)
        if not isinstance(released, Released):
            raise Broken(f"train() returned a {type(released).__name__}, not Released")
        return released


METHOD: Contract[CheckedMethod] = []


@part_of(
    METHOD,
    "describes itself",
    "version, about, source, caveats, kind of guarantee and a description of every parameter are given",
    "give the class attributes as in the guide, and Field(description=...) for each parameter",
)
def describes_itself(subject: CheckedMethod) -> None:
    """Its declarations are complete."""
    member = subject.member
    for field in ("version", "about", "source"):
        found = getattr(member, field, None)
        demand(isinstance(found, str) and bool(found), f"{field} = {found!r}: give a text")
    guarantee = getattr(member, "guarantee", None)
    demand(guarantee in GUARANTEES, f"guarantee = {guarantee!r}: give one of {', '.join(GUARANTEES)}")
    demand(isinstance(getattr(member, "caveats", None), tuple), "caveats are missing: give a tuple of texts")
    described = {name: info.description for name, info in member.Params.model_fields.items()}
    bare = [name for name, text in described.items() if not text]
    demand(not bare, f"no description: {', '.join(bare)}")


@part_of(
    METHOD,
    "same seed, same bits",
    "two trainings of a seed give the same weights, ledger and stats, whatever was drawn before them",
    "take all randomness from run.generator(name) and run.seed(name), none from numpy, random or the clock",
)
def same_bits(subject: CheckedMethod) -> None:
    """Repeatable, independent of the global random state."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        one = subject.train()
        torch.manual_seed(2)
        other = subject.train()
    demand(equal(one, other), "two trainings of one seed released different weights or ledgers")
    demand(one.stats == other.stats, f"two trainings of one seed gave stats {one.stats} and {other.stats}")


@part_of(
    METHOD,
    "another seed, other bits",
    "trainings of two seeds differ: models of a cell are independent",
    "initialise by problem.model(run.seed('init')), and draw batches from run.sampler",
)
def other_bits(subject: CheckedMethod) -> None:
    """The seed matters."""
    demand(
        not equal(subject.whole, subject.train(seed="another seed")), "two seeds released the same weights"
    )


@part_of(
    METHOD,
    "resumes",
    "interrupted after any step and run again, it releases the same bits as without: jobs are killed",
    "put everything that the loop changes into the state of run.steps, and nothing random before it",
)
def resumes(subject: CheckedMethod) -> None:
    """Interrupted and resumed, the outcome is that of an undisturbed training."""
    for step in subject.stops:
        asked = iter(range(step - 1, -1, -1))
        with tempfile.TemporaryDirectory() as folder:
            stopped = False
            try:
                subject.train(folder=Path(folder), stop=lambda left=asked: next(left, 1) == 0)
            except Interrupted:
                stopped = True
            demand(stopped, f"it made less than {step} steps in run.steps: nothing could be interrupted")
            resumed = subject.train(folder=Path(folder))
        demand(equal(subject.whole, resumed), f"resumed after step {step}, it released other weights")
        demand(subject.whole.stats == resumed.stats, f"resumed after step {step}, its stats are others")


@part_of(
    METHOD,
    "empty batches",
    "a Poisson sample may be empty: such a step is taken all the same, with noise",
    "divide by the expected batch size, and take no mean of an empty batch",
)
def takes_empty_batches(subject: CheckedMethod) -> None:
    """Three members and an expected batch of one: about every third Poisson batch is empty."""
    demand_finite(subject.train(make_records(3), batch_size=1), "three members and batches of one")


@part_of(
    METHOD,
    "any number of members",
    "one member more or less makes no difference to the code: neighbouring data sets differ by one",
    "do not assume that batches divide the members",
)
def takes_any_count(subject: CheckedMethod) -> None:
    """Trains on one member more, one less, and one batch."""
    for count in subject.counts:
        demand_finite(subject.train(make_records(count)), f"{count} members")


@part_of(
    METHOD,
    "members of one class",
    "members may all have the same label",
    "do not assume that each class has members",
)
def takes_one_class(subject: CheckedMethod) -> None:
    """Trains on members of class 0 only."""
    members = make_records(MEMBERS)
    alike = Records(members.x, torch.zeros_like(members.y))
    demand_finite(subject.train(alike), "members of one class")


@part_of(
    METHOD,
    "batches within the members",
    "a batch larger than the members is refused with a SpecError, or not needed",
    "draw from run.sampler, which refuses it",
)
def refuses_large_batches(subject: CheckedMethod) -> None:
    """Four members and batches of eight."""
    try:
        result = subject.train(make_records(4), batch_size=8)
    except SpecError as error:
        demand("larger than the 4 members" in str(error), f"it refuses 4 members by: {error}")
    else:
        demand_finite(result, "four members and batches of eight")


@part_of(
    METHOD,
    "infinite features",
    "a record with an infinite gradient counts as zero or ends the task as diverged: no NaN is released",
    "report the loss by run.observe(loss=...), or clip by privbench.make_engine",
)
def survives_infinity(subject: CheckedMethod) -> None:
    """One member with infinite features."""
    members, run = make_records(MEMBERS), Run("seed", subject.device)
    members.x[3] = torch.inf
    params = quick_params(subject.member, MEMBERS)
    try:
        result = subject.member.train(members, problem_on(subject.device), params, run)
        run.finish()
    except Diverged:
        return
    demand_finite(result, "an infinite feature of one member")


@part_of(
    METHOD,
    "its ledger has a price",
    "the harness prices the ledger; a calibrated method's is the planned event and costs no more than asked",
    "return run.ledger(), and let planned() give the very same event",
)
def can_be_priced(subject: CheckedMethod) -> None:
    """The ledger can be priced, as planned."""
    member, ledger = subject.member, subject.whole.ledger
    guarantee = price(ledger, 1e-5)
    if isinstance(member, Calibrated):
        check(guarantee, EPSILON)
        planned = member.planned(quick_params(member, MEMBERS), MEMBERS)
        # As accountants read it: a ledger may also hold what nobody could plan, such as votes.
        same = str(expand(ledger)) == str(expand(planned))
        demand(same, f"the ledger is {expand(ledger)}, but planned() gave {expand(planned)}")
    if member.guarantee in ("none", "empirical"):
        found = guarantee.epsilon
        demand(found is None, f"guarantee = {member.guarantee!r}, but its ledger costs epsilon {found}")


@part_of(
    METHOD,
    "saved weights are the model",
    "the released weights load into a fresh model, or the method's skeleton, which then predicts the same",
    "release the trained model itself without wrapper or hooks, or declare skeleton() (privbench.Rebuilt)",
)
def loads_again(subject: CheckedMethod) -> None:
    """A saved and loaded predictor predicts as the released one."""
    member, predictor = subject.member, subject.whole.predictor
    params = quick_params(member, MEMBERS)
    fresh = member.skeleton(PROBLEM, params) if isinstance(member, Rebuilt) else make_model(0)
    fresh.load_state_dict(predictor.state_dict())
    asked = make_records(5).x.to(subject.device)
    with torch.no_grad():
        found, released = fresh.to(subject.device).eval()(asked), predictor(asked)
    demand(tuple(released.shape) == (5, 3), f"5 records give an output of shape {tuple(released.shape)}")
    demand(torch.equal(found, released), "a model with the saved weights predicts otherwise")


@part_of(
    METHOD,
    "declares per-example gradients",
    "a method that refuses batch normalisation declares per_example = True, so that a plan can say so",
    "declare `per_example: ClassVar[bool] = True`, and compute gradients by privbench.make_engine",
)
def declares_per_example(subject: CheckedMethod) -> None:
    """A model that mixes examples is refused if, and only if, the method declares so."""
    member = subject.member
    declared = isinstance(member, PerExample) and member.per_example
    mixing = replace(problem_on(subject.device), model=make_mixing_model)
    try:
        member.train(
            make_records(MEMBERS), mixing, quick_params(member, MEMBERS), Run("seed", subject.device)
        )
        refused = False
    except SpecError as error:
        if error.field != "layer":
            raise
        refused = True
    demand(refused or not declared, "it declares per_example, but trains a model with batch normalisation")
    demand(declared or not refused, "it refuses batch normalisation without declaring per_example")


@part_of(
    METHOD,
    "sees members only",
    f"non-members do not reach the released model (a training on {REAL}, twice)",
    "use nothing but the members, the problem and the run",
)
def sees_members_only(subject: CheckedMethod) -> None:
    """Other non-members, the same model."""
    fields = subject.member.Params.model_fields
    grid: dict[str, Any] = {"workload": REAL, "method": subject.name}
    wishes = {"steps": 8, "epsilon": EPSILON, "iterations": 5}
    grid |= {key: value for key, value in wishes.items() if key in fields}
    try:
        task = make_plan(*read_sweep({"grid": [grid], "models": 1}, "check"), None).tasks[0]
    except SpecError as error:
        raise Skipped(f"it cannot be planned on {REAL}: {error.problems[0]}") from error
    with tempfile.TemporaryDirectory() as folder:
        first = train(task, CPU, Path(folder) / "one", lambda: False)
        mask = load(first.artefacts["signals.safetensors"])["members"]
        with disturbed(mask):
            again = train(task, CPU, Path(folder) / "two", lambda: False)
    same = again.artefacts["model.safetensors"] == first.artefacts["model.safetensors"]
    demand(same, "with other non-members it released another model")
    moved = again.artefacts["signals.safetensors"] != first.artefacts["signals.safetensors"]
    demand(moved, "other non-members gave the same predictions: the predictor ignores its input")


@contextmanager
def disturbed(mask: Tensor) -> Iterator[None]:
    """The workload with other features and labels of all records outside the mask."""
    workload = workloads.family.get(REAL)
    pool = workload.pool()
    other = Records(torch.where(mask[:, None], pool.x, pool.x + 100), torch.where(mask, pool.y, 9 - pool.y))
    changed = type("Disturbed", (type(workload),), {"pool": lambda _: other})
    workloads.family.members[REAL] = changed(**vars(workload))
    try:
        yield
    finally:
        workloads.family.members[REAL] = workload


@part_of(
    METHOD,
    "can be tuned",
    f"3 to {AXES} parameters are searched, or none; every other is a level, fixed or solved for; "
    "the corners of the space are valid parameters for 100 and 50,000 members",
    "annotate each parameter as in the guide: Annotated[Rate, Search(0.1, 10)], or Level() or Fixed()",
)
def declares_a_space(subject: CheckedMethod) -> None:
    """Its search space is complete and valid."""
    found = space(subject.member)
    # One or two are an oversight. A method without any, such as a search of its own, is not tuned.
    demand(len(found.axes) in (0, *range(3, AXES + 1)), f"{len(found.axes)} parameters are searched")
    demand(not found.undeclared, f"neither searched nor a level nor fixed: {', '.join(found.undeclared)}")
    required = {"epsilon": EPSILON} if "epsilon" in subject.member.Params.model_fields else {}
    for n_train in (100, 50_000):
        for corner in corners(found):
            # Noise that would have to be solved for does not decide whether the rest is valid.
            values = found.at(n_train).trial(corner, n_train, required, lambda event, epsilon, delta: 1.0)
            subject.member.Params(**required, **values)
    solved = found.at(100).trial([0.5] * AXES, 100, required, solve_noise)
    subject.member.Params(**required, **solved)


def corners(found: Space) -> Iterator[list[float]]:
    """The corners of the cube in the axes of a space."""
    for ends in itertools.product((0.0, 1.0), repeat=len(found.axes)):
        corner = [0.5] * AXES
        for axis, end in zip(found.axes, ends, strict=True):
            corner[axis.place] = end
        yield corner


@part_of(
    METHOD,
    "reads what is searched",
    "train() reads every searched parameter: a search over one that has no effect wastes trials",
    "use the parameter in train(), or declare it Fixed()",
)
def reads_its_space(subject: CheckedMethod) -> None:
    """Every searched parameter is read in short trainings; each draws its own branches."""
    member, problem, read = subject.member, problem_on(subject.device), set[str]()
    searched = [axis.field for axis in space(member).axes]
    for number in range(SEEDS):
        if read.issuperset(searched):
            break
        params = recorded(quick_params(member, MEMBERS), read)
        member.train(make_records(MEMBERS), problem, params, Run(f"seed {number}", subject.device))
    unread = [name for name in searched if name not in read]
    demand(not unread, f"searched, and never read by train(): {', '.join(unread)}")


def recorded(params: Params, read: set[str]) -> Params:
    """The same parameters in a subclass of theirs that adds the names that are read to `read`."""
    kind, before = type(params), set(read)

    def get(self: Params, name: str) -> Any:
        read.add(name)
        return kind.__getattribute__(self, name)

    body = {"__getattribute__": get, "__module__": kind.__module__}
    made: Params = type(kind.__name__, (kind,), body)(**params.model_dump())
    read.intersection_update(before)  # validators read, too
    return made


def method_checks(name: str) -> tuple[list[Check[CheckedMethod]], CheckedMethod]:
    """The contract, and the method as its subject; UnknownName if there is none."""
    methods.family.get(name)
    return METHOD, CheckedMethod(name)

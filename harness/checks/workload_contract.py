"""The contract of workloads."""

from collections import Counter
from dataclasses import dataclass
from functools import cached_property

import torch

import methods
import workloads
from harness.checks.contract import Check, Contract, Skipped, demand, part_of
from harness.plan.inspection.inspection import Inspection, find_delay, find_repeated, inspect, load
from methods.base import PerExample
from workloads.base import Public, Records, Workload
from workloads.errors import SpecError
from workloads.recipe import recipe
from workloads.records import fingerprints, without

READ_AT_ONCE = 4096
BATCHES = (5, 1, 0)
"""Sizes of batches that a model must take; a Poisson sample may be empty."""


@dataclass(frozen=True)
class CheckedWorkload:
    """A workload, and its records once they are asked for."""

    name: str

    @cached_property
    def member(self) -> Workload:
        """The workload."""
        return workloads.family.get(self.name)

    @cached_property
    def inspection(self) -> Inspection:
        """What is found in its records."""
        self.need_records()
        return inspect(self.member)

    def need_records(self) -> None:
        """Skip the check if records are absent or would take minutes to compute."""
        if delay := find_delay(self.member):
            raise Skipped(delay.partition(";")[0])

    def usable(self, part: str) -> Records:
        """The pool or test records; the check is skipped if they cannot be used."""
        if self.inspection.problems:
            raise Skipped("the records cannot be used, see above")
        return load(self.member, part)


WORKLOAD: Contract[CheckedWorkload] = []


@part_of(
    WORKLOAD,
    "describes itself",
    "name, version, about and source are given, and the name is that of the entry point",
    "give the attributes as in the guide, and the name of the entry point",
)
def describes_itself(subject: CheckedWorkload) -> None:
    """Name, version, about and source."""
    member = subject.member
    demand(
        member.name == subject.name, f"its name is {member.name!r}, but it is registered as '{subject.name}'"
    )
    for field in ("version", "about", "source"):
        found = getattr(member, field, None)
        demand(isinstance(found, str) and bool(found), f"{field} = {found!r}: give a text")
    for field in ("classes", "n_train"):
        found = getattr(member, field, None)
        demand(isinstance(found, int) and found > 0, f"{field} = {found!r}: give a number above 0")


@part_of(
    WORKLOAD,
    "records can be used",
    "pool and test hold finite features and int64 labels from 0, and the model maps them to logits",
    "see the problem; a plan refuses the workload until it is fixed",
)
def records_can_be_used(subject: CheckedWorkload) -> None:
    """No problem of `inspect`."""
    demand(not subject.inspection.problems, "; ".join(each.message for each in subject.inspection.problems))


@part_of(
    WORKLOAD,
    "members and non-members",
    "the pool holds more records than n_train: attacks distinguish members from the others",
    "give a smaller n_train; half of the pool makes both equally many",
)
def has_both_sides(subject: CheckedWorkload) -> None:
    """`n_train` is below the size of the pool."""
    pool, members = len(subject.usable("pool")), subject.member.n_train
    demand(0 < members < pool, f"n_train = {members:,} of a pool of {pool:,} records")


@part_of(
    WORKLOAD,
    "same records every time",
    "loading twice gives the same records in the same order: members are drawn by row number",
    "fix the seed of the split, and sort what comes from folders or sets",
)
def same_every_time(subject: CheckedWorkload) -> None:
    """Two calls give equal records."""
    for part in ("pool", "test"):
        one, other = subject.usable(part), load(subject.member, part)
        pairs = zip(one.batches(READ_AT_ONCE), other.batches(READ_AT_ONCE), strict=False)
        same = len(one) == len(other) and torch.equal(one.y, other.y)
        same = same and all(torch.equal(a, b) for a, b in pairs)
        demand(same, f"{part}() gives other records the second time")


@part_of(
    WORKLOAD,
    "no test record in the pool",
    "pool and test share no record: test accuracy would partly be an accuracy on members",
    "leave such records out of test()",
)
def shares_no_record(subject: CheckedWorkload) -> None:
    """No example is in both."""
    pool, test = set(fingerprints(subject.usable("pool"))), list(fingerprints(subject.usable("test")))
    shared = [row for row, each in enumerate(test) if each in pool]
    what = f"{len(shared):,} of {len(test):,} test records are in the pool, in rows {shared[:3]} of test()"
    demand(not shared, what)


@part_of(
    WORKLOAD,
    "one record a person",
    "no copies in the pool and no person with several records: an epsilon protects one record",
    "keep one of each, and make one record of each person's",
)
def one_record_each(subject: CheckedWorkload) -> str | None:
    """Warn about copies and persons with several records."""
    own = Counter(fingerprints(subject.usable("pool")))
    return " ".join(find_repeated(subject.member, own)) or None


@part_of(
    WORKLOAD,
    "public records",
    "public records are no members, and leave a third of the test records to measure accuracy on",
    "take other records, or some of the test records",
)
def public_are_no_members(subject: CheckedWorkload) -> None:
    """`public` is disjoint from the pool and not the whole test set."""
    pool, test = subject.usable("pool"), subject.usable("test")
    if not isinstance(subject.member, Public):
        raise Skipped("it declares no public records")
    public = subject.member.public()
    demand(len(public) > 0, "there are none")
    inside = len(public) - len(without(public, pool))
    demand(inside == 0, f"{inside:,} of {len(public):,} public records are in the pool")
    left = len(without(test, public))
    demand(left >= len(test) // 3, f"only {left:,} of {len(test):,} test records are not public")


@part_of(
    WORKLOAD,
    "logits for any batch",
    f"the model gives a row of logits for each record of batches of {', '.join(map(str, BATCHES))}",
    "avoid squeeze() and views with a fixed batch size in the model",
)
def takes_any_batch(subject: CheckedWorkload) -> None:
    """Batches of several sizes, the empty one among them."""
    pool, classes = subject.usable("pool"), subject.member.classes
    model = subject.member.model(0).eval()
    for count in BATCHES:
        with torch.no_grad():
            found = tuple(model(pool.take(torch.arange(count)).x).shape)
        demand(found == (count, classes), f"{count} records give an output of shape {found}")


@part_of(
    WORKLOAD,
    "the seed decides the model",
    "model(seed) gives the same bits for the same seed and others for another, and leaves torch's global "
    "random state alone: models of a cell differ by their seed only",
    "build the model inside `with seeded(seed):` from privbench",
)
def seed_decides(subject: CheckedWorkload) -> None:
    """Same seed, same weights; another seed, others; no global randomness."""
    before = torch.get_rng_state()
    one, same, other = (subject.member.model(seed).state_dict().values() for seed in (1, 1, 2))
    untouched = torch.equal(before, torch.get_rng_state())
    torch.set_rng_state(before)
    demand(all(map(torch.equal, one, same)), "two models of seed 1 differ")
    demand(not all(map(torch.equal, one, other)), "models of seeds 1 and 2 are the same")
    demand(untouched, "model(seed) changes torch's global random state")


@part_of(
    WORKLOAD,
    "its recipe fits every method",
    "the recipe names known methods, and parameters that they have",
    "correct recipes/<name>.toml; `privbench show method NAME` lists the parameters",
)
def recipe_fits(subject: CheckedWorkload) -> str | None:
    """The recipe is valid, with a setting or more."""
    book = recipe(subject.member)
    strange = book.method.keys() - methods.family.members.keys()
    demand(not strange, f"unknown methods: {', '.join(sorted(strange))}")
    for method, member in methods.family.members.items():
        fields = member.Params.model_fields
        wrong = book.settings(method, fields).keys() - fields.keys()
        demand(not wrong, f"{method} has no {', '.join(sorted(wrong))}")
    given = book.default or book.method or book.setting
    return None if given else "there is no recipe: methods run with their own defaults"


@part_of(
    WORKLOAD,
    "per-example methods",
    "a model without layers that mix the examples of a batch can be trained by every private method",
    "use GroupNorm instead of batch normalisation",
)
def suits_per_example_methods(subject: CheckedWorkload) -> str | None:
    """Warn about layers that mix examples."""
    from methods.gradients.layers import refuse_mixing_layers

    refusing = [
        name
        for name, each in sorted(methods.family.members.items())
        if isinstance(each, PerExample) and each.per_example
    ]
    try:
        refuse_mixing_layers(subject.member.model(0))
    except SpecError as error:
        return f"{'; '.join(error.problems)}. These methods refuse it: {', '.join(refusing)}"
    return None


def workload_checks(name: str) -> tuple[list[Check[CheckedWorkload]], CheckedWorkload]:
    """The contract, and the workload as its subject; UnknownName if there is none."""
    workloads.family.get(name)
    return WORKLOAD, CheckedWorkload(name)

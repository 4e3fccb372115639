"""Files that users write: sweeps, profiles, votes and published tables; and equivalent options."""

from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from harness.accounting.price_inputs import find_votes, parse_rows
from harness.backends.docker.containers import Container
from harness.backends.profile import read_as
from harness.backends.slurm.profile import Profile
from harness.papers.published_tables import read_paper
from harness.plan.given_names import by_method
from harness.plan.plan import make_plan
from harness.plan.sweep_file import find_sweep, from_options, read_sweep
from tests.campaigns.fuzz.ground import Ground
from tests.campaigns.fuzz.inputs import altered, files, names, nested, numbers, values
from tests.campaigns.fuzz.target import Target

ROOT = Path(__file__).resolve().parents[3]

SWEEP = b"""
name = "fuzz"
models = 3
seed = 1
attacks = ["loss", { attack = "lira", mode = "offline" }]
[[grid]]
workload = ["digits-linear", "tabular-synthetic"]
method = "sgd"
steps = [5, 10]
zip = { learning_rate = [0.1, 0.2], batch_size = [4, 8] }
exclude = [{ steps = 5 }]
[[grid]]
workload = "digits-linear"
method = "dp-sgd"
noise_multiplier = 1.0
canary = "mislabelled"
canaries = 10
"""
TOML_TRAPS = (
    b"a = " + nested("[", "]").encode(),
    b"name = " + b"1" * 5_000,
    b"models = 0x" + b"f" * 5_000,
    b"[" * 5_000,
    b"name = 1979-05-27T07:32:00Z\n" + SWEEP.split(b"\n", 2)[2],
    b"models = 1000000000000\n[[grid]]\nworkload = 'digits-linear'\nmethod = 'sgd'\n",
    b"[[grid]]\nworkload = 'digits-linear'\nmethod = 'sgd'\n"
    + b"".join(b"p%d = [%s]\n" % (i, b",".join([b"1"] * 50)) for i in range(12)),
)
"""Partly well-formed, and too deep, too long or too many for a careless parser."""

PLAN: dict[str, Any] = {
    "name": "fuzz",
    "models": 3,
    "seed": 0,
    "attacks": ["loss", {"attack": "reference", "shadows": "sgd"}, {"attack": "lira", "mode": "online"}],
    "grid": [
        {"workload": "digits-linear", "method": ["sgd", "pd-sgd"], "steps": 5, "n_train": 100},
        {"workload": "digits-mlp", "method": "dp-sgd", "noise_multiplier": [1, 2]},
        {"workload": "digits-linear", "method": "sgd", "zip": {"steps": [1, 2]}, "exclude": [{"steps": 1}]},
        {"workload": "digits-linear", "method": "sgd", "canary": "mislabelled", "canaries": 5},
    ],
}
PROFILE = b"""
partition = "gpu"
gpus = 1
gpu_type = "a100"
cpus = 4
memory = "16G"
time = "1-12:00:00"
setup = ["module load cuda"]
pack = "auto"
signal_seconds = 60
[environment]
NAME = "text"
[options]
nice = 5
"""
CONTAINER = b"""
image = "privbench:1"
memory = "4G"
cpus = 1.5
gpu = "none"
read_only = ["/data"]
[environment]
NAME = "text"
"""
VOTES = (
    b"200,50,0\n3,2,1\n",
    b"[[200, 50], [1, 2]]",
    b'[[1, "2"], [Infinity, 3]]',
    nested("[", "]").encode(),
)
PAPER = min((file.read_bytes() for file in (ROOT / "harness" / "papers").glob("*.toml")), key=len)


def sweep_file(ground: Ground, content: bytes) -> str:
    """`privbench plan FILE`."""
    file = ground.lay("sweep.toml", content)
    return ground.survives(lambda: make_plan(*read_sweep(*find_sweep(str(file))), ground.store))


def sweep_content(ground: Ground, content: Any) -> str:
    """The same for a file of valid TOML."""
    table = content if isinstance(content, dict) else {"grid": content}
    return ground.survives(lambda: make_plan(*read_sweep(table, "fuzz"), ground.store))


def sweep_options(ground: Ground, options: tuple[Any, ...]) -> str:
    """`privbench plan --workload ... --method ...`."""
    return ground.survives(
        lambda: make_plan(*read_sweep(by_method(from_options(*options)), "ad-hoc"), ground.store)
    )


def profile_file(ground: Ground, content: bytes) -> str:
    """`--profile FILE` of both backends with a profile."""
    file = ground.lay("profile.toml", content)
    ends = [
        ground.survives(lambda: read_as(Profile, file)),
        ground.survives(lambda: read_as(Container, file)),
    ]
    return "done" if "done" in ends else "refused"


def votes_file(ground: Ground, given: tuple[str, bytes]) -> str:
    """`privbench price votes --votes FILE`."""
    file = ground.lay(f"votes.{given[0]}", given[1])
    return ground.survives(lambda: find_votes(file, None, None, None))


def price_words(ground: Ground, given: tuple[str, Any]) -> str:
    """Options of `privbench price` that privbench parses itself."""
    text, number = given
    count = number if isinstance(number, int) else None
    classes = None if count is None else min(count, 10_000)
    ends = [
        ground.survives(lambda: parse_rows(text)),
        ground.survives(lambda: find_votes(None, text, classes, None)),
    ]
    return "done" if "done" in ends else "refused"


def paper_file(ground: Ground, content: bytes) -> str:
    """A file of harness/papers/."""
    return ground.survives(lambda: read_paper(content.decode("utf-8", "replace"), "paper.toml"))


lists = st.lists(names | numbers.map(str), min_size=1, max_size=3).map(",".join)
known = st.sampled_from(("digits-linear", "digits-mlp", "sgd", "dp-sgd", "loss", "lira,loss", "steps=1,2"))
settings = st.lists(st.tuples(names | known, lists).map("=".join) | names | known, max_size=3)
options = st.tuples(
    st.none() | names | known,
    st.none() | names | known,
    st.none() | lists,
    st.none() | st.integers(-1, 5),
    st.none() | names | known,
    st.none() | settings,
    st.none() | st.integers(-1, 200),
)

endings = st.sampled_from(("csv", "json"))
GOOD_OPTIONS = ("digits-linear", "sgd,dp-sgd", "8", 2, "loss", ["steps=5,10"], 300)

TARGETS = (
    Target("sweep file", files(SWEEP) | st.sampled_from(TOML_TRAPS), sweep_file, SWEEP),
    Target("sweep content", altered(PLAN) | altered(PLAN) | values, sweep_content, PLAN),
    Target("sweep options", options, sweep_options, GOOD_OPTIONS),
    Target("profile", files(PROFILE, CONTAINER) | st.sampled_from(TOML_TRAPS), profile_file, PROFILE),
    Target("votes", st.tuples(endings, files(*VOTES)), votes_file, ("csv", VOTES[0])),
    Target("price words", st.tuples(lists | names, numbers), price_words, ("12x75,24x300", 1)),
    Target(
        "published table",
        files(PAPER) | st.sampled_from(TOML_TRAPS),
        paper_file,
        PAPER,
    ),
)

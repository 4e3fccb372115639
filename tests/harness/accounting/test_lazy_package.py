"""dp-accounting whose names load on first use: the same objects, and only what is used."""

import subprocess
import sys

import pytest

from harness.accounting.lazy_package import defer, reexports

DEFER = "from harness.accounting.lazy_package import defer; import sys; assert defer(); "


def run(program: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", DEFER + program], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_events_load_no_accountant() -> None:
    program = "from dp_accounting import DpEvent, GaussianDpEvent, NeighboringRelation; "
    assert run(program + "print([each for each in sys.modules if each.startswith('scipy')])") == "[]"


@pytest.mark.slow
def test_every_name_is_that_of_its_module() -> None:
    """As a plain import gives them, modules included."""
    program = (
        "import ast, importlib, pathlib, dp_accounting as lazy; "
        "from harness.accounting.lazy_package import reexports; "
        "homes = reexports(pathlib.Path(lazy.__file__).read_text(), 'dp_accounting'); "
        "got = {name: getattr(lazy, name) for name in homes}; "
        "del sys.modules['dp_accounting']; import dp_accounting as plain; "
        "assert plain is not lazy; "
        "print(len(homes) > 20, [name for name in homes if getattr(plain, name) is not got[name]])"
    )
    assert run(program) == "True []"


@pytest.mark.slow
def test_a_price_is_the_same() -> None:
    price = (
        "from harness.accounting import price; import dp_accounting as d; "
        "event = d.SelfComposedDpEvent(d.PoissonSampledDpEvent(0.01, d.GaussianDpEvent(1.1)), 500); "
        "print(repr(price(event, 1e-5)))"
    )
    plain = subprocess.run([sys.executable, "-c", price], capture_output=True, text=True, check=True).stdout
    assert run(price) == plain.strip()


def test_a_module_that_is_not_reexported_is_found_and_another_name_is_not() -> None:
    program = (
        "import dp_accounting.dp_event; from dp_accounting import dp_event_builder; "
        "print(hasattr(dp_accounting, 'nothing'), dp_accounting.dp_event_builder is dp_event_builder)"
    )
    assert run(program) == "False True"


def test_a_loaded_package_stays_as_it_is() -> None:
    import pytest as loaded

    assert defer("pytest") is False
    assert sys.modules["pytest"] is loaded
    assert defer("no_such_package") is False


@pytest.mark.parametrize(
    "source",
    [
        "x = 1",
        "import p.a",
        "from . import a",
        "from os import path",
        "from p.a import *",
        "from p import a; a()",
    ],
)
def test_an_init_that_does_more_is_left_alone(source: str) -> None:
    assert reexports(source, "p") is None


def test_reexports_name_their_homes() -> None:
    source = '"""Text."""\nfrom p import a\nfrom p.b import c as d\n'
    assert reexports(source, "p") == {"a": ("p", "a"), "d": ("p.b", "c")}

"""All campaigns: `python -m tests.campaigns.chaos` (`make chaos`); `--short` is part of `make test-slow`.

Exit code 0 if every campaign found nothing broken.
"""

import argparse
import time
from collections.abc import Callable

from tests.campaigns.chaos import crowd, damage, disk, endurance, injected, kills, order, scale
from tests.campaigns.chaos.campaign import say

Campaign = Callable[[list[str]], int]

CAMPAIGNS: dict[str, tuple[Campaign, list[str], list[str] | None]] = {
    "kills": (kills.main, ["--kills", "500"], ["--kills", "6", "--real", "0"]),
    "damage": (damage.main, ["--harms", "12"], ["--harms", "1", "--every", "7"]),
    "disk": (disk.main, ["--rounds", "12"], ["--rounds", "1", "--commands", "0"]),
    "crowd": (crowd.main, ["--rounds", "6", "--real", "1"], ["--rounds", "1", "--turns", "3", "--real", "0"]),
    "order": (order.main, ["--rounds", "12"], ["--rounds", "1"]),
    "injected": (injected.main, [], []),
    "endurance": (endurance.main, ["--steps", "10000"], None),
    "scale": (scale.main, ["--tasks", "100000"], None),
}
"""Module, arguments of the long and of the short form; campaigns of time and memory have no short form."""


def main() -> int:
    """Run the campaigns; return the number of those that found something broken."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--short", action="store_true", help="a minute instead of an hour")
    parser.add_argument("--only", default="", help=f"names, separated by commas, of {', '.join(CAMPAIGNS)}")
    asked = parser.parse_args()
    names = asked.only.split(",") if asked.only else list(CAMPAIGNS)
    begin, failed = time.monotonic(), []
    for name in names:
        run, long, short = CAMPAIGNS[name]
        words = short if asked.short else long
        if words is None:
            continue
        say(f"==> {name} {' '.join(words)}")
        failed += [name] if run(words) else []
    verdict = f"broken: {', '.join(failed)}" if failed else "nothing broken"
    say(f"chaos: {verdict}, {time.monotonic() - begin:.0f} s")
    return len(failed)


if __name__ == "__main__":
    raise SystemExit(main())

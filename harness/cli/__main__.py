"""`python -m harness.cli` and `privbench`: start the command line."""

import gc

COLLECT_AFTER = 50_000
"""New objects between two collections: at 700, Python's default, they take a sixth of a short command."""


def start() -> None:
    """Import the command line and run it; what imports make is never garbage."""
    gc.set_threshold(COLLECT_AFTER)
    from harness.cli.app import main

    gc.freeze()
    main()


if __name__ == "__main__":
    start()

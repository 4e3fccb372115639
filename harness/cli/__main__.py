"""`python -m harness.cli`: the command line without its script."""

from harness.cli.app import main

main()

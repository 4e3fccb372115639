"""`privbench audit`: what a given model leaks. command.py parses and delegates, printed.py prints the "
"result."""

from harness.cli.audit.command import audit

__all__ = ["audit"]

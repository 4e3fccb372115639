"""The command line: one module per group of commands; `app` puts them together."""

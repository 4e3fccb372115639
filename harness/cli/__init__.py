"""The command line: one module per group of commands; `app` combines them."""

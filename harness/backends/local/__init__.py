"""The machine itself: a queue in the store, a supervisor, worker processes."""

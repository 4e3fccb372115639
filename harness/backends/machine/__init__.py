"""Jobs on this machine: a queue in the store, a supervisor, worker processes; for backends to build on."""

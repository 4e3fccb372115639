"""Jobs on this machine: a queue in the store, a supervisor and worker processes, shared by backends."""

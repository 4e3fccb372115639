"""A workload, a method and an attack for privbench."""

"""What trainings share: optimizers, samplers, plain descent, ensembles, averages."""

"""What runs on a node: the loop of a job, and the training, attack or timing that a task asks for."""

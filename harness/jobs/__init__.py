"""What runs on a node: the job loop, and the training, attack or bench of a task."""

"""What a device must do before its numbers are believed: the twelve checks of `privbench doctor --gpu`.

They run in a process that is started as a worker is. Written for GPUs without one: proved on the CPU and on a
simulated second device (docs/gpu.md).
"""

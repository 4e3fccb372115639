"""Self-test of a device: the twelve checks of `privbench doctor --gpu`.

They run in a process that is started like a worker. Written without access to a GPU: tested on the CPU and on
a simulated second device (docs/gpu.md).
"""

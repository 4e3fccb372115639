"""Clipped sums by our own C code, compiled on this machine: engine 'native', for CPUs.

kernels.c          the code: an example's gradient lives in the cache and is never stored
library.py         compiles it, once for every kind of machine
convolved.py       convolutions
chained.py         chains of linear layers
native_engine.py   the engine: book-keeping with this code where it is quicker
"""

from methods.gradients.native.native_engine import NativeEngine as NativeEngine

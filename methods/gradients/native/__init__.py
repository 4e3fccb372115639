"""Clipped sums by our own C code, compiled on this machine: engine 'native', for CPUs.

kernels.c          products: an example's gradient lives in the cache and is never stored
images.c           passes over images
library.py         compiles both, once for every kind of machine
convolved.py       convolutions, also standardised ones
normalised.py      group normalisations of images
pooled.py          max pooling, in the passes of the engine
chained.py         chains of linear layers
native_engine.py   the engine: book-keeping with this code where it is quicker
"""

from methods.gradients.native.native_engine import NativeEngine as NativeEngine

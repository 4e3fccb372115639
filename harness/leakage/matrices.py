"""Array types of scores, masks and counts."""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
"""An array of double precision: scores, and whatever is computed from them."""
Bools = NDArray[np.bool_]
Ints = NDArray[np.int64]

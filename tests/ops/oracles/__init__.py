"""Oracles and samples of operators that open to others, by subject as in the catalogue: NumPy, loops and sums written
out, nothing of weft's."""

from tests.ops.oracles import (  # noqa: F401
    creation,
    draws,
    gammas,
    indexing,
    layers,
    linear_algebra,
    losses,
    pointwise,
    reductions,
    shapes,
    signal,
    windows,
)
from tests.ops.oracles.table import OF_BITS, OF_FLOATS, ORACLES, SAMPLES  # noqa: F401

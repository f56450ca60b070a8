"""Floor 4: the operators, one entry each, by subject. A mathematician can review this package alone.

    pointwise   element by element: arithmetic, math functions, comparison, choice, casts
    special     functions beyond the elementary ones
    random      counter-based random numbers
    creation    tensors from nothing
    shapes      views, and what copies elements to other places
    reductions  sums, extrema, statistics, scans, sorting, counting
    indexing    elements by position and by mask
    linalg      products of matrices, norms, factorizations, solutions
    signal      Fourier transforms
    nn          networks
    language    what scripted programs do with numbers, texts, containers and objects

Beside them: families.py (short ways to write an entry), samples.py (inputs for the generated tests), widening.py
(half precisions) and internal.py (operators that rules need and users do not).

Importing the package defines every entry. Rules call operators through `weft.ops.packet.aten`.
"""

from weft.catalogue import (  # noqa: F401
    creation,
    indexing,
    internal,
    language,
    linalg,
    nn,
    pointwise,
    random,
    reductions,
    shapes,
    signal,
    special,
)

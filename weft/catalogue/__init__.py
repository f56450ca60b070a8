"""Floor 4: the operators, one entry each, by subject. A mathematician can review this package alone.

pointwise.py   arithmetic, math functions, comparison, logic          reductions.py  sums, extrema, statistics
views.py       views and their scatters                               shaping.py     cat, stack, repeat, pad, flip, ...
indexing.py    gather, scatter, index, masked operators               linear.py      the matmul family and linear algebra
factories.py   tensors from nothing                                   random.py      counter-based random numbers
activations.py, losses.py, norms.py, attention.py                     what neural networks are made of
internal.py    operators that rules need and users do not

Importing the package defines every entry. Rules call operators through `weft.ops.packet.aten`.
"""

from weft.catalogue import (  # noqa: F401
    activations,
    attention,
    casts,
    choice,
    comparison,
    complex,
    complex_views,
    convolution,
    einsum,
    extrema,
    factories,
    fft,
    functional,
    grids,
    indexing,
    checked,
    internal,
    interpolation,
    linalg,
    linear,
    losses,
    math,
    norms,
    pointwise,
    pooling,
    random,
    reductions,
    running_norms,
    scans,
    scattering,
    shaping,
    slicing,
    sorting,
    special_functions,
    statistics,
    vector_norms,
    views,
)

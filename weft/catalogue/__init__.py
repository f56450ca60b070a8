"""Floor 4: the operators, one entry each, by subject. A mathematician can review this package alone.

pointwise.py   arithmetic, math functions, comparison, logic          reductions.py  sums, extrema, statistics
views.py, singletons.py, slicing.py, windows.py, complex_views.py     views; view_twins.py derives their copies and scatters
joining.py, shaping.py, grids.py    cat, stack, repeat, pad, flip     indexing.py, index_writes.py, scattering.py, masks.py   gather, index_put, scatter, masks
linear.py, einsum.py, linalg.py, fft.py    products of matrices, linear algebra, Fourier transforms; singular.py, factorizations.py,
pseudoinverse.py, matrix_functions.py      svd, qr, eigh, det; pinv, lstsq; powers and exponentials of matrices
counting.py, quantiles.py, covariance.py, distances.py    statistics that are no reductions
factories.py, spaces.py   tensors from nothing                                   random.py, sampling.py, distributions.py      counter-based random numbers
activations.py, shrinking.py, losses.py, norms.py, attention.py, embedding.py, convolution.py, pooling.py, interpolation.py    networks
running_norms.py, functional.py, bags.py, ctc.py, grid_sampling.py, unpooling.py    nn.functional's own signatures (namespace nn::)
internal.py    operators that rules need and users do not

Importing the package defines every entry. Rules call operators through `weft.ops.packet.aten`.
"""

from weft.catalogue import (  # noqa: F401
    activations,
    attention,
    bags,
    bessel,
    casts,
    checked,
    choice,
    comparison,
    complex,
    complex_views,
    convolution,
    counting,
    covariance,
    ctc,
    differences,
    distances,
    distributions,
    eigen,
    einsum,
    embedding,
    extrema,
    factories,
    factorizations,
    fft,
    functional,
    gamma,
    grid_sampling,
    grids,
    index_writes,
    indexing,
    internal,
    interpolation,
    joining,
    linalg,
    linear,
    losses,
    lu,
    masks,
    math,
    matrix_equations,
    matrix_functions,
    normal_distribution,
    norms,
    number_parts,
    pointwise,
    pooling,
    pseudoinverse,
    quantiles,
    random,
    reductions,
    running_norms,
    sampling,
    scans,
    scattering,
    selecting,
    shaping,
    short_time,
    shrinking,
    singletons,
    singular,
    slicing,
    sorting,
    spaces,
    special_functions,
    spectra,
    splitting,
    statistics,
    unpooling,
    vector_norms,
    views,
    windows,
)

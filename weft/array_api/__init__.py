"""Floor 12: the Array API standard (2024.12), as a namespace of its own: its names, its arguments, its promotion.

`weft` itself keeps PyTorch's meanings where the two differ (a tensor of no dims widens no other, `sort` gives two
results, `equal` one bool); here they are the standard's. The functions are written with weft's operators, so they
record history, compile and trace as these do. `x.__array_namespace__()` gives this module.
Source: data-apis.org/array-api.
"""

from __future__ import annotations

import math

from weft.array_api import fft as fft
from weft.array_api import linalg as linalg
from weft.array_api.creation import (
    arange,
    asarray,
    empty,
    empty_like,
    eye,
    from_dlpack,
    full,
    full_like,
    linspace,
    meshgrid,
    ones,
    ones_like,
    tril,
    triu,
    zeros,
    zeros_like,
)
from weft.array_api.elementwise import FUNCTIONS as _FUNCTIONS
from weft.array_api.elementwise import clip, expm1, floor_divide, imag, real, sign, tanh
from weft.array_api.linalg import matmul, tensordot
from weft.array_api.promotion import can_cast, result_type
from weft.array_api.reductions import (
    all,
    any,
    argmax,
    argmin,
    argsort,
    count_nonzero,
    diff,
    max,
    mean,
    min,
    nonzero,
    prod,
    searchsorted,
    sort,
    std,
    sum,
    var,
    where,
)
from weft.array_api.shapes import (
    broadcast_to,
    concat,
    flip,
    moveaxis,
    reshape,
    roll,
    squeeze,
    stack,
    take,
    tile,
)
from weft.layers.array_api import (
    __array_namespace_info__,
    astype,
    broadcast_arrays,
    cumulative_prod,
    cumulative_sum,
    expand_dims,
    isdtype,
    matrix_transpose,
    permute_dims,
    repeat,
    take_along_axis,
    unique_all,
    unique_counts,
    unique_inverse,
    unique_values,
    unstack,
    vecdot,
)
from weft.types.dtype import (
    bool_,
    complex64,
    complex128,
    float32,
    float64,
    int8,
    int16,
    int32,
    int64,
    uint8,
)
from weft.types.limits import finfo, iinfo

__array_api_version__ = "2024.12"
bool = bool_
e, inf, nan, newaxis, pi = math.e, math.inf, math.nan, None, math.pi
globals().update(_FUNCTIONS)

__all__ = [
    "__array_api_version__", "__array_namespace_info__", "all", "any", "arange", "argmax", "argmin", "argsort",
    "asarray", "astype", "bool", "broadcast_arrays", "broadcast_to", "can_cast", "clip", "complex64", "complex128",
    "concat", "count_nonzero", "cumulative_prod", "cumulative_sum", "diff", "e", "empty", "empty_like", "expand_dims",
    "expm1", "eye", "fft", "finfo", "flip", "float32", "float64", "floor_divide", "from_dlpack", "full", "full_like",
    "iinfo", "imag", "inf", "int8", "int16", "int32", "int64", "isdtype", "linalg", "linspace", "matmul",
    "matrix_transpose", "max", "mean", "meshgrid", "min", "moveaxis", "nan", "newaxis", "nonzero", "ones", "ones_like",
    "permute_dims", "pi", "prod", "real", "repeat", "reshape", "result_type", "roll", "searchsorted", "sign", "sort",
    "squeeze", "stack", "std", "sum", "take", "take_along_axis", "tanh", "tensordot", "tile", "tril", "triu", "uint8",
    "unique_all", "unique_counts", "unique_inverse", "unique_values", "unstack", "var", "vecdot", "where", "zeros",
    "zeros_like", *_FUNCTIONS,
]

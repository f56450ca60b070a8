"""Convolution. Three bilinear operators close under differentiation:

    y  = correlate(x, w)        gx = spread(g, w)        gw = match(g, x)

(the windows of x times w; its adjoint for x; its adjoint for w). A transposed convolution is `spread`.
Each one's gradients are the other two.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from weft.catalogue.linalg.matmul import conjugate
from weft.catalogue.samples import F, case, draw
from weft.catalogue.shapes.slicing import along
from weft.ops.batching import Flags, everywhere
from weft.ops.op import Op, define
from weft.ops.packet import aten
from weft.ops.route import call
from weft.ops.rules import dims_text
from weft.ops.tangents import product
from weft.support.errors import DTypeError, ShapeError
from weft.types import dims as dm
from weft.types import dtype as dt
from weft.types import shape_env
from weft.types.dims import Dim
from weft.types.tensor_type import TensorType, tensor_type

Array = Any
Ints = Sequence[int]

# ---- kernels over x [n, c, *spatial], w [o, c / groups, *kernel], y [n, o, *out]


def _windows(x: Array, kernel: Ints, stride: Ints, padding: Ints, dilation: Ints) -> Array:
    """All windows of x: [n, c, *out, *kernel], a strided view of the padded array."""
    if any(padding):
        x = np.pad(x, [(0, 0), (0, 0), *[(p, p) for p in padding]])
    axes = tuple(range(2, x.ndim))
    spans = tuple((k - 1) * d + 1 for k, d in zip(kernel, dilation, strict=True))
    shown = np.lib.stride_tricks.sliding_window_view(x, spans, axes)
    steps = [slice(None, None, s) for s in stride] + [slice(None, None, d) for d in dilation]
    return shown[along(2, *steps)]


def _columns(x: Array, kernel: Ints, out: Ints, stride: Ints, padding: Ints, dilation: Ints, groups: int) -> Array:
    """The first `out` windows of each dim as matrices: [n, groups, (c / groups) * kernel, out]."""
    n, c = x.shape[:2]
    rank = len(kernel)
    shown = _windows(x, kernel, stride, padding, dilation)[along(2, *(slice(0, m) for m in out))]
    order = (0, 1, *range(2 + rank, 2 + 2 * rank), *range(2, 2 + rank))
    return shown.transpose(order).reshape(n, groups, c // groups * int(np.prod(kernel)), int(np.prod(out)))


def _wide(*arrays: Array) -> list[Array]:
    dtype = dt.compute_dtype(dt.from_numpy(arrays[0].dtype)).numpy
    return [a.astype(dtype, copy=False) for a in arrays]


def _correlate(x: Array, w: Array, size: Ints, stride: Ints, padding: Ints, dilation: Ints, groups: int) -> Array:
    kind = x.dtype
    x, w = _wide(x, w)
    columns = _columns(x, w.shape[2:], size, stride, padding, dilation, groups)
    y = np.matmul(w.reshape(groups, w.shape[0] // groups, -1), columns)
    return y.reshape(x.shape[0], w.shape[0], *size).astype(kind, copy=False)


def _spread(g: Array, w: Array, size: Ints, stride: Ints, padding: Ints, dilation: Ints, groups: int) -> Array:
    kind = g.dtype
    g, w = _wide(g, w)
    n, o = g.shape[:2]
    kernel, out = w.shape[2:], g.shape[2:]
    c = w.shape[1] * groups
    rows = w.reshape(groups, o // groups, -1)
    columns = np.matmul(rows.swapaxes(1, 2), g.reshape(n, groups, o // groups, int(np.prod(out))))
    columns = columns.reshape(n, c, *kernel, *out)
    x = np.zeros((n, c, *(d + 2 * p for d, p in zip(size, padding, strict=True))), columns.dtype)
    for place in np.ndindex(*kernel):
        target = tuple(
            slice(k * d, k * d + (m - 1) * s + 1, s) for k, d, m, s in zip(place, dilation, out, stride, strict=True)
        )
        x[along(2, *target)] += columns[along(2, *place)]
    inner = tuple(slice(p, p + d) for p, d in zip(padding, size, strict=True))
    return np.ascontiguousarray(x[along(2, *inner)]).astype(kind, copy=False)


def _match(g: Array, x: Array, kernel: Ints, stride: Ints, padding: Ints, dilation: Ints, groups: int) -> Array:
    kind = g.dtype
    g, x = _wide(g, x)
    n, o = g.shape[:2]
    columns = _columns(x, kernel, g.shape[2:], stride, padding, dilation, groups)
    w = np.matmul(g.reshape(n, groups, o // groups, int(np.prod(g.shape[2:]))), columns.swapaxes(2, 3)).sum(0)
    return w.reshape(o, x.shape[1] // groups, *kernel).astype(kind, copy=False)


# ---- types


def out_size(size: Dim, kernel: Dim, stride: int, padding: Dim, dilation: int) -> Dim:
    reach = dilation * (kernel - 1) + 1
    if shape_env.less(size + 2 * padding, reach):
        raise ShapeError(
            f"Calculated padded input size per channel: ({size + 2 * padding}). Kernel size: ({reach}). "
            "Kernel size can't be greater than actual input size"
        )
    return dm.floordiv(size + 2 * padding - dilation * (kernel - 1) - 1, stride) + 1


def _same_dtype(a: TensorType, b: TensorType) -> dt.DType | None:
    if a.dtype is not None and b.dtype is not None and a.dtype is not b.dtype:
        raise DTypeError(f"Input type ({a.dtype}) and weight type ({b.dtype}) should be the same")
    return a.dtype


def _refuse_empty(w: TensorType, groups: int) -> None:
    for kernel in w.shape[2:]:
        shape_env.refuse_less(kernel, 1, lambda: ShapeError(
            f"kernel size should be greater than zero, but got weight of size {dims_text(w.shape)}"
        ))
    shape_env.refuse_less(w.shape[0], groups, lambda: ShapeError(
        f"Given groups={groups}, expected weight to be at least {groups} at dimension 0, "
        f"but got weight of size {dims_text(w.shape)} instead"
    ))


def correlate_type(x: TensorType, w: TensorType, size: Sequence[Dim], *rest: Any) -> TensorType:
    dtype, groups = _same_dtype(x, w), rest[-1]
    if not (x.is_complete and w.is_complete):
        return tensor_type(dtype, None)
    if not shape_env.equal(x.shape[1], w.shape[1] * groups):
        raise ShapeError(
            f"Given groups={groups}, weight of size {dims_text(w.shape)}, expected input{dims_text(x.shape)} to have "
            f"{w.shape[1] * groups} channels, but got {x.shape[1]} channels instead"
        )
    _refuse_empty(w, groups)
    if not shape_env.equal(dm.mod(w.shape[0], groups), 0):
        raise ShapeError(
            f"Given groups={groups}, expected weight to be divisible by {groups} at dimension 0, "
            f"but got weight of size {dims_text(w.shape)} instead"
        )
    return tensor_type(dtype, (x.shape[0], w.shape[0], *size), x.device)


def spread_type(g: TensorType, w: TensorType, size: Sequence[Dim], *rest: Any) -> TensorType:
    dtype, groups = _same_dtype(g, w), rest[-1]
    if not (g.is_complete and w.is_complete):
        return tensor_type(dtype, None)
    if not shape_env.equal(g.shape[1], w.shape[0]):
        raise ShapeError(
            f"Given transposed=1, weight of size {dims_text(w.shape)}, expected input{dims_text(g.shape)} to have "
            f"{w.shape[0]} channels, but got {g.shape[1]} channels instead"
        )
    _refuse_empty(w, groups)
    for d in g.shape[2:]:
        shape_env.refuse_less(d, 1, lambda: ShapeError(
            f"Only zero batch or zero channel inputs are supported, but got input shape: {dims_text(g.shape)}"
        ))
    if not shape_env.equal(dm.mod(w.shape[0], groups), 0):
        raise ShapeError(
            f"Given transposed=1, groups={groups}, expected weight to be divisible by {groups} at dimension 0, "
            f"but got weight of size {dims_text(w.shape)} instead"
        )
    return tensor_type(dtype, (g.shape[0], w.shape[1] * groups, *size), g.device)


def _match_type(g: TensorType, x: TensorType, kernel: Sequence[Dim], *rest: Any) -> TensorType:
    if not (g.is_complete and x.is_complete):
        return tensor_type(g.dtype, None)
    return tensor_type(g.dtype, (g.shape[1], dm.floordiv(x.shape[1], rest[-1]), *kernel), g.device)


HOW = "int[] stride, int[] padding, int[] dilation, int groups"

# their gradients, which those of convolutions with a bias are too
OF_CONVOLVE = {
    "self": lambda g, self_dims, weight, stride, padding, dilation, groups: aten._convolve_input(
        g, conjugate(weight), self_dims[2:], stride, padding, dilation, groups
    ),
    "weight": lambda g, self, weight_dims, stride, padding, dilation, groups: aten._convolve_weight(
        g, conjugate(self), weight_dims[2:], stride, padding, dilation, groups
    ),
}
OF_CONVOLVE_INPUT = {
    "self": lambda g, self_dims, weight, stride, padding, dilation, groups: aten._convolve(
        g, conjugate(weight), self_dims[2:], stride, padding, dilation, groups
    ),
    "weight": lambda g, self, weight_dims, stride, padding, dilation, groups: aten._convolve_weight(
        conjugate(self), g, weight_dims[2:], stride, padding, dilation, groups
    ),
}

# ---- batches: examples become samples where the weight is shared, and groups where it is not


def _to_channels(value: Any) -> Any:
    """[batch, n, c, ...] -> [n, batch * c, ...]."""
    return aten.flatten(aten.movedim(value, 0, 1), 1, 2)


def _windows_batch(op: Op, size: Dim, flags: Flags, x: Any, weight: Any, *how: Any) -> Any:
    """_convolve and _convolve_input: x, or its cotangent, and a weight."""
    if not flags[1]:
        out = call(op, (aten.flatten(x, 0, 1), weight, *how))
        return aten.reshape(out, (size, x.dims[1], *out.dims[1:]))
    x, weight = everywhere(size, flags[:2], (x, weight))
    out = call(op, (_to_channels(x), aten.flatten(weight, 0, 1), *how[:-1], how[-1] * size))
    n, channels = out.dims[0], out.dims[1] // size
    return aten.movedim(aten.reshape(out, (n, size, channels, *out.dims[2:])), 1, 0)


def _weight_batch(op: Op, size: Dim, flags: Flags, grad: Any, x: Any, *how: Any) -> Any:
    """The gradient of each example's own weight: the examples side by side, as groups."""
    grad, x = everywhere(size, flags[:2], (grad, x))
    out = call(op, (_to_channels(grad), _to_channels(x), *how[:-1], how[-1] * size))
    return aten.reshape(out, (size, out.dims[0] // size, *out.dims[1:]))


define(
    f"aten::_convolve(Tensor self, Tensor weight, int[] size, {HOW}) -> Tensor",
    "Each window of self [n, c, ...] times weight [o, c / groups, ...], `size` windows along each dim: [n, o, *size].",
    type=correlate_type,
    kernel=_correlate,
    vjp=OF_CONVOLVE,
    batch=_windows_batch, jvp=product,
    public=(),
    samples=draw(
        case(F(2, 2, 5), F(3, 2, 3), (5,), (1,), (1,), (1,), 1),
        case(F(1, 4, 5, 4), F(2, 2, 2, 3), (3, 2), (2, 1), (1, 0), (1, 1), 2),
    ),
)
define(
    f"aten::_convolve_input(Tensor self, Tensor weight, int[] size, {HOW}) -> Tensor",
    "The adjoint of _convolve for its input (of these spatial sizes): each element of self spreads weight "
    "over its window.",
    type=spread_type,
    kernel=_spread,
    vjp=OF_CONVOLVE_INPUT,
    batch=_windows_batch, jvp=product,
    public=(),
    samples=draw(
        case(F(2, 3, 5), F(3, 2, 3), (5,), (1,), (1,), (1,), 1),
        case(F(1, 2, 2, 2), F(2, 2, 2, 2), (4, 4), (2, 2), (0, 0), (1, 1), 2),
    ),
)
define(
    f"aten::_convolve_weight(Tensor grad, Tensor self, int[] size, {HOW}) -> Tensor",
    "The adjoint of _convolve for its weight (of these kernel sizes): windows of self times grad, "
    "summed over samples and places.",
    type=_match_type,
    kernel=_match,
    vjp={
        "grad": lambda g, self, grad_dims, stride, padding, dilation, groups: aten._convolve(
            conjugate(self), g, grad_dims[2:], stride, padding, dilation, groups
        ),
        "self": lambda g, grad, self_dims, stride, padding, dilation, groups: aten._convolve_input(
            conjugate(grad), g, self_dims[2:], stride, padding, dilation, groups
        ),
    },
    batch=_weight_batch, jvp=product,
    public=(),
    samples=draw(case(F(2, 3, 5), F(2, 2, 5), (3,), (1,), (1,), (1,), 1)),
)

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
from weft.ops.op import define
from weft.ops.packet import aten
from weft.ops.rules import dims_text
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


def _out_size(size: Dim, kernel: Dim, stride: int, padding: Dim, dilation: int) -> Dim:
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


def _correlate_type(x: TensorType, w: TensorType, size: Sequence[Dim], *rest: Any) -> TensorType:
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


def _spread_type(g: TensorType, w: TensorType, size: Sequence[Dim], *rest: Any) -> TensorType:
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


_HOW = "int[] stride, int[] padding, int[] dilation, int groups"

define(
    f"aten::_convolve(Tensor self, Tensor weight, int[] size, {_HOW}) -> Tensor",
    "Each window of self [n, c, ...] times weight [o, c / groups, ...], `size` windows along each dim: [n, o, *size].",
    node="ConvolutionBackward0",
    type=_correlate_type,
    kernel=_correlate,
    vjp={
        "self": lambda g, self_dims, weight, stride, padding, dilation, groups: aten._convolve_input(
            g, conjugate(weight), self_dims[2:], stride, padding, dilation, groups
        ),
        "weight": lambda g, self, weight_dims, stride, padding, dilation, groups: aten._convolve_weight(
            g, conjugate(self), weight_dims[2:], stride, padding, dilation, groups
        ),
    },
    public=(),
    samples=draw(
        case(F(2, 2, 5), F(3, 2, 3), (5,), (1,), (1,), (1,), 1),
        case(F(1, 4, 5, 4), F(2, 2, 2, 3), (3, 2), (2, 1), (1, 0), (1, 1), 2),
    ),
)
define(
    f"aten::_convolve_input(Tensor grad, Tensor weight, int[] size, {_HOW}) -> Tensor",
    "The adjoint of _convolve for its input (of these spatial sizes): each element of grad spreads weight "
    "over its window.",
    type=_spread_type,
    kernel=_spread,
    vjp={
        "grad": lambda g, grad_dims, weight, stride, padding, dilation, groups: aten._convolve(
            g, conjugate(weight), grad_dims[2:], stride, padding, dilation, groups
        ),
        "weight": lambda g, grad, weight_dims, stride, padding, dilation, groups: aten._convolve_weight(
            conjugate(grad), g, weight_dims[2:], stride, padding, dilation, groups
        ),
    },
    public=(),
    samples=draw(
        case(F(2, 3, 5), F(3, 2, 3), (5,), (1,), (1,), (1,), 1),
        case(F(1, 2, 2, 2), F(2, 2, 2, 2), (4, 4), (2, 2), (0, 0), (1, 1), 2),
    ),
)
define(
    f"aten::_convolve_weight(Tensor grad, Tensor self, int[] size, {_HOW}) -> Tensor",
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
    public=(),
    samples=draw(case(F(2, 3, 5), F(2, 2, 5), (3,), (1,), (1,), (1,), 1)),
)

# ---- what users call


def _each(name: str, value: int | Ints, rank: int) -> tuple[int, ...]:
    values = (value,) if isinstance(value, int) else tuple(value)
    if len(values) not in (1, rank):
        raise ShapeError(
            f"expected {name} to be a single integer value or a list of {rank} values to match the convolution "
            f"dimensions, but got {name}={list(values)}"
        )
    return values * rank if len(values) == 1 else values


def _batched(input: Any, weight: Any, rank: int) -> tuple[Any, bool]:
    if input.ndim not in (rank + 1, rank + 2):
        raise ShapeError(
            f"Expected {rank + 1}D (unbatched) or {rank + 2}D (batched) input to conv{rank}d, but got input of size: "
            f"{dims_text(input.dims)}"
        )
    if weight.ndim != rank + 2:
        raise ShapeError(f"weight should have at least three dimensions; expected {rank + 2}, got {weight.ndim}")
    single = input.ndim == rank + 1
    return (aten.unsqueeze(input, 0) if single else input), single


def _finished(y: Any, bias: Any, single: bool) -> Any:
    if bias is not None:
        if bias.dtype is not y.dtype:
            raise DTypeError(f"Input type ({y.dtype}) and bias type ({bias.dtype}) should be the same")
        if bias.ndim != 1 or not shape_env.equal(bias.dims[0], y.dims[1]):
            raise ShapeError(
                f"expected bias to be 1-dimensional with {y.dims[1]} elements, "
                f"but got bias of size {dims_text(bias.dims)} instead"
            )
        y = y + aten.reshape(bias, tuple(bias.dims[0] if i == 1 else 1 for i in range(y.ndim)))
    return aten.squeeze(y, 0) if single else y


def _positive(**named: Ints) -> None:
    for name, values in named.items():
        if any(v <= 0 for v in values):
            raise ShapeError(f"non-positive {name} is not supported")


def _refuse_negative(padding: Sequence[Dim]) -> None:
    if any(shape_env.less(p, 0) for p in padding):
        raise ShapeError("negative padding is not supported")


def _conv(rank: int, input: Any, weight: Any, bias: Any, stride: Any, padding: Any, dilation: Any, groups: int) -> Any:
    x, single = _batched(input, weight, rank)
    stride, dilation = _each("stride", stride, rank), _each("dilation", dilation, rank)
    _positive(stride=stride, dilation=dilation, groups=(groups,))
    if isinstance(padding, str):
        x, padding = _padded_same(x, weight, padding, stride, dilation)
    pads = _each("padding", padding, rank)
    _refuse_negative(pads)
    size = [_out_size(*each) for each in zip(x.dims[2:], weight.dims[2:], stride, pads, dilation, strict=True)]
    return _finished(aten._convolve(x, weight, size, stride, pads, dilation, groups), bias, single)


def _padded_same(x: Any, weight: Any, padding: str, stride: Ints, dilation: Ints) -> tuple[Any, tuple[Dim, ...]]:
    """The padding that keeps sizes: even parts by the operator, an odd rest at the end by a pad."""
    if padding == "valid":
        return x, (0,) * len(stride)
    if padding != "same":
        raise ShapeError(f"Invalid padding string: '{padding}'")
    if any(s != 1 for s in stride):
        raise ShapeError("padding='same' is not supported for strided convolutions")
    totals = [d * (k - 1) for d, k in zip(dilation, weight.dims[2:], strict=True)]
    odd = [not shape_env.equal(dm.mod(t, 2), 0) for t in totals]
    if any(odd):
        x = aten.constant_pad_nd(x, [p for o in reversed(odd) for p in (0, int(o))])
    return x, tuple(dm.floordiv(t, 2) for t in totals)


def _conv_transpose(
    rank: int, input: Any, weight: Any, bias: Any, stride: Any, padding: Any, output_padding: Any, groups: int,
    dilation: Any,
) -> Any:
    x, single = _batched(input, weight, rank)
    stride, padding = _each("stride", stride, rank), _each("padding", padding, rank)
    extra, dilation = _each("output_padding", output_padding, rank), _each("dilation", dilation, rank)
    _refuse_negative(padding)
    _positive(stride=stride, dilation=dilation, groups=(groups,))
    for e, s, d in zip(extra, stride, dilation, strict=True):
        if e >= max(s, d):
            raise ShapeError(
                f"output padding must be smaller than either stride or dilation, but got output_padding {e}, "
                f"stride {s}, dilation {d}"
            )
    size = [
        (n - 1) * s - 2 * p + d * (k - 1) + 1 + e
        for n, s, p, d, k, e in zip(x.dims[2:], stride, padding, dilation, weight.dims[2:], extra, strict=True)
    ]
    for n in size:
        shape_env.refuse_less(n, 1, lambda: ShapeError(
            f"conv_transpose{rank}d: Given input size per channel: {dims_text(x.dims[2:])}. "
            f"Calculated output size per channel: {dims_text(size)}. Output size is too small"))
    return _finished(aten._convolve_input(x, weight, size, stride, padding, dilation, groups), bias, single)


def _define_conv(rank: int) -> None:
    one, zero = f"int[{rank}]", f"int[{rank}] padding=0"
    for overload, padding in (("", zero), (".padding", 'str padding="valid"')):
        define(
            f"aten::conv{rank}d{overload}(Tensor input, Tensor weight, Tensor? bias=None, {one} stride=1, {padding}, "
            f"{one} dilation=1, int groups=1) -> Tensor",
            f"Cross-correlation over {rank} dims: input [n, c, ...], weight [o, c / groups, ...], bias [o] "
            "-> [n, o, ...].",
            decompose=lambda *args, rank=rank: _conv(rank, *args),
            public=("weft", "nn.functional"),
        )
    define(
        f"aten::conv_transpose{rank}d(Tensor input, Tensor weight, Tensor? bias=None, {one} stride=1, {zero}, "
        f"{one} output_padding=0, int groups=1, {one} dilation=1) -> Tensor",
        f"The transposed convolution over {rank} dims: input [n, c, ...], weight [c, o / groups, ...] -> [n, o, ...].",
        decompose=lambda *args, rank=rank: _conv_transpose(rank, *args),
        public=("weft", "nn.functional"),
    )


for _rank in (1, 2, 3):
    _define_conv(_rank)

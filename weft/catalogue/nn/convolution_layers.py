"""Convolutions as users call them: sizes found, a bias for each channel, batches of one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from weft.catalogue.nn.convolution import (
    HOW,
    OF_CONVOLVE,
    OF_CONVOLVE_INPUT,
    Ints,
    correlate_type,
    out_size,
    spread_type,
)
from weft.catalogue.widening import cast, widened
from weft.ops.layout import Follows, channels_last
from weft.ops.op import Rule, define
from weft.ops.packet import aten
from weft.ops.rules import dims_text
from weft.support.errors import DTypeError, ShapeError
from weft.types import dims as dm
from weft.types import shape_env
from weft.types.dims import Dim
from weft.types.tensor_type import TensorType

# ---- with a bias


def _biased_type(type: Rule) -> Rule:
    def rule(input: TensorType, weight: TensorType, bias: TensorType | None, *rest: Any) -> Any:
        y = type(input, weight, *rest)
        if bias is not None and bias.dtype is not y.dtype:
            raise DTypeError(f"Input type ({y.dtype}) and bias type ({bias.dtype}) should be the same")
        if bias is not None and bias.is_complete and y.is_complete and (
            bias.ndim != 1 or not shape_env.equal(bias.shape[0], y.shape[1])
        ):
            raise ShapeError(
                f"expected bias to be 1-dimensional with {y.shape[1]} elements, "
                f"but got bias of size {dims_text(bias.shape)} instead"
            )
        return y

    return rule


def _plus_bias(convolve: Rule, self: Any, weight: Any, bias: Any, *rest: Any) -> Any:
    """A convolution, and a bias for each channel: the sum is rounded once."""
    if bias is None:
        return convolve(self, weight, *rest)
    y = convolve(widened(self), widened(weight), *rest)
    lined = aten.reshape(widened(bias), tuple(bias.dims[0] if i == 1 else 1 for i in range(y.ndim)))
    return cast(y + lined, self.dtype)


def _of_bias(g: Any) -> Any:
    return aten.sum(g, [i for i in range(g.ndim) if i != 1])


_LIKE_EITHER = Follows(lambda self, weight, *rest: (channels_last(self) or channels_last(weight),))

define(
    f"aten::_convolution(Tensor self, Tensor weight, Tensor? bias, int[] size, {HOW}) -> Tensor",
    "_convolve, and a bias for each channel.",
    node="ConvolutionBackward0",
    type=_biased_type(correlate_type),
    decompose=lambda *args: _plus_bias(aten._convolve, *args),
    vjp={**OF_CONVOLVE, "bias": _of_bias},
    lies=_LIKE_EITHER,
    public=(),
)
define(
    f"aten::_convolution_transposed(Tensor self, Tensor weight, Tensor? bias, int[] size, {HOW}) -> Tensor",
    "_convolve_input, and a bias for each channel.",
    node="ConvolutionBackward0.transposed",
    type=_biased_type(spread_type),
    decompose=lambda *args: _plus_bias(aten._convolve_input, *args),
    vjp={**OF_CONVOLVE_INPUT, "bias": _of_bias},
    lies=_LIKE_EITHER,
    public=(),
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
    size = [out_size(*each) for each in zip(x.dims[2:], weight.dims[2:], stride, pads, dilation, strict=True)]
    y = aten._convolution(x, weight, bias, size, stride, pads, dilation, groups)
    return aten.squeeze(y, 0) if single else y


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
        if e < 0:
            raise ShapeError("negative output_padding is not supported")
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
    y = aten._convolution_transposed(x, weight, bias, size, stride, padding, dilation, groups)
    return aten.squeeze(y, 0) if single else y


def _define_conv(rank: int) -> None:
    one, zero = f"int[{rank}]", f"int[{rank}] padding=0"
    for overload, padding in (("", zero), (".padding", 'str padding="valid"')):
        define(
            f"aten::conv{rank}d{overload}(Tensor input, Tensor weight, Tensor? bias=None, {one} stride=1, {padding}, "
            f"{one} dilation=1, int groups=1) -> Tensor",
            f"Cross-correlation over {rank} dims: input [n, c, ...], weight [o, c / groups, ...], bias [o] "
            "-> [n, o, ...].",
            precision="lower",
            decompose=lambda *args, rank=rank: _conv(rank, *args),
            public=("weft", "nn.functional"),
        )
    define(
        f"aten::conv_transpose{rank}d(Tensor input, Tensor weight, Tensor? bias=None, {one} stride=1, {zero}, "
        f"{one} output_padding=0, int groups=1, {one} dilation=1) -> Tensor",
        f"The transposed convolution over {rank} dims: input [n, c, ...], weight [c, o / groups, ...] -> [n, o, ...].",
        precision="lower",
        decompose=lambda *args, rank=rank: _conv_transpose(rank, *args),
        public=("weft", "nn.functional"),
    )


for _rank in (1, 2, 3):
    _define_conv(_rank)

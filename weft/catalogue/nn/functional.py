"""Functions of nn.functional whose signature differs from the operator's: activations with inplace, embedding,
softmax, dropout, pad.

They live in the namespace `nn::`, with the argument names and defaults that users write, and open at once into
operators. Where a name has an entry in `nn::` and one in `aten::`, nn.functional shows the first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import weft.catalogue.nn.activations  # noqa: F401  (the operators that this file shows)
from weft.catalogue.indexing.embedding import rows_of
from weft.catalogue.nn.im2col import rearranged
from weft.catalogue.nn.row_norms import limit_rows
from weft.ops.layout import LIKE_IMAGES, Follows, channels_last
from weft.ops.op import define
from weft.ops.packet import aten
from weft.ops.rules import dims_text
from weft.support.errors import ShapeError, Unsupported, ValueProblem
from weft.types import dims as dm
from weft.types import shape_env
from weft.types.dims import Dim
from weft.types.dtype import DType

_PLACE = ("nn.functional",)

# ---- embedding


def _embedding(
    input: Any, weight: Any, padding_idx: int | None, max_norm: float | None, norm_type: float,
    scale_grad_by_freq: bool, sparse: bool,
) -> Any:
    if padding_idx is not None:
        rows = weight.dims[0]
        if shape_env.less(padding_idx, -rows) or not shape_env.less(padding_idx, rows):
            raise ValueProblem("Padding_idx must be within num_embeddings")
        if padding_idx < 0:
            padding_idx = rows + padding_idx
    if max_norm is not None:
        limit_rows(weight, input, max_norm, norm_type)
    return rows_of(weight, input, padding_idx, scale_grad_by_freq, sparse)


define(
    "nn::embedding(Tensor input, Tensor weight, int? padding_idx=None, float? max_norm=None, float norm_type=2.0, "
    "bool scale_grad_by_freq=False, bool sparse=False) -> Tensor",
    "Rows of weight [n, d] picked by input [...]: [..., d]. The row padding_idx receives no gradient.",
    decompose=_embedding,
    public=_PLACE,
)

# ---- softmax with an optional dim


def _implied_dim(input: Any, dim: int | None) -> int:
    return dim if dim is not None else (0 if input.ndim in (0, 1, 3) else 1)


def _define_softmax(name: str, doc: str, sign: int) -> None:
    operator = "log_softmax" if name == "log_softmax" else "softmax"

    def rule(input: Any, dim: int | None, _stacklevel: int, dtype: DType | None) -> Any:
        return getattr(aten, operator)(input if sign > 0 else -input, _implied_dim(input, dim), dtype)

    define(
        f"nn::{name}(Tensor input, int? dim=None, int _stacklevel=3, ScalarType? dtype=None) -> Tensor", doc,
        decompose=rule, public=_PLACE,
    )


_define_softmax("softmax", "exp(x) / sum(exp(x)) along a dim.", 1)
_define_softmax("log_softmax", "x - log(sum(exp(x))) along a dim.", 1)
_define_softmax("softmin", "The softmax of -x along a dim.", -1)

# ---- dropout


def _check_probability(name: str, p: Any) -> None:
    if isinstance(p, (int, float)) and not 0 <= p <= 1:
        raise ValueProblem(f"dropout probability has to be between 0 and 1, but got {p}")


def _dropout(input: Any, p: float, training: bool, inplace: bool) -> Any:
    _check_probability("dropout", p)
    out = aten.dropout(input, p, training)
    return input.copy_(out) if inplace and training else out


define(
    "nn::dropout(Tensor input, float p=0.5, bool training=True, bool inplace=False) -> Tensor",
    "Elements set to zero with probability p, the others divided by 1 - p; nothing outside of training.",
    decompose=_dropout,
    effect="random",
    public=_PLACE,
)


def _dropout_channels(rank: int, input: Any, p: float, training: bool, inplace: bool) -> Any:
    """Of input [n, c, ...]. One without a batch is [c, ...], but for images: theirs is read as [n, c, l], as in
    PyTorch."""
    _check_probability("dropout2d", p)
    if rank == 1 and input.ndim not in (2, 3):
        raise ShapeError(f"dropout1d: Expected 2D or 3D input, but received a {input.ndim}D input")
    if not training or (isinstance(p, float) and p == 0.0):
        return input
    kept = 2 if rank == 2 or input.ndim == rank + 2 else 1
    if input.ndim < kept or input.ndim == 0:
        raise ShapeError("Feature dropout requires at least 2 dimensions in the input")
    ones = aten.new_ones(input, tuple(d if i < kept else 1 for i, d in enumerate(input.dims)))
    out = input * aten.dropout(ones, p, True)
    return input.copy_(out) if inplace else out


for _count in (1, 2, 3):
    define(
        f"nn::dropout{_count}d(Tensor input, float p=0.5, bool training=True, bool inplace=False) -> Tensor",
        "Whole channels set to zero with probability p, the others divided by 1 - p; nothing outside of training.",
        decompose=lambda *args, rank=_count: _dropout_channels(rank, *args),
        effect="random",
        public=_PLACE,
    )

# ---- activations that may write in place


def _define_activation(name: str, arguments: str = "") -> None:
    def rule(input: Any, *rest: Any) -> Any:
        *options, inplace = rest
        if name == "hardtanh" and options[0] > options[1]:
            raise ValueProblem("min_val cannot be greater than max_val")
        if inplace:
            return getattr(input, f"{name}_")(*options)
        return getattr(aten, name)(input, *options)

    define(
        f"nn::{name}(Tensor input, {arguments}bool inplace=False) -> Tensor",
        getattr(aten, name).overloads[0].doc + " With inplace, the result is written to the input.",
        decompose=rule,
        public=_PLACE,
    )


for _name, _arguments in (
    ("relu", ""), ("relu6", ""), ("hardsigmoid", ""), ("hardswish", ""), ("silu", ""), ("mish", ""), ("selu", ""),
    ("leaky_relu", "float negative_slope=0.01, "), ("elu", "float alpha=1.0, "), ("celu", "float alpha=1.0, "),
    ("hardtanh", "float min_val=-1.0, float max_val=1.0, "), ("threshold", "float threshold, float value, "),
):
    _define_activation(_name, _arguments)

# ---- padding


def _pad(input: Any, pad: Sequence[Dim], mode: str, value: Any) -> Any:
    if mode == "constant":
        return aten.constant_pad_nd(input, pad, 0.0 if value is None and input.dtype.is_differentiable else value or 0)
    if value is not None and value != 0:
        raise ValueProblem(f'Padding mode "{mode}" doesn\'t take in value argument')
    if mode not in (*_PLACES, "circular"):
        raise ValueProblem(f"Unrecognised padding mode {mode}")
    count = len(pad) // 2
    if len(pad) % 2 or not (input.ndim in (count + 1, count + 2) and 1 <= count <= 3):
        raise Unsupported(
            "Only 2D, 3D, 4D, 5D padding with non-constant padding are supported for now"
        )
    for i in range(count):
        input = _pad_dim(input, input.ndim - 1 - i, pad[2 * i], pad[2 * i + 1], mode)
    return input


def _pad_dim(input: Any, dim: int, before: Dim, after: Dim, mode: str) -> Any:
    size = input.dims[dim]
    _check_border(mode, size, before, after, dim, input)
    if mode == "circular":
        return aten.index_select(input, dim, _wrapped(before, after, size))
    places = _PLACES[mode](aten.arange(size + before + after) - before, size)
    return aten.index_select(input, dim, places)


def _wrapped(before: Dim, after: Dim, size: Dim) -> Any:
    """Places of a circular border; what negative padding cuts off is gone before the rest wraps around."""
    cut, cut_after = dm.maximum(-before, 0), dm.maximum(-after, 0)
    inner = size - cut - cut_after
    steps = aten.arange(inner + dm.maximum(before, 0) + dm.maximum(after, 0)) - dm.maximum(before, 0)
    return aten.remainder(steps, inner) + cut


def _check_border(mode: str, size: Dim, before: Dim, after: Dim, dim: int, input: Any) -> None:
    if mode == "reflect" and not (shape_env.less(before, size) and shape_env.less(after, size)):
        raise ShapeError(
            "Argument #4: Padding size should be less than the corresponding input dimension, but got: padding "
            f"({before}, {after}) at dimension {dim} of input {dims_text(input.dims)}"
        )
    if mode == "circular" and (shape_env.less(size, before) or shape_env.less(size, after)):
        raise ShapeError("Padding value causes wrapping around more than once.")
    if shape_env.less(size + before + after, 1):
        raise ShapeError(
            f"padding ({before}, {after}) leaves nothing of dimension {dim} of input {dims_text(input.dims)}"
        )


def _reflected(places: Any, size: Dim) -> Any:
    last = size - 1
    return last - aten.abs(last - aten.abs(places))


_PLACES: dict[str, Callable[[Any, Dim], Any]] = {
    "reflect": _reflected,
    "replicate": lambda places, size: aten.clamp(places, 0, size - 1),
}



def _precision_of_padding(input: Any, pad: Any, mode: str, value: Any) -> str:
    """PyTorch names these of its operators for padding."""
    return "float32" if (mode, len(pad)) in {("reflect", 2), ("reflect", 4), *_REPLICATED} else ""


_REPLICATED = {("replicate", 2 * rank) for rank in (1, 2, 3)}
_PADDED = Follows(lambda self, pad, mode, value: (None if mode == "circular" else channels_last(self),))
define(
    'nn::pad(Tensor input, int[] pad, str mode="constant", float? value=None) -> Tensor',
    "A border around the last dims: pad is (before, after) of the last dim, then of the one before it, ...; "
    "mode constant, reflect, replicate or circular.",
    precision=_precision_of_padding,
    decompose=_pad,
    lies=_PADDED,
    public=_PLACE,
)
define(
    'aten::pad(Tensor self, int[] pad, str mode="constant", float? value=None) -> Tensor',
    "A border around the last dims (see nn.functional.pad).",
    precision=_precision_of_padding,
    decompose=_pad,
    lies=_PADDED,
    public=(),
)

# ---- by their new names


def _pixel_shuffle(self: Any, upscale_factor: int) -> Any:
    if self.ndim < 3:
        raise ShapeError(
            f"pixel_shuffle expects input to have at least 3 dimensions, but got input with {self.ndim} dimension(s)"
        )
    if upscale_factor <= 0:
        raise ShapeError(f"pixel_shuffle expects a positive upscale_factor, but got {upscale_factor}")
    *lead, channels, height, width = self.dims
    r = upscale_factor
    if not shape_env.equal(dm.mod(channels, r * r), 0):
        raise ShapeError(
            "pixel_shuffle expects its input's 'channel' dimension to be divisible by the square of upscale_factor, "
            f"but input.size(-3)={channels} is not divisible by {r * r}"
        )
    n = len(lead)
    kept = dm.floordiv(channels, r * r)
    parts = aten.reshape(self, (*lead, kept, r, r, height, width))
    order = [*range(n), n, n + 3, n + 1, n + 4, n + 2]
    return rearranged(parts, order, (*lead, kept, height * r, width * r))


def _pixel_unshuffle(self: Any, downscale_factor: int) -> Any:
    if self.ndim < 3:
        raise ShapeError(
            f"pixel_unshuffle expects input to have at least 3 dimensions, but got input with {self.ndim} dimension(s)"
        )
    if downscale_factor <= 0:
        raise ShapeError(f"pixel_unshuffle expects a positive downscale_factor, but got {downscale_factor}")
    *lead, channels, height, width = self.dims
    r = downscale_factor
    for what, size in (("height", height), ("width", width)):
        if not shape_env.equal(dm.mod(size, r), 0):
            raise ShapeError(
                f"pixel_unshuffle expects {what} to be divisible by downscale_factor, but input's {what}={size} is not "
                f"divisible by {r}"
            )
    n = len(lead)
    h, w = dm.floordiv(height, r), dm.floordiv(width, r)
    parts = aten.reshape(self, (*lead, channels, h, r, w, r))
    order = [*range(n), n, n + 2, n + 4, n + 1, n + 3]
    return rearranged(parts, order, (*lead, channels * r * r, h, w))


define(
    "aten::pixel_shuffle(Tensor self, int upscale_factor) -> Tensor",
    "Channels laid out as a finer grid: [c r^2, h, w] -> [c, h r, w r].", decompose=_pixel_shuffle,
    lies=LIKE_IMAGES,
    public=("weft", "nn.functional"),
)
define(
    "aten::pixel_unshuffle(Tensor self, int downscale_factor) -> Tensor", "The inverse of pixel_shuffle.",
    decompose=_pixel_unshuffle, lies=LIKE_IMAGES, public=("weft", "nn.functional"),
)

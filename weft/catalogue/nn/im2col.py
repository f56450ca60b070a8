"""Windows of images as columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from weft.catalogue.nn.pooling import in_frame, per_dim, pooled_size, windows_of
from weft.ops.op import define
from weft.ops.packet import aten
from weft.ops.rules import dims_text
from weft.support.errors import ShapeError
from weft.types import shape_env


def rearranged(x: Any, order: Sequence[int], dims: Sequence[Any]) -> Any:
    """A tensor's dims in another order, then merged, in memory of their own: reshape would show the tensor's where only
    dims of size 1 move.
    """
    return aten.reshape(aten._contiguous_copy(aten.permute(x, order)), dims)


def _im2col(input: Any, kernel_size: Any, dilation: Any, padding: Any, stride: Any) -> Any:
    if input.ndim not in (3, 4):
        raise ShapeError(
            "Expected 3D or 4D (batch mode) tensor with possibly 0 batch size and other non-zero dimensions for input, "
            f"but got: {dims_text(input.dims)}"
        )
    kernel, spread = per_dim("kernel_size", kernel_size, 2), per_dim("dilation", dilation, 2)
    pads, steps = per_dim("padding", padding, 2), per_dim("stride", stride, 2)
    if any(v <= 0 for v in (*kernel, *spread, *steps)) or any(p < 0 for p in pads):
        raise ShapeError("unfold: kernel_size, dilation and stride should be greater than zero, padding not negative")
    x = input if input.ndim == 4 else aten.unsqueeze(input, 0)
    batch, channels = x.dims[:2]
    sizes = [pooled_size(*each, False) for each in zip(x.dims[2:], kernel, steps, pads, spread, strict=True)]
    if any(shape_env.less(s, 1) for s in sizes):
        raise ShapeError(
            f"Given input with spatial size {dims_text(x.dims[2:])}, kernel_size={kernel}, dilation={spread}, "
            f"padding={pads}, calculated shape of the array of sliding blocks as {dims_text(sizes)}, "
            "but its components must be at least one."
        )
    shown = windows_of(in_frame(x, kernel, steps, pads, spread, sizes, 0), kernel, steps, spread, sizes)
    count = kernel[0] * kernel[1]
    out = rearranged(shown, (0, 1, 4, 2, 3), (batch, channels * count, sizes[0] * sizes[1]))
    return out if input.ndim == 4 else aten.squeeze(out, 0)


define(
    "nn::unfold(Tensor input, int[2] kernel_size, int[2] dilation=1, int[2] padding=0, int[2] stride=1) -> Tensor",
    "Windows of images as columns: [n, c, h, w] -> [n, c * kernel, windows].",
    decompose=_im2col,
    public=("nn.functional",),
)

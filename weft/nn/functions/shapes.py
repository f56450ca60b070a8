"""Functions that rearrange: channel_shuffle, upsample, fold; conv_tbc, with time first."""

from __future__ import annotations

from typing import Any

from weft.catalogue.nn.im2col import rearranged
from weft.layers.factories import on_device
from weft.ops.packet import aten
from weft.support.errors import ShapeError
from weft.tensor.tensor import Tensor
from weft.types import shape_env

__all__ = [
    "channel_shuffle", "conv_tbc", "fold", "native_channel_shuffle", "upsample", "upsample_bilinear",
    "upsample_nearest",
]


def channel_shuffle(input: Tensor, groups: int) -> Tensor:
    """Channels of [n, c, ...] in another order: those of the groups take turns."""
    batch, channels, *rest = input.dims
    parts = aten.reshape(input, (batch, groups, channels // groups, *rest))
    return rearranged(parts, (0, 2, 1, *range(3, parts.ndim)), (batch, channels, *rest))


def conv_tbc(input: Tensor, weight: Tensor, bias: Tensor, pad: int = 0) -> Tensor:
    """A convolution along time: input [t, n, c], weight [k, c, o], bias [o] -> [t + 2 pad - k + 1, n, o].
    Raises ShapeError."""
    for name, x, rank in (("Input", input, 3), ("Weight", weight, 3), ("Bias", bias, 1)):
        if x.ndim != rank:
            raise ShapeError(f"{name} must have {rank} dims{': time, batch, in_channel.' if name == 'Input' else '.'}")
    if not shape_env.equal(input.dims[2], weight.dims[1]):
        raise ShapeError("Input dim 2 (input channels) is not == dim 1 in the weight tensor")
    if not shape_env.equal(weight.dims[2], bias.dims[0]):
        raise ShapeError("Bias size must equal dim 2 in the weight tensor (output channels).")
    out = aten.conv1d(aten.permute(input, (1, 2, 0)), aten.permute(weight, (2, 1, 0)), bias, padding=(pad,))
    return aten.permute(out, (2, 0, 1))


native_channel_shuffle = channel_shuffle


def upsample(
    input: Tensor, size: Any = None, scale_factor: Any = None, mode: str = "nearest", align_corners: bool | None = None
) -> Tensor:
    """nn.functional.interpolate under its old name."""
    import weft.nn.functional as F  # functional shows this module

    return F.interpolate(input, size, scale_factor, mode, align_corners)


def upsample_nearest(input: Tensor, size: Any = None, scale_factor: Any = None) -> Tensor:
    """nn.functional.interpolate with mode nearest."""
    return upsample(input, size, scale_factor, "nearest")


def upsample_bilinear(input: Tensor, size: Any = None, scale_factor: Any = None) -> Tensor:
    """nn.functional.interpolate with mode bilinear and aligned corners."""
    return upsample(input, size, scale_factor, "bilinear", True)


def _pair(value: Any) -> tuple[Any, Any]:
    return (value, value) if isinstance(value, int) else tuple(value)


def fold(
    input: Tensor, output_size: Any, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1
) -> Tensor:
    """The adjoint of unfold: columns [n, c * window, places] added up into [n, c, *output_size]."""
    if input.ndim not in (2, 3):
        raise ShapeError(f"Expected 2D or 3D (batch mode) tensor for input, but got: {list(input.dims)}")
    columns = aten.unsqueeze(input, 0) if input.ndim == 2 else input
    (height, width), (kh, kw), (dh, dw), (ph, pw), (sh, sw) = map(
        _pair, (output_size, kernel_size, dilation, padding, stride)
    )
    rows, across = (height + 2 * ph - dh * (kh - 1) - 1) // sh + 1, (width + 2 * pw - dw * (kw - 1) - 1) // sw + 1
    batch, total, places = columns.shape
    if total % (kh * kw) or places != rows * across:
        raise ShapeError(
            f"fold: for output_size={(height, width)} and kernel_size={(kh, kw)} expected input of {rows * across} "
            "columns of a multiple of "
            f"{kh * kw} elements, but got {list(input.dims)}")
    channels = total // (kh * kw)
    windows = aten.reshape(columns, (batch, channels, kh, kw, rows, across))
    out = aten.new_zeros(columns, (batch, channels, (height + 2 * ph) * (width + 2 * pw)))
    with on_device(input.device):
        at = _flat_places(kh, kw, rows, across, (dh, dw), (sh, sw), width + 2 * pw)
    added = aten.index_add(out, 2, at, aten.reshape(windows, (batch, channels, -1)))
    image = aten.reshape(added, (batch, channels, height + 2 * ph, width + 2 * pw))
    image = aten.narrow(aten.narrow(image, 2, ph, height), 3, pw, width)
    return aten.squeeze(image, 0) if input.ndim == 2 else aten.clone(image)


def _flat_places(
    kh: int, kw: int, rows: int, across: int, dilation: tuple[int, int], stride: tuple[int, int], width: int
) -> Tensor:
    """Where each element of the columns lies in the padded image, flat."""
    y = (
        aten.reshape(aten.arange(kh) * dilation[0], (-1, 1, 1, 1))
        + aten.reshape(aten.arange(rows) * stride[0], (1, 1, -1, 1))
    )
    x = (
        aten.reshape(aten.arange(kw) * dilation[1], (1, -1, 1, 1))
        + aten.reshape(aten.arange(across) * stride[1], (1, 1, 1, -1))
    )
    return aten.reshape(y * width + x, (-1,))

"""Fractional maximum pooling: windows of one size at random places. Source: Graham (arXiv:1412.6071)."""

from __future__ import annotations

import math
from typing import Any

from weft.layers.autocast import with_precision
from weft.layers.factories import on_device
from weft.nn.functions.adaptive_pooling import greatest
from weft.ops.packet import aten
from weft.support.errors import ShapeError, ValueProblem
from weft.tensor.tensor import Tensor
from weft.types import dtype as dt

__all__ = [
    "fractional_max_pool2d", "fractional_max_pool2d_with_indices", "fractional_max_pool3d",
    "fractional_max_pool3d_with_indices",
]


@with_precision("float32")
def fractional_max_pool2d(
    input: Tensor, kernel_size: Any, output_size: Any = None, output_ratio: Any = None, return_indices: bool = False,
    _random_samples: Tensor | None = None,
) -> Any:
    """The greatest elements of windows of [n, c, h, w] or [c, h, w] at random places;
    one of output_size and output_ratio says how many."""
    pooled = _fractional(2, input, kernel_size, output_size, output_ratio, _random_samples)
    return pooled if return_indices else pooled[0]


@with_precision("float32")
def fractional_max_pool2d_with_indices(
    input: Tensor, kernel_size: Any, output_size: Any = None, output_ratio: Any = None, return_indices: bool = False,
    _random_samples: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """fractional_max_pool2d, and where the greatest elements are within h * w."""
    return _fractional(2, input, kernel_size, output_size, output_ratio, _random_samples)


@with_precision("float32")
def fractional_max_pool3d(
    input: Tensor, kernel_size: Any, output_size: Any = None, output_ratio: Any = None, return_indices: bool = False,
    _random_samples: Tensor | None = None,
) -> Any:
    """The greatest elements of windows of [n, c, d, h, w] or [c, d, h, w] at random places;
    see fractional_max_pool2d."""
    pooled = _fractional(3, input, kernel_size, output_size, output_ratio, _random_samples)
    return pooled if return_indices else pooled[0]


@with_precision("float32")
def fractional_max_pool3d_with_indices(
    input: Tensor, kernel_size: Any, output_size: Any = None, output_ratio: Any = None, return_indices: bool = False,
    _random_samples: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """fractional_max_pool3d, and where the greatest elements are within d * h * w."""
    return _fractional(3, input, kernel_size, output_size, output_ratio, _random_samples)


def _fractional(
    rank: int, input: Tensor, kernel_size: Any, output_size: Any, output_ratio: Any, samples: Tensor | None
) -> tuple[Tensor, Tensor]:
    with on_device(input.device):
        return _fractional_on_device(rank, input, kernel_size, output_size, output_ratio, samples)


def _fractional_on_device(
    rank: int, input: Tensor, kernel_size: Any, output_size: Any, output_ratio: Any, samples: Tensor | None
) -> tuple[Tensor, Tensor]:
    name = f"fractional_max_pool{rank}d"
    if input.ndim not in (rank + 1, rank + 2):
        raise ShapeError(f"{name}: Expected {rank + 1}D or {rank + 2}D input, but got {input.ndim}D")
    x = aten.unsqueeze(input, 0) if input.ndim == rank + 1 else input
    batch, channels, *spatial = (int(size) for size in x.shape)
    if 0 in (channels, *spatial):
        raise ShapeError(f"{name}: Expected input with non-zero dims besides the batch, but got {list(input.shape)}")
    kernel = _each(name, "kernel_size", kernel_size, rank)
    wanted = _wanted(name, spatial, output_size, output_ratio)
    if any(k <= 0 or o < 0 or o + k - 1 > size for k, o, size in zip(kernel, wanted, spatial, strict=True)):
        raise ShapeError(f"{name}: {wanted} windows of {list(kernel)} do not fit into an input of {spatial}")
    if samples is None:
        samples = aten.rand((batch, channels, rank), dtype=input.dtype)
    if samples.ndim != 3 or samples.shape[0] < batch or tuple(samples.shape[1:]) != (channels, rank):
        raise ShapeError(
            f"{name}: Expect _random_samples of size {[batch, channels, rank]}, but got {list(samples.shape)}"
        )
    samples = aten.narrow(samples, 0, 0, batch)
    places: Any = 0
    for i, (size, count, width) in enumerate(zip(spatial, wanted, kernel, strict=True)):
        # of two, the first is for the width
        starts = _starts(aten.narrow(samples, 2, rank - 1 - i if rank == 2 else i, 1), size, count, width)
        along = aten.unsqueeze(starts, 3) + aten.arange(width)
        shape = [batch, channels, *(1,) * (2 * rank)]
        shape[2 + i], shape[2 + rank + i] = count, width
        places = places * size + aten.reshape(along, tuple(shape))
    places = aten.reshape(places, (batch, channels, math.prod(wanted), math.prod(kernel)))
    flat = aten.reshape(x, (batch, channels, 1, math.prod(spatial)))
    windows = aten.gather(aten.expand(flat, (batch, channels, math.prod(wanted), math.prod(spatial))), 3, places)
    values, picked = greatest(windows)
    shape = [batch, channels, *wanted]
    positions = aten.gather(places, 3, aten.unsqueeze(picked, 3))
    pooled = aten.reshape(values, tuple(shape)), aten.reshape(positions, tuple(shape))
    return (aten.squeeze(pooled[0], 0), aten.squeeze(pooled[1], 0)) if input.ndim == rank + 1 else pooled


def _starts(sample: Tensor, size: int, count: int, width: int) -> Tensor:
    """Where the windows start: [n, c, count] of samples [n, c, 1]. The last one ends with the input."""
    last = aten.full((*sample.dims[:2], min(count, 1)), size - width, dtype=dt.int64)
    if count <= 1:
        return last
    step = (size - width) / (count - 1)
    before = aten.floor((aten.arange(count - 1).to(sample.dtype) + sample) * step) - aten.floor(sample * step)
    return aten.cat((before.to(dt.int64), last), 2)


def _wanted(name: str, spatial: list[int], output_size: Any, output_ratio: Any) -> list[int]:
    rank = len(spatial)
    if (output_size is None) == (output_ratio is None):
        what = "requires specifying either" if output_size is None else "takes only one of"
        raise ValueProblem(f"{name} {what} an output_size or an output_ratio")
    if output_size is not None:
        return [int(size) for size in _each(name, "output_size", output_size, rank)]
    ratios = (output_ratio,) * rank if isinstance(output_ratio, float) else tuple(output_ratio)
    if len(ratios) != rank or not all(0 < r < 1 for r in ratios):
        raise ValueProblem(f"{name}: output_ratio must be between 0 and 1 (got {output_ratio})")
    return [int(size * ratio) for size, ratio in zip(spatial, ratios, strict=True)]


def _each(name: str, what: str, value: Any, rank: int) -> tuple[int, ...]:
    values = (value,) * rank if isinstance(value, int) else tuple(value)
    if len(values) != rank:
        raise ShapeError(
            f"{name}: {what} must either be a single int, or a tuple of {rank} ints, but got {list(values)}"
        )
    return values

"""Adaptive maximum pooling: windows that divide each dim, whatever its size."""

from __future__ import annotations

import math
from typing import Any

from weft.layers.autocast import with_precision
from weft.layers.factories import on_device
from weft.ops.packet import aten
from weft.support.errors import ShapeError, ValueProblem
from weft.tensor.tensor import Tensor

__all__ = [
    "adaptive_max_pool1d", "adaptive_max_pool1d_with_indices", "adaptive_max_pool2d",
    "adaptive_max_pool2d_with_indices", "adaptive_max_pool3d", "adaptive_max_pool3d_with_indices",
]


def adaptive_max_pool1d_with_indices(input: Tensor, output_size: Any, return_indices: bool = True) -> Any:
    """adaptive_max_pool1d, and where the greatest elements are."""
    return _adaptive_max_pool(1, input, output_size)


def adaptive_max_pool1d(input: Tensor, output_size: Any, return_indices: bool = False) -> Any:
    """The greatest elements of windows that divide the last dim of [n, c, l] or [c, l]."""
    return _adaptive_max_pool(1, input, output_size)[slice(None) if return_indices else 0]


def adaptive_max_pool2d_with_indices(input: Tensor, output_size: Any, return_indices: bool = True) -> Any:
    """adaptive_max_pool2d, and where the greatest elements are within h * w."""
    return _adaptive_max_pool(2, input, output_size)


def adaptive_max_pool2d(input: Tensor, output_size: Any, return_indices: bool = False) -> Any:
    """The greatest elements of windows that divide the last two dims of [n, c, h, w] or [c, h, w];
    indices count within h * w."""
    return _adaptive_max_pool(2, input, output_size)[slice(None) if return_indices else 0]


@with_precision("float32")
def adaptive_max_pool3d_with_indices(input: Tensor, output_size: Any, return_indices: bool = True) -> Any:
    """adaptive_max_pool3d, and where the greatest elements are within d * h * w."""
    return _adaptive_max_pool(3, input, output_size)


@with_precision("float32")
def adaptive_max_pool3d(input: Tensor, output_size: Any, return_indices: bool = False) -> Any:
    """The greatest elements of windows that divide the last three dims of [n, c, d, h, w] or [c, d, h, w];
    indices count within d * h * w."""
    return _adaptive_max_pool(3, input, output_size)[slice(None) if return_indices else 0]


def _adaptive_max_pool(rank: int, input: Tensor, output_size: Any) -> tuple[Tensor, Tensor]:
    with on_device(input.device):
        return _spread_out_max(rank, input, output_size)


def _spread_out_max(rank: int, input: Tensor, output_size: Any) -> tuple[Tensor, Tensor]:
    """Every dim is spread out into its windows by a table of positions (a shorter window repeats its last one,
    which changes no maximum)."""
    name = f"adaptive_max_pool{rank}d()"
    if input.ndim not in (rank + 1, rank + 2):
        kind = ValueProblem if rank == 2 and input.ndim < 3 else ShapeError
        raise kind(f"{name}: Expected {rank + 1}D or {rank + 2}D input, but got {input.ndim}D")
    if any(size == 0 for size in input.shape[input.ndim - rank - 1 :]):
        raise ShapeError(
            f"{name}: Expected input to have non-zero size for non-batch dimensions, but got {list(input.shape)}"
        )
    lead = input.ndim - rank
    if output_size == 1 or output_size in ((1,) * rank, [1] * rank):  # one window, whatever the sizes
        values, picked = greatest(aten.flatten(input, lead, -1))
        shape = (*input.shape[:lead], *(1,) * rank)
        return aten.reshape(values, shape), aten.reshape(picked, shape)
    spatial = [int(size) for size in input.shape[lead:]]
    wanted = _wanted(name, output_size, spatial)
    widths = [_width(size, count) for size, count in zip(spatial, wanted, strict=True)]
    x = input
    for i, (size, count, width) in enumerate(zip(spatial, wanted, widths, strict=True)):
        dim = lead + 2 * i
        places = _places(aten.reshape(aten.arange(count), (-1, 1)), aten.arange(width), size, count)
        spread = aten.index_select(x, dim, aten.reshape(places, (-1,)))
        x = aten.reshape(spread, (*spread.dims[:dim], count, width, *spread.dims[dim + 1 :]))
    windows = [lead + 2 * i for i in range(rank)]
    x = aten.permute(x, (*range(lead), *windows, *(w + 1 for w in windows)))
    x = aten.reshape(x, (*x.dims[: lead + rank], math.prod(widths)))
    values, picked = greatest(x)
    return values, _flat_places(picked, spatial, wanted, widths)


def greatest(windows: Tensor) -> tuple[Tensor, Tensor]:
    """The greatest elements along the last dim, and where they are: of equals the first, and of NaN, as in every
    pooling, the last."""
    picked = aten.max(windows, -1, True)[1]
    place = aten.where(aten.isnan(windows), aten.arange(windows.dims[-1]), -1)
    last_nan = aten.max(place, -1, True)[0]
    picked = aten.where(last_nan < 0, picked, last_nan)
    return aten.squeeze(aten.gather(windows, -1, picked), -1), aten.squeeze(picked, -1)


def _wanted(name: str, output_size: Any, spatial: list[int]) -> list[int]:
    rank = len(spatial)
    sizes = (output_size,) * rank if output_size is None or isinstance(output_size, int) else tuple(output_size)
    if len(sizes) != rank:
        raise ShapeError(f"{name}: output_size must be {rank} ints, got {list(sizes)}")
    wanted = [size if w is None else int(w) for size, w in zip(spatial, sizes, strict=True)]
    if any(w < 0 for w in wanted):
        raise ShapeError(f"{name}: output_size must not be negative, got {wanted}")
    return wanted


def _width(size: int, count: int) -> int:
    """The greatest width of a window: begins and ends fall behind the multiples of size / count by multiples of their
    greatest common divisor."""
    if count == 0:
        return 1
    whole, rest = divmod(size, count)
    return whole + (0 if rest == 0 else 1 if rest == math.gcd(rest, count) else 2)


def _places(window: Tensor, offset: Tensor, size: int, count: int) -> Tensor:
    """The positions in a dim that lie at `offset` of a window, which reaches from floor(i n / m)
    to ceil((i + 1) n / m)."""
    end = aten.floor_divide((window + 1) * size + count - 1, count)
    return aten.minimum(aten.floor_divide(window * size, count) + offset, end - 1)


def _flat_places(picked: Tensor, spatial: list[int], wanted: list[int], widths: list[int]) -> Tensor:
    """Positions within windows as positions in the input's flattened spatial dims."""
    place: Any = 0
    lead = picked.ndim - len(spatial)
    for i, (size, count) in enumerate(zip(spatial, wanted, strict=True)):
        window = aten.reshape(aten.arange(count), tuple(count if d == lead + i else 1 for d in range(picked.ndim)))
        step = math.prod(widths[i + 1 :])
        place = place * size + _places(window, aten.floor_divide(picked, step), size, count)
        picked = aten.remainder(picked, step)
    positions: Tensor = place
    return positions

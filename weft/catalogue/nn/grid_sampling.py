"""Images looked up at given places: grid_sample, in two and three dims."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

from weft.catalogue.nn.interpolation import cubic_weights
from weft.catalogue.widening import cast, widened
from weft.ops.op import define
from weft.ops.packet import aten
from weft.ops.rules import dims_text
from weft.support.errors import DTypeError, ShapeError, ValueProblem
from weft.types import dims as dm
from weft.types import dtype as dt
from weft.types import shape_env
from weft.types.dims import Dim

_MODES = ("bilinear", "nearest", "bicubic")
_PADDINGS = ("zeros", "border", "reflection")


def _check(input: Any, grid: Any, mode: str, padding_mode: str) -> None:
    if mode not in _MODES:
        raise ValueProblem(
            f"nn.functional.grid_sample(): expected mode to be 'bilinear', 'nearest' or 'bicubic', but got: '{mode}'"
        )
    if padding_mode not in _PADDINGS:
        raise ValueProblem(
            "nn.functional.grid_sample(): expected padding_mode to be 'zeros', 'border', or 'reflection', but got: "
            f"'{padding_mode}'"
        )
    if input.dtype is not grid.dtype:
        raise DTypeError(
            f"grid_sampler(): expected input and grid to have the same dtype, but input has {input.dtype} and grid has "
            f"{grid.dtype}"
        )
    if input.ndim not in (4, 5) or grid.ndim != input.ndim:
        raise ShapeError(
            "grid_sampler(): expected 4D or 5D input and grid with same number of dimensions, but got input with sizes "
            f"{dims_text(input.dims)} and grid with sizes {dims_text(grid.dims)}"
        )
    if not shape_env.equal(input.dims[0], grid.dims[0]):
        raise ShapeError(
            "grid_sampler(): expected grid and input to have same batch size, but got input with sizes "
            f"{dims_text(input.dims)} and grid with sizes {dims_text(grid.dims)}"
        )
    if not shape_env.equal(grid.dims[-1], input.ndim - 2):
        raise ShapeError(
            f"grid_sampler(): expected grid to have size {input.ndim - 2} in last dimension, "
            f"but got grid with sizes {dims_text(grid.dims)}"
        )
    if any(shape_env.less(d, 1) for d in input.dims[2:]):
        raise ShapeError(
            "grid_sampler(): expected input to have non-empty spatial dimensions, "
            f"but input has sizes {dims_text(input.dims)}"
        )
    if mode == "bicubic" and input.ndim == 5:
        raise ShapeError("grid_sampler(): bicubic interpolation only supports 4D input")


def _unscaled(at: Any, size: Dim, corners: bool) -> Any:
    """[-1, 1] as places in a dim: from centre to centre of the outer elements with corners, else from edge to edge."""
    return (at + 1) * 0.5 * (size - 1) if corners else ((at + 1) * size - 1) * 0.5


def _reflected(at: Any, size: Dim, corners: bool) -> Any:
    """Places folded back at the outer elements' centres (or edges)."""
    least, span = (0.0, size - 1) if corners else (-0.5, size)
    if shape_env.equal(span, 0):
        return aten.zeros_like(at)
    away = aten.abs(at - least)
    extra = aten.fmod(away, span)
    is_even = aten.eq(aten.remainder(aten.floor(away / span), 2), 0)
    return aten.where(is_even, extra, span - extra) + least


def _padded(at: Any, size: Dim, padding: str, corners: bool) -> Any:
    if padding == "zeros":
        return at
    if padding == "reflection":
        at = _reflected(at, size, corners)
    return aten.clamp(at, 0, size - 1)


def _picked(image: Any, places: Sequence[Any], sizes: Sequence[Dim]) -> Any:
    """Elements of image [n, c, all places] at whole-numbered coordinates [n, ...], 0 outside: [n, c, ...]."""
    flat: Any = None
    inside: Any = None
    for at, size in zip(places, sizes, strict=True):
        fits = aten.logical_and(at >= 0, at <= size - 1)
        index = aten.to(aten.where(fits, at, 0), dt.int64)  # NaN fits nowhere
        flat = index if flat is None else flat * size + index
        inside = fits if inside is None else aten.logical_and(inside, fits)
    batch, *rest = flat.dims
    channels = image.dims[1]
    index = aten.expand(aten.reshape(flat, (batch, 1, dm.product(rest))), (batch, channels, dm.product(rest)))
    elements = aten.reshape(aten.gather(image, 2, index), (batch, channels, *rest))
    return aten.where(aten.unsqueeze(inside, 1), elements, 0)


def _linear(image: Any, places: Sequence[Any], sizes: Sequence[Dim]) -> Any:
    low = [aten.floor(p) for p in places]
    share = [p - f for p, f in zip(places, low, strict=True)]
    total: Any = None
    for corner in itertools.product((0, 1), repeat=len(places)):
        weight: Any = None
        for upper, s in zip(corner, share, strict=True):
            part = s if upper else 1 - s
            weight = part if weight is None else weight * part
        term = (
            _picked(image, [f + upper for f, upper in zip(low, corner, strict=True)], sizes) * aten.unsqueeze(weight, 1)
        )
        total = term if total is None else total + term
    return total


def _cubic(image: Any, places: Sequence[Any], sizes: Sequence[Dim], padding: str, corners: bool) -> Any:
    (y, x), (height, width) = places, sizes
    top, left = aten.floor(y), aten.floor(x)
    total: Any = None
    for i, down in enumerate(cubic_weights(y - top)):
        row = _padded(top + (i - 1), height, padding, corners)
        for j, across in enumerate(cubic_weights(x - left)):
            column = _padded(left + (j - 1), width, padding, corners)
            term = _picked(image, [row, column], sizes) * aten.unsqueeze(down * across, 1)
            total = term if total is None else total + term
    return total


def _grid_sample(input: Any, grid: Any, mode: str, padding_mode: str, align_corners: bool | None) -> Any:
    _check(input, grid, mode, padding_mode)
    return cast(_sampled(widened(input), widened(grid), mode, padding_mode, bool(align_corners)), input.dtype)


def _sampled(input: Any, grid: Any, mode: str, padding_mode: str, corners: bool) -> Any:
    sizes = tuple(input.dims[2:])
    image = aten.reshape(input, (*input.dims[:2], dm.product(sizes)))
    rank = len(sizes)
    places = [_unscaled(aten.select(grid, -1, rank - 1 - i), sizes[i], corners) for i in range(rank)]
    if mode == "bicubic":
        return _cubic(image, places, sizes, padding_mode, corners)
    places = [_padded(p, size, padding_mode, corners) for p, size in zip(places, sizes, strict=True)]
    if mode == "nearest":
        rounded = [aten.round(p) for p in places]
        picked = _picked(image, rounded, sizes)
        # the gradient of the grid is zero, not absent
        wanted = getattr(grid, "requires_grad", False)  # (NumPy's arrays want none)
        return picked + aten.unsqueeze(aten.nan_to_num(rounded[0]), 1) * 0 if wanted else picked
    return _linear(image, places, sizes)


define(
    'nn::grid_sample(Tensor input, Tensor grid, str mode="bilinear", str padding_mode="zeros", '
    'bool? align_corners=None) -> Tensor',
    "input [n, c, h, w] (or [n, c, d, h, w]) looked up at the places that grid [n, i, j, 2] (or [n, i, j, k, 3]) "
    "names, x first, in [-1, 1].",
    precision="float32",
    decompose=_grid_sample,
    public=("nn.functional",),
)


def _by_numbers(name: str, rank: int | None, input: Any, grid: Any, mode: int, padding: int, corners: bool) -> Any:
    """With modes as PyTorch's own operators number them."""
    if rank is not None and (input.ndim != rank + 2 or grid.ndim != input.ndim):
        raise ShapeError(
            f"grid_sampler(): expected {rank + 2}D input and grid with same number of dimensions, but got input with "
            f"sizes {dims_text(input.dims)} and grid with sizes {dims_text(grid.dims)}"
        )
    for what, number, names in (("interpolation_mode", mode, _MODES), ("padding_mode", padding, _PADDINGS)):
        if not 0 <= number < len(names):
            raise ValueProblem(f"{name}: {what} must be from 0 to {len(names) - 1}, got {number}")
    return _grid_sample(input, grid, _MODES[mode], _PADDINGS[padding], corners)


for _name, _rank in (("grid_sampler", None), ("grid_sampler_2d", 2), ("grid_sampler_3d", 3)):
    define(
        f"aten::{_name}(Tensor input, Tensor grid, int interpolation_mode, int padding_mode, bool align_corners) "
        "-> Tensor",
        "nn.functional.grid_sample with modes by number: bilinear, nearest, bicubic; zeros, border, reflection.",
        precision="float32",
        decompose=lambda *args, name=_name, rank=_rank: _by_numbers(name, rank, *args),
        public=("weft",),
    )


def _affine_grid(theta: Any, size: Sequence[Dim], align_corners: bool | None) -> Any:
    rank = len(size) - 2
    if rank not in (2, 3) or theta.ndim != 3:
        raise ShapeError(
            f"Expected a batch of 2D or 3D affine matrices, got theta of size {dims_text(theta.dims)} for size "
            f"{dims_text(size)}"
        )
    corners, dtype, theta = bool(align_corners), theta.dtype, widened(theta)
    rows: list[Any] = []
    spatial = tuple(size[2:])
    for i in reversed(range(rank)):
        steps = aten.linspace(-1, 1, spatial[i], dtype=theta.dtype)
        steps = steps if corners else steps * (spatial[i] - 1) / spatial[i]
        lined = aten.reshape(steps, tuple(spatial[i] if j == i else 1 for j in range(rank)))
        rows.append(aten.expand(lined, spatial))
    rows.append(aten.ones(spatial, dtype=theta.dtype))
    points = aten.reshape(aten.stack(rows, -1), (1, dm.product(spatial), rank + 1))
    return cast(aten.reshape(aten.matmul(points, aten.transpose(theta, 1, 2)), (size[0], *spatial, rank)), dtype)


define(
    "aten::affine_grid_generator(Tensor theta, int[] size, bool align_corners) -> Tensor",
    "nn.functional.affine_grid, by the name of PyTorch's own operator.",
    decompose=_affine_grid,
    public=("weft",),
)
define(
    "nn::affine_grid(Tensor theta, int[] size, bool? align_corners=None) -> Tensor",
    "The grid of an affine map for grid_sample: theta [n, 2, 3] (or [n, 3, 4]) and the size of its output.",
    decompose=_affine_grid,
    public=("nn.functional",),
)

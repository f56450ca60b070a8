"""Images of other sizes, and images read at other places."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import weft
from weft.nn import functional as F
from weft.onnx.registry import operator, symbolic
from weft.onnx.values import Host, numbers
from weft.support.errors import ParseError, Unsupported
from weft.tensor.tensor import Tensor

Array = np.ndarray[Any, Any]


def _places(out: int, size: int, scale: float, mode: str, roi: tuple[float, float]) -> Array:
    """Where each element of the result lies in the input."""
    at = np.arange(out, dtype=np.float64)
    whole = scale * size
    if mode == "align_corners":
        return at * (size - 1) / (whole - 1) if whole != 1 else at * 0
    if mode == "asymmetric":
        return at / scale
    if mode == "tf_crop_and_resize":
        if out == 1:
            return at * 0 + 0.5 * (roi[0] + roi[1]) * (size - 1)
        return roi[0] * (size - 1) + at * (roi[1] - roi[0]) * (size - 1) / (out - 1)
    if mode == "pytorch_half_pixel":
        return (at + 0.5) / scale - 0.5 if whole > 1 else at * 0
    if mode == "half_pixel_symmetric":
        centre = size / 2
        return centre * (1 - out / whole) + (at + 0.5) / scale - 0.5
    if mode == "half_pixel":
        return (at + 0.5) / scale - 0.5
    raise Unsupported(f"onnx: Resize has no coordinate_transformation_mode {mode!r}")


def _linear(distance: Array) -> Array:
    weights: Array = np.maximum(1 - np.abs(distance), 0)
    return weights


def _cubic(a: float) -> Any:
    def weights(distance: Array) -> Array:
        d = np.abs(distance)
        near = ((a + 2) * d - (a + 3)) * d * d + 1
        far = ((a * d - 5 * a) * d + 8 * a) * d - 4 * a
        return np.where(d <= 1, near, np.where(d < 2, far, 0))

    return weights


def _matrix(
    places: Array, size: int, scale: float, kernel: Any, reach: int, antialias: int, outside: int
) -> Array:
    """The weights of the input's elements in each of the result's."""
    shrink = min(scale, 1.0) if antialias else 1.0
    span = math.ceil(reach / shrink)
    taps = np.floor(places)[:, None].astype(np.int64) + np.arange(-span + 1, span + 1)[None, :]
    weights = kernel((taps - places[:, None]) * shrink)
    if outside:
        weights = np.where((taps < 0) | (taps >= size), 0, weights)
    if outside or antialias:
        weights = weights / weights.sum(1, keepdims=True)
    matrix: Array = np.zeros((len(places), size))
    np.add.at(matrix, (np.arange(len(places))[:, None], np.clip(taps, 0, size - 1)), weights)
    return matrix


def _nearest(places: Array, mode: str) -> Array:
    rounded: dict[str, Any] = {
        "floor": np.floor, "ceil": np.ceil, "round_prefer_ceil": lambda v: np.floor(v + 0.5),
        "round_prefer_floor": lambda v: np.ceil(v - 0.5),
    }  # fmt: skip
    nearest: Array = rounded[mode](places)
    return nearest


def _wanted(
    x: Tensor, axes: list[int], scales: list[float] | None, sizes: list[int] | None, policy: str
) -> tuple[list[int], list[float]]:
    has = [int(x.shape[a]) for a in axes]
    if sizes is None:
        assert scales is not None
        return [math.floor(n * s) for n, s in zip(has, scales, strict=True)], scales
    if policy == "stretch":
        return sizes, [s / n for s, n in zip(sizes, has, strict=True)]
    choose = min if policy == "not_larger" else max
    scale = choose(s / n for s, n in zip(sizes, has, strict=True))
    return [math.floor(n * scale + 0.5) for n in has], [scale] * len(has)


@operator("Resize")
def resize(
    x: Tensor, roi: Host = None, scales: Host = None, sizes: Host = None, *, antialias: int = 0,
    axes: list[int] | None = None, coordinate_transformation_mode: str = "half_pixel", cubic_coeff_a: float = -0.75,
    exclude_outside: int = 0, extrapolation_value: float = 0.0, keep_aspect_ratio_policy: str = "stretch",
    mode: str = "nearest", nearest_mode: str = "round_prefer_floor", opset: int,
) -> Tensor:
    if opset < 11:  # (X, scales), and places as Upsample has them
        scales, coordinate_transformation_mode, nearest_mode = roi, "asymmetric", "floor"
    named = [a % x.ndim for a in axes] if axes else list(range(x.ndim))
    factors = None if scales is None else [float(s) for s in numbers(scales, "scales")] or None
    asked = None if sizes is None else [int(n) for n in numbers(sizes, "sizes")] or None
    if (factors is None) == (asked is None):
        raise ParseError("onnx: Resize takes either scales or sizes")
    area = [0.0] * len(named) + [1.0] * len(named) if roi is None or opset < 11 else numbers(roi, "roi")
    area = area or [0.0] * len(named) + [1.0] * len(named)
    wanted, factors = _wanted(x, named, factors, asked, keep_aspect_ratio_policy)
    crop = coordinate_transformation_mode == "tf_crop_and_resize"
    outside: list[tuple[int, Any]] = []
    for i, (axis, out, scale) in enumerate(zip(named, wanted, factors, strict=True)):
        size = int(x.shape[axis])
        if out == size and scale == 1 and not crop:
            continue
        places = _places(out, size, scale, coordinate_transformation_mode, (area[i], area[len(named) + i]))
        if crop:
            outside.append((axis, (places < 0) | (places > size - 1)))
        if mode == "nearest":
            taken = np.clip(_nearest(places, nearest_mode), 0, size - 1).astype(np.int64)
            x = weft.index_select(x, axis, weft.from_numpy(taken))
            continue
        kernel, reach = (_linear, 1) if mode == "linear" else (_cubic(cubic_coeff_a), 2)
        matrix = _matrix(places, size, scale, kernel, reach, antialias, exclude_outside)
        x = _along(x, axis, weft.from_numpy(matrix))
    for axis, flags in outside:
        there = weft.from_numpy(flags).reshape([-1 if i == axis else 1 for i in range(x.ndim)])
        x = weft.where(there, weft.full((), extrapolation_value, dtype=x.dtype), x)
    return x


def _along(x: Tensor, axis: int, matrix: Tensor) -> Tensor:
    """A matrix times every row along an axis."""
    wide = x if x.dtype.is_floating_point else x.to(weft.float32)
    product = weft.matmul(wide.movedim(axis, -1), matrix.to(wide.dtype).t()).movedim(-1, axis)
    return product.to(x.dtype) if x.dtype.is_floating_point else weft.round(product).to(x.dtype)


@operator("Upsample")
def upsample(x: Tensor, scales: Host = None, *, scales_: list[float] | None = None, mode: str = "nearest") -> Tensor:
    factors = scales_ if scales is None else [float(s) for s in numbers(scales, "scales")]
    assert factors is not None
    for axis, scale in enumerate(factors):
        size = int(x.shape[axis])
        out = math.floor(size * scale)
        places = np.arange(out) / scale
        if out == size:
            continue
        if mode == "nearest":
            x = weft.index_select(x, axis, weft.from_numpy(np.floor(places).astype(np.int64)))
        else:
            x = _along(x, axis, weft.from_numpy(_matrix(places, size, scale, _linear, 1, 0, 0)))
    return x


@symbolic("nn::interpolate")
def write_interpolate(
    g: Any, x: Any, size: Any = None, scale_factor: Any = None, mode: Any = "nearest", align_corners: Any = None,
    recompute: Any = None, antialias: Any = False,
) -> Any:
    kinds = {"nearest": "nearest", "nearest-exact": "nearest", "linear": "linear", "bilinear": "linear",
             "trilinear": "linear", "bicubic": "cubic"}  # fmt: skip
    kind = kinds.get(g.known(mode))
    g.require(kind is not None and not g.known(antialias), f"interpolate with mode {g.known(mode)}")
    if kind == "nearest":
        exact = g.known(mode) == "nearest-exact"
        placed = "half_pixel" if exact else "asymmetric"
        named: dict[str, Any] = {"nearest_mode": "round_prefer_ceil" if exact else "floor"}
    else:
        named = {"cubic_coeff_a": -0.75}
        placed = "align_corners" if g.known(align_corners) else "half_pixel"
    rank = g.ndim(x) - 2
    options: dict[str, Any] = {"mode": kind, "coordinate_transformation_mode": placed, **named}
    if g.known(scale_factor) is not None:
        factors = [float(f) for f in g.each(scale_factor, rank)]
        if placed == "align_corners":  # ONNX aligns the corners of a size that it does not round
            has = [g.extent(x, i + 2) for i in range(rank)]
            g.require(None not in has, "interpolate with aligned corners, by a factor, of dynamic sizes")
            wanted = [math.floor(h * f) for h, f in zip(has, factors, strict=True)]
            return g.op("Resize", x, None, None, g.shape([g.size(x, 0), g.size(x, 1), *wanted]), **options)
        return g.op("Resize", x, None, g.constant([1.0, 1.0, *factors], weft.float32), **options)
    wanted = [size] * rank if not isinstance(size, (tuple, list)) else list(size)
    return g.op("Resize", x, None, None, g.shape([g.size(x, 0), g.size(x, 1), *wanted]), **options)


@operator("GridSample")
def grid_sample(
    x: Tensor, grid: Tensor, *, align_corners: int = 0, mode: str = "linear", padding_mode: str = "zeros"
) -> Tensor:
    names = {"linear": "bilinear", "bilinear": "bilinear", "cubic": "bicubic", "bicubic": "bicubic"}
    return F.grid_sample(x, grid, names.get(mode, mode), padding_mode, bool(align_corners))


@symbolic("nn::grid_sample")
def write_grid_sample(g: Any, x: Any, grid: Any, mode: Any, padding_mode: Any, align_corners: Any) -> Any:
    names = {"bilinear": "linear", "bicubic": "cubic"} if g.opset >= 20 else {}
    kind = names.get(g.known(mode), g.known(mode))
    padding = g.known(padding_mode)
    return g.op("GridSample", x, grid, mode=kind, padding_mode=padding, align_corners=int(bool(g.known(align_corners))))


@operator("AffineGrid")
def affine_grid(theta: Tensor, size: Host, *, align_corners: int = 0) -> Tensor:
    return F.affine_grid(theta, [int(n) for n in numbers(size, "size")], bool(align_corners))


@operator("RoiAlign")
def roi_align(
    x: Tensor, rois: Tensor, batches: Tensor, *, coordinate_transformation_mode: str = "half_pixel",
    mode: str = "avg", output_height: int = 1, output_width: int = 1, sampling_ratio: int = 0,
    spatial_scale: float = 1.0, opset: int,
) -> Tensor:
    half = 0.5 if coordinate_transformation_mode == "half_pixel" and opset >= 16 else 0.0
    results = []
    for row, batch in zip(rois.tolist(), batches.tolist(), strict=True):
        x1, y1, x2, y2 = (v * spatial_scale - half for v in row)
        width, height = x2 - x1, y2 - y1
        if not half:
            width, height = max(width, 1.0), max(height, 1.0)
        down, across = (
            sampling_ratio if sampling_ratio > 0 else max(math.ceil(n / m), 1)
            for n, m in ((height, output_height), (width, output_width))
        )
        image = x[int(batch)]
        ys = y1 + (np.arange(output_height * down) + 0.5) * height / (output_height * down)
        xs = x1 + (np.arange(output_width * across) + 0.5) * width / (output_width * across)
        results.append(_pooled(image, ys, xs, (output_height, down, output_width, across), mode))
    return weft.stack(results)


def _pooled(
    image: Tensor, ys: Array, xs: Array, shape: tuple[int, ...], mode: str
) -> Tensor:
    rows, columns = (_samples(v, int(n)) for v, n in ((ys, image.shape[1]), (xs, image.shape[2])))
    groups = (image.shape[0], *shape)
    if mode == "avg":
        both = weft.matmul(weft.matmul(_two(rows, image), image), _two(columns, image).t())
        return weft.mean(both.reshape(groups), [2, 4])
    parts = [  # the largest of the four products, not of their sum
        (w[:, None] * v[None, :], weft.index_select(weft.index_select(image, 1, i), 2, j))
        for w, i in _taps(rows, image) for v, j in _taps(columns, image)
    ]
    products = weft.stack([w * part for w, part in parts])
    return weft.amax(weft.amax(products, 0).reshape(groups), [2, 4])


def _samples(places: Array, size: int) -> Any:
    """Two neighbours of each place, with their weights; nothing beyond the edge."""
    inside = (places >= -1) & (places <= size)
    at = np.clip(places, 0, None)
    low = np.minimum(np.floor(at).astype(np.int64), size - 1)
    high = np.minimum(low + 1, size - 1)
    rest = np.where(low >= size - 1, 0.0, at - low)
    return low, high, np.where(inside, 1 - rest, 0), np.where(inside, rest, 0), size


def _two(samples: Any, like: Tensor) -> Tensor:
    low, high, near, far, size = samples
    matrix = np.zeros((len(low), size))
    np.add.at(matrix, (np.arange(len(low)), low), near)
    np.add.at(matrix, (np.arange(len(low)), high), far)
    return weft.from_numpy(matrix).to(like.dtype)


def _taps(samples: Any, like: Tensor) -> Any:
    low, high, near, far, _ = samples
    return [
        (weft.from_numpy(w).to(like.dtype), weft.from_numpy(np.ascontiguousarray(i)))
        for w, i in ((near, low), (far, high))
    ]

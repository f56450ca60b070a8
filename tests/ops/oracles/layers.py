"""Normalization, attention, tables of rows, images looked up and resized."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from tests.ops.oracles.pointwise import softmax
from tests.ops.oracles.table import given_floats as given
from weft.catalogue.samples import F, I, P, case

Array = Any


def affine(x: Array, weight: Any, bias: Any) -> Array:
    x = x if weight is None else x * weight
    return x if bias is None else x + bias


def moments(x: Array, axes: tuple[int, ...], eps: float) -> tuple[Array, Array]:
    return x.mean(axes, keepdims=True), 1 / np.sqrt(x.var(axes, keepdims=True) + eps)


def layer_norm(x: Array, shape: Any, weight: Any, bias: Any, eps: float, *_: Any) -> Array:
    mean, scale = moments(x, tuple(range(-len(shape), 0)), eps)
    return affine((x - mean) * scale, weight, bias)


def channel(v: Any, ndim: int) -> Any:
    return None if v is None else v.reshape((-1,) + (1,) * (ndim - 2))


def group_norm(x: Array, groups: int, weight: Any, bias: Any, eps: float, *_: Any) -> Array:
    parts = x.reshape(x.shape[0], groups, -1)
    mean, scale = moments(parts, (-1,), eps)
    return affine(((parts - mean) * scale).reshape(x.shape), channel(weight, x.ndim), channel(bias, x.ndim))


def batch_norm(x: Array, mean: Any, var: Any, weight: Any, bias: Any, eps: float) -> Array:
    out = (x - channel(mean, x.ndim)) / np.sqrt(channel(var, x.ndim) + eps)
    return affine(out, channel(weight, x.ndim), channel(bias, x.ndim))


def over_batch(x: Array) -> tuple[Array, Array]:
    axes = (0, *range(2, x.ndim))
    return x.mean(axes), x.var(axes)


def running_norm(
    x: Array, mean: Any, var: Any, weight: Any, bias: Any, training: bool, momentum: float, eps: float
) -> Array:
    return batch_norm(x, *(over_batch(x) if training else (mean, var)), weight, bias, eps)


def instance_norm(
    x: Array, mean: Any, var: Any, weight: Any, bias: Any, own: bool, momentum: float, eps: float
) -> Array:
    return group_norm(x, x.shape[1], weight, bias, eps) if own else batch_norm(x, mean, var, weight, bias, eps)


given(
    "layer_norm", layer_norm, case(F(3, 4), (4,)), case(F(2, 3, 4), (3, 4), F(3, 4), F(3, 4), 1e-3),
    case(F(5, 6), (6,), F(6)),
)
given("native_layer_norm", lambda x, shape, weight, bias, eps: (
    layer_norm(x, shape, weight, bias, eps), *moments(x, tuple(range(-len(shape), 0)), eps)
))
given("group_norm", group_norm)
given("rms_norm", lambda x, shape, weight, eps: affine(
    x / np.sqrt(
        (x**2).mean(tuple(range(-len(shape), 0)), keepdims=True) + (np.finfo(x.dtype).eps if eps is None else eps)
    ),
    weight, None,
))
given(
    "batch_norm_train", lambda x, weight, bias, eps: (batch_norm(x, *over_batch(x), weight, bias, eps), *over_batch(x))
)
given("batch_norm_eval", lambda x, weight, bias, mean, var, eps: batch_norm(x, mean, var, weight, bias, eps),
      case(F(3, 2, 4), F(2), F(2), F(2), P(2), 1e-3), case(F(3, 2), None, None, F(2), P(2), 1e-5))
given(
    "nn::batch_norm", running_norm, case(F(3, 2, 4), F(2), P(2), F(2), F(2)),
    case(F(4, 3), None, None, None, F(3), True),
)
given(
    "nn::instance_norm", instance_norm, case(F(2, 3, 4)), case(F(2, 3, 4), F(3), P(3), F(3), F(3), False),
    case(F(2, 2, 3, 3), weight=F(2), bias=F(2)),
)
given(
    "nn::normalize", lambda x, p, dim, eps: x / np.maximum((np.abs(x)**p).sum(dim, keepdims=True)**(1 / p), eps),
    case(F(3, 4)), case(F(2, 3, 4), 3.0, -1),
)


def attention(
    q: Array, k: Array, v: Array, mask: Any, dropout: float, causal: bool, scale: float | None, gqa: bool
) -> Array:
    if gqa:
        k, v = (np.repeat(t, q.shape[-3] // t.shape[-3], -3) for t in (k, v))
    scores = q @ np.swapaxes(k, -2, -1) * (scale if scale is not None else q.shape[-1]**-0.5)
    if causal:
        mask = np.tri(q.shape[-2], k.shape[-2], dtype=bool)
    if mask is not None:
        scores = np.where(mask, scores, -np.inf) if mask.dtype == bool else scores + mask
    return softmax(scores, -1) @ v


given(
    "scaled_dot_product_attention", attention, case(F(2, 3, 4), F(2, 5, 4), F(2, 5, 2)),
    case(F(1, 2, 3, 4), F(1, 2, 3, 4), F(1, 2, 3, 4), is_causal=True),
    case(F(3, 4), F(5, 4), F(5, 2), F(3, 5), scale=0.3),
    case(F(1, 4, 3, 2), F(1, 2, 5, 2), F(1, 2, 5, 2), enable_gqa=True),
)


def whole_attention(
    q: Array, k: Array, v: Array, mask: Any, causal: bool, scale: float
) -> Array:
    return attention(q, k, v, mask, 0.0, causal, scale, False)


def attention_gradients(
    g: Array, q: Array, k: Array, v: Array, mask: Any, causal: bool, scale: float
) -> tuple[Array, Array, Array]:
    weights = attention(q, k, np.eye(k.shape[-2], dtype=k.dtype), mask, 0.0, causal, scale, False)
    of_weights = g @ np.swapaxes(v, -2, -1)
    of_scores = weights * (of_weights - (weights * of_weights).sum(-1, keepdims=True)) * scale
    return of_scores @ k, np.swapaxes(of_scores, -2, -1) @ q, np.swapaxes(weights, -2, -1) @ g


given("_attention", whole_attention)
given("_attention_backward", attention_gradients)


def embedding_bag(
    index: Array, weight: Array, offsets: Any, max_norm: Any, norm_type: Any, by_frequency: bool, mode: str,
    sparse: bool, scales: Any, last: bool, padding: Any,
) -> Array:
    if index.ndim == 2:
        bags = [(row, None if scales is None else scales[i]) for i, row in enumerate(index)]
    else:
        ends = [*offsets, *([] if last else [len(index)])]
        bags = [(index[a:b], None if scales is None else scales[a:b]) for a, b in itertools.pairwise(ends)]
    out = np.zeros((len(bags), weight.shape[1]), weight.dtype)
    for i, (rows, factors) in enumerate(bags):
        kept = rows != padding if padding is not None else np.ones(rows.shape, bool)
        values = weight[rows] * (1 if factors is None else factors[:, None])
        if kept.any():
            out[i] = {"sum": np.sum, "mean": np.mean, "max": np.max}[mode](values[kept], 0)
    return out


given(
    "nn::embedding", lambda index, weight, *_: weight[index], case(I(2, 3, high=5), F(5, 4)), case(I(high=5), F(5, 4))
)
given(
    "nn::embedding_bag", embedding_bag, case(I(3, 2, high=5), F(5, 4)),
    case(I(2, 3, high=5), F(5, 2), mode="sum", per_sample_weights=F(2, 3)),
    case(I(2, 3, high=5), F(5, 2), mode="max", padding_idx=2),
)


# ---- images
def affine_grid(theta: Array, size: Any, corners: bool | None) -> Array:
    ends = [1.0 if corners else 1 - 1 / n for n in size[2:]]
    axes = np.meshgrid(
        *(np.linspace(-e, e, n) if n > 1 else np.zeros(1) for e, n in zip(ends, size[2:], strict=True)), indexing="ij"
    )
    base = np.stack([*axes[::-1], np.ones_like(axes[0])], -1)
    return np.einsum("nij,...j->n...i", theta, base)


def reflected(x: float, low: float, high: float) -> float:
    if high <= low:
        return 0.0
    away = abs(x - low) % (2 * (high - low))
    return low + min(away, 2 * (high - low) - away)


def grid_sample(x: Array, grid: Array, mode: str, padding: str, corners: bool | None) -> Array:
    """Bilinear and nearest, in two dims."""
    out = np.zeros((*x.shape[:2], *grid.shape[1:3]), x.dtype)
    for n, i, j in np.ndindex(*grid.shape[:3]):
        at = []
        for c, size in zip(grid[n, i, j], x.shape[:1:-1], strict=True):
            place = (c + 1) / 2 * (size - 1) if corners else ((c + 1) * size - 1) / 2
            if padding == "reflection":
                place = reflected(place, 0 if corners else -0.5, size - 1 if corners else size - 0.5)
            at.append(min(max(place, 0), size - 1) if padding != "zeros" else place)
        cells = [
            [(int(np.round(p)), 1.0)] if mode == "nearest"
            else [(int(np.floor(p)), 1 - p + np.floor(p)), (int(np.floor(p)) + 1, p - np.floor(p))] for p in at
        ]
        for c0, w0 in cells[0]:
            for c1, w1 in cells[1]:
                if 0 <= c0 < x.shape[3] and 0 <= c1 < x.shape[2]:
                    out[n, :, i, j] += x[n, :, c1, c0] * w0 * w1
    return out


def interpolate(x: Array, size: Any, factor: Any, mode: str, corners: Any, recompute: Any, antialias: bool) -> Array:
    """Nearest and linear, dim by dim."""
    rank = x.ndim - 2
    factors = factor if isinstance(factor, tuple) else (factor,) * rank
    sizes = (
        [int(n * f) for n, f in zip(x.shape[2:], factors, strict=True)] if size is None
        else (size if isinstance(size, tuple) else (size,) * rank)
    )
    for axis, (n, target) in enumerate(zip(x.shape[2:], sizes, strict=True), start=2):
        exact = target == n if mode.endswith("linear") else (mode, rank) == ("nearest", 2) and target in (n, 2 * n)
        step = n / target if size is not None or recompute or exact else 1 / factors[axis - 2]
        rows = np.moveaxis(x, axis, 0)
        if mode == "nearest":
            found = [rows[min(int(np.floor(i * step)), n - 1)] for i in range(target)]
        elif mode == "area":
            found = [rows[i * n // target:-(-(i + 1) * n // target)].mean(0) for i in range(target)]
        else:
            found = []
            for i in range(target):
                place = i * (n - 1) / max(target - 1, 1) if corners else max((i + 0.5) * step - 0.5, 0)
                low = min(int(place), n - 1)
                found.append(rows[low] * (1 - place + low) + rows[min(low + 1, n - 1)] * (place - low))
        x = np.moveaxis(np.array(found), 0, axis)
    return x


given(
    "nn::affine_grid", affine_grid, case(F(2, 2, 3), (2, 1, 3, 4)),
    case(F(1, 3, 4), (1, 2, 2, 3, 2), align_corners=True),
)
given(
    "nn::grid_sample", grid_sample, case(F(2, 3, 4, 5), F(2, 2, 3, 2)),
    case(F(1, 2, 3, 4), F(1, 2, 2, 2), "bilinear", "border", True),
    case(F(1, 2, 3, 4), F(1, 2, 2, 2), "bilinear", "reflection"), case(F(1, 2, 3, 4), F(1, 3, 2, 2), "nearest"),
)
def grid_sample_3d(x: Array, grid: Array, mode: int, padding: int, corners: bool) -> Array:
    """Linear, with zeros outside, from centre to centre: planes weighed by how near they are."""
    batch, *inner = grid.shape[:-1]
    places = np.reshape(grid[..., :2], (batch, -1, 1, 2))
    depth = (grid[..., 2] + 1) / 2 * (x.shape[2] - 1)
    total = np.zeros((batch, x.shape[1], *inner), x.dtype)
    for d in range(x.shape[2]):
        plane = grid_sample(x[:, :, d], places, "bilinear", "zeros", True)
        total = total + plane.reshape(total.shape) * np.maximum(0, 1 - abs(depth - d))[:, None]
    return total


given("affine_grid_generator", affine_grid, case(F(2, 2, 3), (2, 1, 3, 4), False))
given(
    "grid_sampler grid_sampler_2d",
    lambda x, grid, mode, padding, corners: grid_sample(
        x, grid, ("bilinear", "nearest", "bicubic")[mode], ("zeros", "border", "reflection")[padding], corners
    ),
    case(F(2, 3, 4, 5), F(2, 2, 3, 2), 0, 0, False), case(F(1, 2, 3, 4), F(1, 2, 2, 2), 0, 1, True),
)
given("grid_sampler_3d", grid_sample_3d, case(F(1, 1, 2, 3, 4), P(1, 2, 2, 1, 3), 0, 0, True))
given(
    "nn::interpolate", interpolate, case(F(1, 2, 5), 3), case(F(1, 2, 3, 4), scale_factor=2.0, mode="bilinear"),
    case(F(1, 1, 4), 7, mode="linear", align_corners=True), case(F(1, 2, 4, 6), (2, 3), mode="area"),
    # factors that leave a size as it was, or double it all but exactly
    case(F(1, 2, 3), scale_factor=1.3, mode="linear"), case(F(1, 1, 3, 2), scale_factor=(1.3, 2.2)),
    case(F(1, 1, 3, 2, 2), scale_factor=(1.3, 1.4, 1.0), mode="trilinear"), case(F(1, 1, 3), scale_factor=1.3),
)

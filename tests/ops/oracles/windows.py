"""Convolution and pooling over any number of dims: loops over the windows."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from tests.ops.oracles.table import given_floats as given
from weft.catalogue.samples import F, case

Array = Any


def each(value: Any, rank: int) -> tuple[int, ...]:
    """One number for each dim."""
    values = value if isinstance(value, tuple) else (value,)
    return values * rank if len(values) == 1 else values


def convolve(x: Array, w: Array, bias: Any, stride: Any, padding: Any, dilation: Any, groups: int) -> Array:
    rank = w.ndim - 2
    if x.ndim == rank + 1:
        return convolve(x[None], w, bias, stride, padding, dilation, groups)[0]
    stride, dilation = each(stride, rank), each(dilation, rank)
    if padding == "valid":
        pads = [(0, 0)] * rank
    elif padding == "same":
        pads = [((k - 1) * d // 2, (k - 1) * d - (k - 1) * d // 2) for k, d in zip(w.shape[2:], dilation, strict=True)]
    else:
        pads = [(p, p) for p in each(padding, rank)]
    x = np.pad(x, [(0, 0), (0, 0), *pads])
    sizes = [
        (n - (k - 1) * d - 1) // s + 1 for n, k, d, s in zip(x.shape[2:], w.shape[2:], dilation, stride, strict=True)
    ]
    out = np.zeros((x.shape[0], w.shape[0], *sizes), np.result_type(x, w))
    per_group, channels = w.shape[0] // groups, x.shape[1] // groups
    for o, at in itertools.product(range(w.shape[0]), np.ndindex(*sizes)):
        first = o // per_group * channels
        window = x[(
            slice(None), slice(first, first + channels),
            *(slice(i * s, i * s + (k - 1) * d + 1, d) for i, s, k, d in zip(
                at, stride, w.shape[2:], dilation, strict=True
            )),
        )]
        out[(slice(None), o, *at)] = (window * w[o]).sum(tuple(range(1, rank + 2)))
    return out if bias is None else out + bias.reshape((-1,) + (1,) * rank)


def convolve_input(grad: Array, w: Array, size: Any, stride: Any, padding: Any, dilation: Any, groups: int) -> Array:
    """The input's share in a convolution: each output, times the weights, where its window was."""
    rank = w.ndim - 2
    stride, pads, dilation = each(stride, rank), each(padding, rank), each(dilation, rank)
    spatial = tuple(size)[-rank:]
    per_group, channels = w.shape[0] // groups, w.shape[1]
    wide = np.zeros(
        (grad.shape[0], channels * groups, *(
            n + 2 * p + s * k * d for n, p, s, k, d in zip(spatial, pads, stride, w.shape[2:], dilation, strict=True)
        )),
        np.result_type(grad, w),
    )
    for o, at in itertools.product(range(w.shape[0]), np.ndindex(*grad.shape[2:])):
        first = o // per_group * channels
        window = (
            slice(None), slice(first, first + channels),
            *(slice(i * s, i * s + (k - 1) * d + 1, d) for i, s, k, d in zip(
                at, stride, w.shape[2:], dilation, strict=True
            )),
        )
        wide[window] += grad[(slice(None), o, *at)].reshape((-1,) + (1,) * (rank + 1)) * w[o]
    return wide[(slice(None), slice(None), *(slice(p, p + n) for p, n in zip(pads, spatial, strict=True)))]


def convolve_weight(grad: Array, x: Array, size: Any, stride: Any, padding: Any, dilation: Any, groups: int) -> Array:
    """The weight's share: each output times its window, summed over the batch."""
    rank = x.ndim - 2
    stride, dilation = each(stride, rank), each(dilation, rank)
    x = np.pad(x, [(0, 0), (0, 0), *((p, p) for p in each(padding, rank))])
    kernel = tuple(size)[-rank:]
    per_group, channels = grad.shape[1] // groups, x.shape[1] // groups
    out = np.zeros((grad.shape[1], channels, *kernel), np.result_type(grad, x))
    for o, at in itertools.product(range(grad.shape[1]), np.ndindex(*grad.shape[2:])):
        first = o // per_group * channels
        window = x[(
            slice(None), slice(first, first + channels),
            *(slice(i * s, i * s + (k - 1) * d + 1, d) for i, s, k, d in zip(at, stride, kernel, dilation, strict=True))
        )]
        out[o] += (window * grad[(slice(None), o, *at)].reshape((-1,) + (1,) * (rank + 1))).sum(0)
    return out


def transposed(
    x: Array, w: Array, bias: Any, stride: Any, padding: Any, output_padding: Any, groups: int, dilation: Any
) -> Array:
    rank = w.ndim - 2
    if x.ndim == rank + 1:
        return transposed(x[None], w, bias, stride, padding, output_padding, groups, dilation)[0]
    size = [(n - 1) * s - 2 * p + (k - 1) * d + o + 1 for n, s, p, k, d, o in zip(
        x.shape[2:], each(stride, rank), each(padding, rank), w.shape[2:], each(dilation, rank),
        each(output_padding, rank), strict=True)]
    out = convolve_input(x, w, size, stride, padding, dilation, groups)
    return out if bias is None else out + bias.reshape((-1,) + (1,) * rank)


given(
    "conv1d", convolve, case(F(2, 2, 6), F(3, 2, 3)),
    case(F(1, 4, 7), F(2, 2, 3), F(2), stride=2, padding=1, dilation=2, groups=2), case(F(2, 5), F(3, 2, 2)),
)
given(
    "conv2d", convolve, case(F(1, 2, 4, 5), F(3, 2, 3, 2)),
    case(F(1, 2, 5, 3), F(2, 1, 2, 2), F(2), stride=(2, 1), padding=1, groups=2), case(F(2, 4, 4), F(1, 2, 3, 3)),
)
given(
    "conv3d", convolve, case(F(1, 1, 3, 3, 4), F(2, 1, 2, 2, 2)),
    case(F(1, 1, 3, 3, 3), F(2, 1, 2, 1, 2), F(2), padding=(1, 0, 1)),
)
given(
    "conv1d.padding", convolve, case(F(2, 2, 6), F(3, 2, 3), None, 1, "same"),
    case(F(2, 2, 6), F(3, 2, 2), None, 2, "valid"),
)
given(
    "conv2d.padding", convolve, case(F(1, 2, 4, 5), F(3, 2, 3, 2), None, 1, "same"),
    case(F(1, 2, 4, 5), F(3, 2, 3, 3), F(3), 1, "valid"),
)
given("conv3d.padding", convolve, case(F(1, 1, 3, 3, 4), F(2, 1, 2, 1, 3), None, 1, "same"))
given(
    "_convolve",
    lambda x, w, size, stride, padding, dilation, groups: convolve(x, w, None, stride, padding, dilation, groups),
)
given("_convolve_input", convolve_input)


def plus(y: Array, bias: Any) -> Array:
    return y if bias is None else y + bias.reshape((-1,) + (1,) * (y.ndim - 2))


given(
    "_convolution",
    lambda x, w, bias, size, stride, padding, dilation, groups: convolve(x, w, bias, stride, padding, dilation, groups),
    case(F(2, 2, 5), F(3, 2, 3), F(3), (5,), (1,), (1,), (1,), 1),
    case(F(1, 4, 5, 4), F(2, 2, 2, 3), None, (3, 2), (2, 1), (1, 0), (1, 1), 2),
)
given(
    "_convolution_transposed", lambda x, w, bias, *rest: plus(convolve_input(x, w, *rest), bias),
    case(F(2, 3, 5), F(3, 2, 3), F(2), (5,), (1,), (1,), (1,), 1),
    case(F(1, 2, 2, 2), F(2, 2, 2, 2), None, (4, 4), (2, 2), (0, 0), (1, 1), 2),
)
given("_convolve_weight", convolve_weight)
given(
    "conv_transpose1d", transposed, case(F(2, 3, 4), F(3, 2, 3)),
    case(F(1, 4, 4), F(4, 1, 3), F(2), stride=2, padding=1, output_padding=1, groups=2),
)
given(
    "conv_transpose2d", transposed, case(F(1, 2, 3, 3), F(2, 2, 2, 3)),
    case(F(1, 2, 2, 3), F(2, 1, 3, 2), F(1), stride=2, padding=1, dilation=2, output_padding=1),
)
given("conv_transpose3d", transposed, case(F(1, 2, 2, 2, 2), F(2, 1, 2, 2, 2)))


# ---- pooling
def pooled_size(n: int, k: int, s: int, p: int, d: int, ceil: bool) -> int:
    span = n + 2 * p - d * (k - 1) - 1
    size = -(-span // s) + 1 if ceil else span // s + 1
    return size - 1 if ceil and (size - 1) * s >= n + p else size


def places(n: int, i: int, k: int, s: int, p: int, d: int) -> list[int]:
    """The coordinates of window i that lie inside."""
    return [c for c in range(i * s - p, i * s - p + (k - 1) * d + 1, d) if 0 <= c < n]


def max_pool(
    x: Array, kernel: Any, stride: Any, padding: Any, dilation: Any, ceil: bool, rank: int
) -> tuple[Array, Array]:
    kernel = each(kernel, rank)
    stride, pads, dilation = each(stride or kernel, rank), each(padding, rank), each(dilation, rank)
    spatial, lead = x.shape[-rank:], x.shape[:-rank]
    sizes = [pooled_size(*what, ceil) for what in zip(spatial, kernel, stride, pads, dilation, strict=True)]
    out, index = np.zeros((*lead, *sizes), x.dtype), np.zeros((*lead, *sizes), np.int64)
    for at in np.ndindex(*lead, *sizes):
        axes = [
            places(n, i, k, s, p, d)
            for n, i, k, s, p, d in zip(spatial, at[len(lead):], kernel, stride, pads, dilation, strict=True)
        ]
        best = max(itertools.product(*axes), key=lambda c, at=at: x[at[:len(lead)] + c])
        out[at], index[at] = x[at[:len(lead)] + best], np.ravel_multi_index(best, spatial)
    return out, index


def window_maxima(x: Array, kernel: Any, stride: Any, before: Any, after: Any, dilation: Any) -> tuple[Array, Array]:
    """The greatest of each window, and its place within the window."""
    rank = len(kernel)
    lead = x.shape[:-rank]
    framed = np.pad(x, [(0, 0)] * len(lead) + list(zip(before, after, strict=True)), constant_values=-np.inf)
    sizes = [
        (n - (k - 1) * d - 1) // s + 1
        for n, k, d, s in zip(framed.shape[-rank:], kernel, dilation, stride, strict=True)
    ]
    out, picked = np.zeros((*lead, *sizes), x.dtype), np.zeros((*lead, *sizes), np.int64)
    for at in np.ndindex(*sizes):
        window = framed[(
            ...,
            *(slice(i * s, i * s + (k - 1) * d + 1, d) for i, s, k, d in zip(at, stride, kernel, dilation, strict=True))
        )]
        flat = window.reshape(*lead, -1)
        out[(..., *at)], picked[(..., *at)] = flat.max(-1), flat.argmax(-1)
    return out, picked


def avg_pool(
    x: Array, kernel: Any, stride: Any, padding: Any, ceil: bool, count_pad: bool, divisor: int | None, rank: int
) -> Array:
    kernel = each(kernel, rank)
    stride, pads = each(stride or kernel, rank), each(padding, rank)
    spatial, lead = x.shape[-rank:], x.shape[:-rank]
    sizes = [pooled_size(n, k, s, p, 1, ceil) for n, k, s, p in zip(spatial, kernel, stride, pads, strict=True)]
    out = np.zeros((*lead, *sizes), x.dtype)
    for at in np.ndindex(*lead, *sizes):
        axes = [
            places(n, i, k, s, p, 1)
            for n, i, k, s, p in zip(spatial, at[len(lead):], kernel, stride, pads, strict=True)
        ]
        whole = np.prod([
            min(i * s - p + k, n + p) - (i * s - p)
            for n, i, k, s, p in zip(spatial, at[len(lead):], kernel, stride, pads, strict=True)
        ])
        count = divisor or (whole if count_pad else np.prod([len(a) for a in axes]))
        out[at] = sum(x[at[:len(lead)] + c] for c in itertools.product(*axes)) / count
    return out


def adaptive(x: Array, size: Any, rank: int) -> Array:
    spatial, lead = x.shape[-rank:], x.shape[:-rank]
    sizes = [n if s is None else s for n, s in zip(spatial, each(size, rank), strict=True)]
    out = np.zeros((*lead, *sizes), x.dtype)
    for at in np.ndindex(*sizes):
        window = tuple(slice(i * n // s, -(-(i + 1) * n // s)) for i, n, s in zip(at, spatial, sizes, strict=True))
        out[(..., *at)] = x[(..., *window)].mean(tuple(range(-rank, 0)))
    return out


def back_to_maxima(
    g: Array, picked: Array, size: Any, kernel: Any, stride: Any, before: Any, dilation: Any
) -> Array:
    """Each element added where its window's greatest was."""
    lead = g.shape[: g.ndim - len(kernel)]
    out = np.zeros((*lead, *size), g.dtype)
    for at in np.ndindex(*g.shape):
        inside = np.unravel_index(picked[at], kernel)
        place = [i * s - b + k * d for i, s, b, k, d in zip(
            at[len(lead):], stride, before, inside, dilation, strict=True)]
        out[(*at[: len(lead)], *place)] += g[at]
    return out


given("_max_pool", window_maxima)
given("_max_pool_input", back_to_maxima)


def at_picked(x: Array, picked: Array, kernel: Any, stride: Any, before: Any, dilation: Any) -> Array:
    """The element of each window that its number says."""
    lead = picked.ndim - len(kernel)
    out = np.zeros(picked.shape, x.dtype)
    for at in np.ndindex(*picked.shape):
        inside = np.unravel_index(picked[at], kernel)
        place = [i * s - b + k * d for i, s, b, k, d in zip(
            at[lead:], stride, before, inside, dilation, strict=True)]
        out[at] = x[(*at[:lead], *place)]
    return out


given("_max_pool_picked", at_picked)
_SHAPES = {1: (F(1, 2, 7), F(2, 6)), 2: (F(1, 2, 5, 4), F(2, 4, 5)), 3: (F(1, 1, 4, 3, 4), F(1, 3, 4, 3))}
for _rank, (_full, _single) in _SHAPES.items():
    given(f"max_pool{_rank}d", lambda x, k, s, p, d, ceil, rank=_rank: max_pool(x, k, s, p, d, ceil, rank)[0],
          case(_full, 2), case(_single, 3, 2, 1), case(_full, 2, 2, 1, 1, True))
    given(
        f"max_pool{_rank}d_with_indices", lambda x, k, s, p, d, ceil, rank=_rank: max_pool(x, k, s, p, d, ceil, rank),
        case(_full, 2), case(_single, 2, 1, 1, 2),
    )
    given(
        f"nn::max_pool{_rank}d",
        lambda x, k, s, p, d, ceil, both, rank=_rank: max_pool(x, k, s, p, d, ceil, rank)[slice(None) if both else 0],
        case(_full, 2), case(_single, 3, 2, 1), case(_full, 2, return_indices=True),
    )
    given(
        f"avg_pool{_rank}d",
        lambda x, k, s, p, ceil, pad, divisor=None, rank=_rank: avg_pool(x, k, s, p, ceil, pad, divisor, rank),
        case(_full, 2), case(_single, 3, 2, 1), case(_full, 2, 2, 1, True, False), case(_full, 2, 2, 1, True, True),
    )
    given(
        f"nn::adaptive_avg_pool{_rank}d", lambda x, size, rank=_rank: adaptive(x, size, rank), case(_full, 2),
        case(_single, 3), case(_full, (1,) * _rank),
    )


def unpool(x: Array, indices: Array, kernel: Any, stride: Any, padding: Any, output_size: Any, rank: int) -> Array:
    kernel = each(kernel, rank)
    stride, pads = each(stride or kernel, rank), each(padding, rank)
    size = (
        tuple(output_size)[-rank:] if output_size
        else tuple((n - 1) * s + k - 2 * p for n, s, k, p in zip(x.shape[-rank:], stride, kernel, pads, strict=True))
    )
    out = np.zeros((*x.shape[:-rank], int(np.prod(size))), x.dtype)
    for at in np.ndindex(x.shape):
        out[(*at[:-rank], indices[at])] = x[at]
    return out.reshape(*x.shape[:-rank], *size)


def _places(*dims: int, high: int) -> Any:
    """Distinct places below high, as of windows that do not overlap."""
    def samples(rng: Any) -> list[Any]:
        count = int(np.prod(dims[2:]))
        at = np.stack([rng.permutation(high)[:count] for _ in range(int(np.prod(dims[:2])))]).reshape(dims)
        return [((rng.uniform(-2, 2, dims), at, 2), {}), ((rng.uniform(-2, 2, dims[1:]), at[0], 2, 2), {})]

    return samples


for _rank, _dims in ((1, (2, 2, 3)), (2, (1, 2, 2, 3)), (3, (1, 1, 2, 2, 2))):
    given(
        f"nn::max_unpool{_rank}d", lambda *args, rank=_rank: unpool(*args, rank),
        _places(*_dims, high=int(np.prod(_dims[2:])) * 2**_rank),
    )


def columns(x: Array, kernel: Any, dilation: Any, padding: Any, stride: Any) -> Array:
    if x.ndim == 3:
        return columns(x[None], kernel, dilation, padding, stride)[0]
    (k0, k1), (d0, d1), (p0, p1), (s0, s1) = (each(v, 2) for v in (kernel, dilation, padding, stride))
    x = np.pad(x, [(0, 0), (0, 0), (p0, p0), (p1, p1)])
    rows, cols = (x.shape[2] - (k0 - 1) * d0 - 1) // s0 + 1, (x.shape[3] - (k1 - 1) * d1 - 1) // s1 + 1
    out = [x[:, c, a * d0:a * d0 + (rows - 1) * s0 + 1:s0, b * d1:b * d1 + (cols - 1) * s1 + 1:s1].reshape(len(x), -1)
           for c in range(x.shape[1]) for a in range(k0) for b in range(k1)]
    return np.stack(out, 1)


given("nn::unfold", columns, case(F(1, 2, 4, 5), 2), case(F(2, 4, 4), (2, 1), 1, 1, 2))

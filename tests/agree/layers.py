"""Bodies for constructs.py whose values and slopes NumPy knows in closed form: options of layers that are rarely used,
kernels that blocks share, parts that a mask picks. Eager mode is held to the closed form, other modes to eager mode.

`body(x, m)` takes a vector and a model with a number `w`, and gives a vector of the same size.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import weft

F = weft.nn.functional
Array = np.ndarray[Any, Any]
HALF = 0.3


@dataclass(frozen=True)
class Layer:
    """A body. value(x, w): what it gives; gradient(x, w, g): of x for gradients g of its results, None where
    differences of `value` say it. does: as a leaf (constructs.py) says it."""

    body: Callable[[Any, Any], Any]
    value: Callable[[Array, float], Array]
    gradient: Callable[[Array, float, Array], Array] | None = None
    does: str = ""


# ---- a table whose last row is padding
def looked_up(x: Any, m: Any) -> Any:
    rows = x.shape[0]
    index = weft.arange(rows, device=x.device) * 2 % rows
    return F.embedding(index, (x * m.w)[:, None], padding_idx=-1)[:, 0]


def _index(x: Array) -> Array:
    return np.arange(len(x)) * 2 % len(x)


def _without_the_last_row(x: Array, w: float, g: Array) -> Array:
    out = np.zeros_like(x)
    np.add.at(out, _index(x), g * w)
    out[-1] = 0
    return out


# ---- interpolation by a factor that leaves small sizes as they are
def resized(x: Any, m: Any) -> Any:
    return F.interpolate((x * m.w)[None, None], scale_factor=1.3, mode="linear")[0, 0, : x.shape[0]]


def _resized(x: Array, w: float) -> Array:
    n = len(x)
    if math.floor(n * 1.3) == n:
        return x * w
    at = np.maximum((np.arange(n) + 0.5) / 1.3 - 0.5, 0)
    low = np.floor(at).astype(int)
    high, part = np.minimum(low + 1, n - 1), at - low
    return w * (x[low] * (1 - part) + x[high] * part)


# ---- weights that do not divide
def weighted(x: Any, m: Any) -> Any:
    weight = weft.arange(1, x.shape[0] + 1, dtype=x.dtype, device=x.device)
    return x * m.w + F.huber_loss(x * m.w, weft.zeros_like(x), delta=HALF, weight=weight)


def _weighted(x: Array, w: float) -> Array:
    size = np.abs(x * w)
    loss = np.where(size <= HALF, 0.5 * size**2, HALF * (size - 0.5 * HALF))
    return x * w + (loss * np.arange(1, len(x) + 1)).mean()


# ---- dropout of whole channels without a batch: each is nothing, or doubled
def channels(x: Any, m: Any) -> Any:
    y = x * m.w
    kept = F.dropout1d(y[:, None].expand(-1, 4), 0.5, True).mean(1)
    return y + (kept * (kept - 2 * y)).detach()


# ---- half precision rounds a sum once
def halves(x: Any, m: Any) -> Any:
    narrow = x.to(weft.float16)
    weight = weft.full((1, 1), 0.7, dtype=weft.float16, device=x.device)
    bias = weft.full((1,), -0.3, dtype=weft.float16, device=x.device)
    return F.linear(narrow[:, None], weight, bias)[:, 0].detach().to(x.dtype) + x * m.w


def _halves(x: Array, w: float) -> Array:
    weight, bias = (float(np.float16(v)) for v in (0.7, -0.3))
    return (x.astype(np.float16).astype(np.float64) * weight + bias).astype(np.float16).astype(np.float64) + x * w


# ---- far out
def far(x: Any, m: Any) -> Any:
    return weft.special.log_ndtr(x * 60) * 0.01 + x * m.w


def _log_ndtr(v: float) -> float:
    if v > -20:
        return math.log(0.5 * math.erfc(-v / math.sqrt(2)))
    term, total = 1.0, 1.0
    for k in range(1, 12):
        term *= -(2 * k - 1) / (v * v)
        total += term
    return -0.5 * v * v - math.log(-v) - 0.5 * math.log(2 * math.pi) + math.log(total)


def _far(x: Array, w: float) -> Array:
    return np.array([_log_ndtr(v) for v in x * 60]) * 0.01 + x * w


# ---- one kernel in a branch and outside of it
def shared(x: Any, m: Any) -> Any:
    y = x * m.w
    whole = y[:, None] * y
    chosen = weft.cond(y.sum() > 0, lambda a: a @ a, lambda a: a.t() @ a * 2, (whole,))
    return (chosen + whole @ whole).sum(0) * 0.1 + y


def _shared(x: Array, w: float) -> Array:
    y = x * w
    whole = np.outer(y, y)
    return (whole @ whole * (2 if y.sum() > 0 else 3)).sum(0) * 0.1 + y


# ---- a branch that does not fit, and is not taken
def untaken(x: Any, m: Any) -> Any:
    return weft.cond(x.detach().sum() > 1e9, lambda v: v.reshape(99, 7)[0, 0] + v, lambda v: v * m.w, (x,))


# ---- what a mask picks, sorted and written
def picked(x: Any, m: Any) -> Any:
    part = weft.sort((x * m.w)[x.detach() > 0])[0]
    part[:1] = 0.5
    return x * m.w + part.sum()


def _picked(x: Array, w: float) -> Array:
    part = np.sort((x * w)[x > 0])
    part[:1] = 0.5
    return x * w + part.sum()


# ---- a list of lengths
def pieces(x: Any, m: Any) -> Any:
    return weft.cat([piece * m.w * (i + 1) for i, piece in enumerate(x.split(m.lengths(len(x))))])


def _pieces(x: Array, w: float) -> Array:
    first = max(len(x) - 2, 1)
    return x * w * np.where(np.arange(len(x)) < first, 1, 2)


# ---- each element is made of others
def turned(x: Any, m: Any) -> Any:
    return x.flip(0) * m.w + x.roll(1)


LAYERS = {
    layer.body.__name__: layer
    for layer in (
        Layer(looked_up, lambda x, w: (x * w)[_index(x)], _without_the_last_row),
        Layer(resized, _resized, does="guards"),
        Layer(weighted, _weighted), Layer(channels, lambda x, w: x * w, does="numbers"),
        Layer(halves, _halves, lambda x, w, g: g * w), Layer(far, _far), Layer(shared, _shared),
        Layer(untaken, lambda x, w: x * w, does="misfit"), Layer(picked, _picked, does="sizes"), Layer(pieces, _pieces),
        Layer(turned, lambda x, w: x[::-1] * w + np.roll(x, 1)),
    )
}


def gradient_of(layer: Layer, x: Array, w: float, g: Array) -> Array:
    """The gradient of (value * g).sum() by x."""
    if layer.gradient is not None:
        return layer.gradient(x, w, g)
    out, step = np.zeros_like(x), 1e-6
    for i in range(len(x)):
        moved = np.eye(len(x))[i] * step
        out[i] = ((layer.value(x + moved, w) - layer.value(x - moved, w)) * g).sum() / (2 * step)
    return out

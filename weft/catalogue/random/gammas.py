"""Gamma, Dirichlet and von Mises numbers, each element's from its own stream (streams.py), and the gradients of gamma
and Dirichlet numbers by their parameters.

Gamma: G. Marsaglia, W. W. Tsang, "A simple method for generating gamma variables" (2000), of logarithms, so that small
parameters do not underflow. Von Mises: D. J. Best, N. I. Fisher, "Efficient simulation of the von Mises distribution"
(1979). A number x with the distribution function F(x; a) moves with a by -dF/da / F' (M. Figurnov, S. Mohamed,
A. Mnih, "Implicit reparameterization gradients", 2018).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from weft.catalogue.random.factories import drawn_bits
from weft.catalogue.random.streams import (
    check_floating,
    first_accepted,
    numbers_of_words,
    of_elements,
    uniform_of,
)
from weft.catalogue.special.gamma import digamma
from weft.ops.batching import same
from weft.ops.op import NOT_DIFFERENTIABLE, define
from weft.ops.packet import aten
from weft.ops.scalar_numpy import NUMPY
from weft.types.tensor_type import TensorType

Array = np.ndarray[Any, Any]


# ---- numbers
def _log_gamma_numbers(words: Array, shapes: Array) -> Array:
    """Logarithms of gamma numbers. A shape below 1 takes that of one more, times u**(1 / shape)."""
    d = np.where(shapes < 1.0, shapes + 1.0, shapes) - 1.0 / 3.0
    scale = 1.0 / np.sqrt(9.0 * d)

    def propose(at: Array, u: Array, v: Array, w: Array) -> tuple[Array, Array]:
        normal = np.sqrt(-2.0 * np.log(u)) * np.cos(2.0 * math.pi * v)
        root = 1.0 + scale[at] * normal
        is_inside = root > 0.0
        logarithm = 3.0 * np.log(np.where(is_inside, root, 1.0))
        limit = 0.5 * normal * normal + d[at] * (1.0 - root**3 + logarithm)
        return np.log(d[at]) + logarithm, is_inside & (np.log(w) < limit)

    drawn = first_accepted(words, propose, 3, first=1)
    with np.errstate(divide="ignore", over="ignore"):
        return np.where(shapes < 1.0, drawn + np.log(uniform_of(words, 0)) / shapes, drawn)


def _gamma_kernel(words: Array, shapes: Array) -> Array:
    """A shape of 0 gives 0, a negative one or NaN gives NaN."""

    def numbers(words: Array, shapes: Array) -> Array:
        is_drawn = (shapes > 0) & np.isfinite(shapes)
        out = np.where(shapes == 0, 0.0, np.where(shapes == math.inf, math.inf, math.nan))
        out[is_drawn] = np.exp(_log_gamma_numbers(words[is_drawn], shapes[is_drawn]))
        return out

    return of_elements(numbers, words, shapes)


def _dirichlet_kernel(words: Array, shapes: Array) -> Array:
    """Gamma numbers over their sums along the last dim: positive numbers of the dtype, and below 1."""
    positive = np.maximum(np.asarray(shapes, np.float64), np.finfo(np.float64).tiny)
    logs = of_elements(_log_gamma_numbers, words, positive)
    if not logs.size:
        return logs.astype(shapes.dtype)
    parts = np.exp(logs - logs.max(-1, keepdims=True))
    parts /= parts.sum(-1, keepdims=True)
    invalid = ~(np.asarray(shapes, np.float64) > 0)
    low, high = _open_interval(shapes.dtype)
    return np.where(invalid, math.nan, np.clip(parts, low, high)).astype(shapes.dtype)


def _open_interval(dtype: Any) -> tuple[float, float]:
    """The least normal number of a dtype, and the greatest below 1."""
    if dtype.kind != "f":  # bfloat16
        return 2.0**-126, 1.0 - 2.0**-8
    limits = np.finfo(dtype)
    return float(limits.tiny), 1.0 - float(limits.epsneg)


def _von_mises_kernel(words: Array, concentrations: Array) -> Array:
    def numbers(words: Array, kappa: Array) -> Array:
        tau = 1.0 + np.sqrt(1.0 + 4.0 * kappa * kappa)
        with np.errstate(all="ignore"):
            rho = (tau - np.sqrt(2.0 * tau)) / (2.0 * kappa)
            radius = np.where(kappa < 1e-5, 1.0 / kappa + kappa, (1.0 + rho * rho) / (2.0 * rho))

        def propose(at: Array, u: Array, v: Array, w: Array) -> tuple[Array, Array]:
            z, r = np.cos(math.pi * u), radius[at]
            with np.errstate(all="ignore"):
                cosine = np.where(np.isinf(r), z, (1.0 + r * z) / (r + z))
                c = np.where(np.isinf(r), 1.0, kappa[at] * (r - cosine))
                taken = (c * (2.0 - c) > v) | (np.log(c / v) + 1.0 >= c)
            angle = np.where(w < 0.5, -1.0, 1.0) * np.arccos(np.clip(cosine, -1.0, 1.0))
            return angle, taken | ~np.isfinite(kappa[at])

        return first_accepted(words, propose, 3)

    return of_elements(numbers, words, concentrations)


# ---- how numbers move with their parameters
_DROP = 40.0  # an integrand is left out where it is below exp(-40) of what it begins with
_BENDS = (-36.0, -12.0, -3.0, 3.0, 12.0, 36.0)  # between two of them an integrand is a polynomial but for rounding
_NEWTON = 16
_ROWS = 2048  # elements at a time


@functools.cache
def _rule() -> tuple[Array, Array]:
    """Nodes and weights of Gauss and Legendre."""
    nodes, weights = np.polynomial.legendre.leggauss(24)
    return np.asarray(nodes), np.asarray(weights)


def _digamma(x: Array) -> Array:
    assert digamma.scalar is not None
    values: Array = digamma.scalar(NUMPY, x)
    return values


def _softplus(y: Array) -> Array:
    return np.maximum(y, 0.0) + np.log1p(np.exp(-np.abs(y)))


def _tail(
    exponent: Callable[..., Array], slope: Callable[..., Array], statistic: Callable[[Array], Array],
    mean: Array, start: Array, sign: Array, reach: Array, parameters: tuple[Array, ...],
) -> Array:
    """The integral of |statistic(y) - mean| exp(exponent(y) - exponent(start)) from `start` upwards (sign 1) or
    downwards (-1). The exponent is concave. reach: how far from `start` it has dropped by at least _DROP."""
    base = exponent(start, *parameters)
    for _ in range(_NEWTON):  # towards the very drop, from beyond: the drop is a convex function
        at = start + sign * reach
        reach = reach - (base - exponent(at, *parameters) - _DROP) / (-sign * slope(at, *parameters))
    nodes, weights = _rule()
    wide, total, low = tuple(p[:, None] for p in parameters), np.zeros_like(reach), np.zeros_like(reach)
    for bend in (*_BENDS, math.inf):
        high = np.clip(bend - sign * start, 0.0, reach)
        at = np.flatnonzero(high > low)
        half, middle = (high[at] - low[at]) / 2, (high[at] + low[at]) / 2
        y = start[at, None] + sign[at, None] * (middle[:, None] + half[:, None] * nodes)
        values = np.abs(statistic(y) - mean[at, None]) * np.exp(exponent(y, *(p[at] for p in wide)) - base[at, None])
        total[at] += half * (values @ weights)
        low = high
    return total


def _gamma_slopes(shape: Array, x: Array) -> Array:
    """dx/da of gamma numbers x with shape a: with y = log t, the integral of (log t - digamma(a)) t**a exp(-t) over
    t beyond x, or of the negative below x, over x**(a - 1) exp(-x)."""
    mean, y = _digamma(shape), np.log(x)
    upward = y > mean
    high = np.where(
        x < 1.0, np.log1p((60.0 + shape * (np.abs(y) + 5.0)) / x), np.sqrt(2 * _DROP / x) + 2.0 / x + 2 * _DROP / x
    )
    return x * _tail(
        lambda y, a: a * y - np.exp(y), lambda y, a: a - np.exp(y), lambda y: y,
        mean, y, np.where(upward, 1.0, -1.0), np.where(upward, high, (_DROP + x) / shape), (shape,),
    )


def _beta_slopes(x: Array, a: Array, b: Array) -> Array:
    """dx/da / (1 - x) of beta numbers x: as for gamma numbers, with y = log(t / (1 - t))."""
    mean, y = _digamma(a) - _digamma(a + b), np.log(x) - np.log1p(-x)
    sign = np.where(np.log(x) > mean, 1.0, -1.0)

    def exponent(y: Array, a: Array, b: Array) -> Array:
        of_y: Array = -a * _softplus(-y) - b * _softplus(y)
        return of_y

    def slope(y: Array, a: Array, b: Array) -> Array:
        odds = np.exp(-np.abs(y))
        is_up = y > 0
        upper, lower = np.where(is_up, odds, 1.0), np.where(is_up, 1.0, odds)
        of_y: Array = (a * upper - b * lower) / (1.0 + odds)
        return of_y

    reach = (_DROP - exponent(y, a, b)) / np.where(sign > 0, b, a) - sign * y
    return x * _tail(exponent, slope, lambda y: -_softplus(-y), mean, y, sign, reach, (a, b))


def _in_rows(function: Callable[..., Array], dtype: Any, *operands: Array) -> Array:
    """`function` of flat float64 arrays, some elements at a time."""
    wide = np.broadcast_arrays(*(np.asarray(v, np.float64) for v in operands))
    flat = [v.reshape(-1) for v in wide]
    out = np.empty(flat[0].size)
    with np.errstate(all="ignore"):
        for i in range(0, out.size, _ROWS):
            out[i : i + _ROWS] = function(*(v[i : i + _ROWS] for v in flat))
    return out.reshape(wide[0].shape).astype(dtype)


def _gamma_slopes_kernel(shape: Array, output: Array) -> Array:
    low = np.finfo(np.float64).tiny
    return _in_rows(lambda a, x: _gamma_slopes(a, np.maximum(x, low)), output.dtype, shape, output)


def _dirichlet_slopes_kernel(x: Array, alpha: Array, total: Array) -> Array:
    limits = np.finfo(np.float64)

    def slopes(x: Array, a: Array, total: Array) -> Array:
        return _beta_slopes(np.clip(x, limits.tiny, 1.0 - limits.epsneg), a, np.maximum(total - a, limits.tiny))

    return _in_rows(slopes, x.dtype, x, alpha, total)


# ---- entries
def _slopes_type(first: TensorType, second: TensorType, *rest: TensorType) -> TensorType:
    check_floating(first, second, *rest)
    return first


def _slopes(name: str, parameters: str, doc: str, kernel: Callable[..., Array]) -> None:
    define(
        f"aten::{name}({parameters}) -> Tensor", doc,
        type=_slopes_type, kernel=kernel, vjp=NOT_DIFFERENTIABLE, batch=same, public=("weft",),
    )


_slopes(
    "_standard_gamma_grad", "Tensor self, Tensor output",
    "How fast gamma numbers move with their shapes: d output / d self.", _gamma_slopes_kernel,
)
_slopes(
    "_dirichlet_grad", "Tensor x, Tensor alpha, Tensor total",
    "How fast a part x of a Dirichlet number moves with its own alpha, over 1 - x. total: the sum of all alphas.",
    _dirichlet_slopes_kernel,
)


def _dirichlet_vjp(g: Any, result: Any, concentration: Any) -> Any:
    """A part moves with its own alpha, and takes what it gains from the others in proportion."""
    total = aten.expand(aten.sum(concentration, [-1], True), concentration.dims)
    return aten._dirichlet_grad(result, concentration, total) * (g - aten.sum(result * g, [-1], True))


numbers_of_words(
    "_gamma_numbers", "Tensor concentration", "A standard gamma number for each word of 64 random bits and its shape.",
    _gamma_kernel, vjp={"concentration": lambda g, result, concentration: g * aten._standard_gamma_grad(
        concentration, result
    )}, node="StandardGammaBackward0",
)
numbers_of_words(
    "_dirichlet_numbers", "Tensor concentration",
    "A Dirichlet number for each row of words of 64 random bits and its concentrations.",
    _dirichlet_kernel, vjp={"concentration": _dirichlet_vjp}, node="SampleDirichletBackward0",
)
numbers_of_words(
    "_von_mises_numbers", "Tensor concentration",
    "An angle around 0 for each word of 64 random bits and its concentration.",
    _von_mises_kernel, vjp=NOT_DIFFERENTIABLE,
)


def _draw_type(self: TensorType, generator: Any) -> TensorType:
    check_floating(self)
    return self


def _draws(name: str, inner: str, doc: str) -> None:
    define(
        f"aten::{name}(Tensor self, Generator? generator=None) -> Tensor", doc,
        type=_draw_type,
        decompose=lambda self, generator: getattr(aten, inner)(drawn_bits(self.dims, generator), self),
        effect="random",
        public=("weft",),
    )


_draws(
    "_standard_gamma", "_gamma_numbers",
    "Numbers of gamma distributions with rate 1, whose shapes self's elements are. Source: Marsaglia and Tsang.",
)
_draws(
    "_sample_dirichlet", "_dirichlet_numbers",
    "Numbers of Dirichlet distributions, whose concentrations are the rows along self's last dim.",
)
_draws(
    "_standard_von_mises", "_von_mises_numbers",
    "Angles of von Mises distributions around 0, whose concentrations self's elements are. Source: Best and Fisher.",
)

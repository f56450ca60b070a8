"""Random counts: poisson and binomial, each element's from its own stream (streams.py).

Small means are inverted by a search from 0 on; others are found by transformed rejection with squeeze, PTRS and BTRS:
W. Hoermann, "The transformed rejection method for generating Poisson random variables" (1993) and "The generation of
binomial random variates" (1993).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from weft.catalogue.families import no_formula
from weft.catalogue.pointwise.arithmetic import add
from weft.catalogue.random.factories import drawn_bits
from weft.catalogue.random.streams import first_accepted, numbers_of_words, of_elements, uniform_of
from weft.ops.op import define
from weft.ops.packet import aten
from weft.support.errors import NotForDType, StateError
from weft.types import dtype as dt
from weft.types.tensor_type import TensorType

Array = np.ndarray[Any, Any]
_SMALL = 10.0  # the mean from which on rejection is quicker than a search
_LARGEST = float(2**63)


# ---- numbers of one element
def _searched(words: Array, first: Array, factor: Callable[[int, Array], Array]) -> Array:
    """The smallest k whose cumulative probability reaches a uniform number. first: the probability of 0;
    factor(k, at): that of k over that of k - 1, of the elements `at`."""
    out, at = np.zeros(len(words)), np.arange(len(words))
    wanted, term = uniform_of(words, 0), first.copy()
    reached, k = first.copy(), 0
    while True:
        open_ = (wanted > reached) & (reached + term > reached)
        at, wanted, reached, term = at[open_], wanted[open_], reached[open_], term[open_]
        if not len(at):
            return out
        k += 1
        term = term * factor(k, at)
        reached = reached + term
        out[at] = k


_FACTORIALS = np.array([math.lgamma(k + 1.0) for k in range(10)])


def _tail(k: Array) -> Array:
    """What Stirling's formula leaves out: k! = sqrt(2 pi) (k + 1)**(k + 1/2) exp(tail - k - 1)."""
    n = k + 1.0
    square = 1.0 / (n * n)
    series = (1 / 12.0 - (1 / 360.0 - (1 / 1260.0 - square / 1680.0) * square) * square) / n
    small = np.clip(k, 0, 9).astype(np.int64)
    leading = 0.5 * math.log(2 * math.pi) + (small + 0.5) * np.log(small + 1.0) - (small + 1.0)
    exact: Array = np.where(k < 10, _FACTORIALS[small] - leading, series)
    return exact


def _log_factorial(k: Array) -> Array:
    logarithm: Array = 0.5 * math.log(2 * math.pi) + (k + 0.5) * np.log(k + 1.0) - (k + 1.0) + _tail(k)
    return logarithm


# ---- distributions
def _poisson_numbers(words: Array, rates: Array) -> Array:
    is_small = rates < _SMALL
    out = np.empty(len(rates))
    few = rates[is_small]
    out[is_small] = _searched(words[is_small], np.exp(-few), lambda k, at: few[at] / k)
    many = rates[~is_small]
    root, logs = np.sqrt(many), np.log(many)
    b = 0.931 + 2.53 * root
    a, scale, squeeze = -0.059 + 0.02483 * b, 1.1239 + 1.1328 / (b - 3.4), 0.9277 - 3.6224 / (b - 2.0)

    def propose(at: Array, uniform: Array, v: Array) -> tuple[Array, Array]:
        u = uniform - 0.5
        away = 0.5 - np.abs(u)
        k = np.floor((2.0 * a[at] / away + b[at]) * u + many[at] + 0.43)
        at_once = (away >= 0.07) & (v <= squeeze[at])
        never = (k < 0.0) | ((away < 0.013) & (v > away))
        held = np.maximum(k, 0.0)
        height = np.log(v) + np.log(scale[at]) - np.log(a[at] / (away * away) + b[at])
        below = height <= held * logs[at] - many[at] - _log_factorial(held)
        return k, at_once | (~never & below)

    out[~is_small] = first_accepted(words[~is_small], propose, 2)
    return out


def _binomial_numbers(words: Array, counts: Array, chances: Array) -> Array:
    is_turned = chances > 0.5
    p = np.where(is_turned, 1.0 - chances, chances)
    n = np.floor(counts)
    is_small = n * p < _SMALL
    out = np.empty(len(n))
    few, rare = n[is_small], p[is_small]
    odds = rare / (1.0 - rare)
    out[is_small] = _searched(
        words[is_small], np.exp(few * np.log1p(-rare)), lambda k, at: np.maximum(few[at] - k + 1.0, 0.0) / k * odds[at]
    )
    out[~is_small] = _likely(words[~is_small], n[~is_small], p[~is_small])
    return np.where(is_turned, n - out, out)


def _likely(words: Array, n: Array, p: Array) -> Array:
    """Binomial numbers with a mean of at least 10 and p at most 1/2."""
    root, odds = np.sqrt(n * p * (1.0 - p)), p / (1.0 - p)
    b = 1.15 + 2.53 * root
    a, middle, squeeze = -0.0873 + 0.0248 * b + 0.01 * p, n * p + 0.5, 0.92 - 4.2 / b
    scale, mode = (2.83 + 5.1 / b) * root, np.floor((n + 1.0) * p)
    of_mode = (mode + 0.5) * np.log((mode + 1.0) / (odds * (n - mode + 1.0))) + _tail(mode) + _tail(n - mode)

    def propose(at: Array, uniform: Array, v: Array) -> tuple[Array, Array]:
        u = uniform - 0.5
        away = 0.5 - np.abs(u)
        k = np.floor((2.0 * a[at] / away + b[at]) * u + middle[at])
        at_once = (away >= 0.07) & (v <= squeeze[at])
        never = (k < 0.0) | (k > n[at])
        held, rest = np.clip(k, 0.0, n[at]), n[at]
        height = np.log(v * scale[at] / (a[at] / (away * away) + b[at]))
        limit = (
            of_mode[at] + (rest + 1.0) * np.log((rest - mode[at] + 1.0) / (rest - held + 1.0))
            + (held + 0.5) * np.log(odds[at] * (rest - held + 1.0) / (held + 1.0)) - _tail(held) - _tail(rest - held)
        )
        return k, (at_once & ~never) | (~never & (height <= limit))

    return first_accepted(words, propose, 2)


# ---- entries
def _poisson_kernel(words: Array, rates: Array) -> Array:
    return of_elements(_poisson_numbers, words, rates)


def _binomial_kernel(words: Array, counts: Array, chances: Array) -> Array:
    """A count of 0 or less gives 0; a chance of 0 or less gives 0, one of 1 or more the count, NaN gives NaN."""

    def numbers(words: Array, counts: Array, chances: Array) -> Array:
        is_drawn = (counts > 0) & (chances > 0) & (chances < 1)
        certain = np.where((counts <= 0) | (chances <= 0), 0.0, np.where(chances >= 1, counts, np.nan))
        certain[is_drawn] = _binomial_numbers(words[is_drawn], counts[is_drawn], chances[is_drawn])
        return certain

    return of_elements(numbers, words, counts, chances)


numbers_of_words(
    "_poisson", "Tensor rate", "A number of a Poisson distribution for each word of 64 random bits and its rate.",
    _poisson_kernel, vjp={"rate": lambda g: aten.zeros_like(g)}, node="PoissonBackward0",
)
numbers_of_words(
    "_binomial", "Tensor count, Tensor prob",
    "A number of a binomial distribution for each word of 64 random bits, of so many trials with this chance.",
    _binomial_kernel, vjp=no_formula("binomial", "prob"),
)


def _poisson_type(self: TensorType, generator: Any) -> TensorType:
    if self.dtype is not None and not self.dtype.is_floating_point:
        raise NotForDType(f"poisson: not implemented for {self.dtype}; rates are floating point numbers")
    return self


def _poisson(self: Any, generator: Any) -> Any:
    rates = aten._checked_values(self, 0, _LARGEST, "invalid Poisson rate, expected rate to be non-negative")
    return aten._poisson(drawn_bits(self.dims, generator), rates)


define(
    "aten::poisson(Tensor self, *, Generator? generator=None) -> Tensor",
    "Numbers of Poisson distributions, whose rates self's elements are. Raises StateError for a rate that is negative, "
    "NaN or above 2**63. Source: Hoermann's PTRS.",
    type=_poisson_type,
    decompose=_poisson,
    effect="random",
    public=("weft",),
)


def _binomial_type(count: TensorType, prob: TensorType, generator: Any) -> TensorType:
    if count.dtype not in (None, dt.float32, dt.float64):
        raise NotForDType(f"binomial: not implemented for {count.dtype}; counts are float32 or float64 numbers")
    if count.dtype is not prob.dtype and None not in (count.dtype, prob.dtype):
        raise StateError(f"binomial: count and prob have one dtype, got {count.dtype} and {prob.dtype}")
    joined: TensorType = add.type(count, prob, 1)  # type: ignore[misc]
    return joined


def _binomial(count: Any, prob: Any, generator: Any) -> Any:
    count, prob = aten.broadcast_tensors((count, prob))
    return aten._binomial(drawn_bits(count.dims, generator), count, prob)


define(
    "aten::binomial(Tensor count, Tensor prob, *, Generator? generator=None) -> Tensor",
    "How many of `count` trials succeed, each with chance `prob`. Source: Hoermann's BTRS.",
    type=_binomial_type,
    decompose=_binomial,
    effect="random",
    public=("weft",),
)

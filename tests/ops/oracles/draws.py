"""Random numbers: the bits of one counter from integers alone, and the distribution of every operator that draws,
as a cumulative function."""

from __future__ import annotations

import math
from collections.abc import Callable
from statistics import NormalDist
from typing import Any

import numpy as np

from tests.ops.oracles.table import given
from weft.catalogue.samples import B, F, I, P, case
from weft.types import dtype as dt

Array = Any
_WORD = (1 << 64) - 1


def squares(counter: int, key: int) -> int:
    """Widynski's counter-based generator (2020), five rounds."""
    y = x = counter * key & _WORD
    z = y + key & _WORD

    def turned(v: int) -> int:
        return (v >> 32 | v << 32) & _WORD

    x = turned(x * x + y & _WORD)
    x = turned(x * x + z & _WORD)
    x = turned(x * x + y & _WORD)
    last = x * x + z & _WORD
    x = turned(last)
    return last ^ (x * x + y & _WORD) >> 32


def four_rounds(counter: int, key: int) -> int:
    y = x = counter * key & _WORD
    z = y + key & _WORD
    for add in (y, z, y):
        x = x * x + add & _WORD
        x = (x >> 32 | x << 32) & _WORD
    return (x * x + z & _WORD) >> 32


def over(function: Callable[[int], Any], counter: Array, dtype: Any) -> Array:
    return np.array([function(int(c)) for c in counter.reshape(-1)], dtype).reshape(counter.shape)


def bits(counter: Array, key: int, width: int) -> Array:
    return over(
        lambda c: np.uint64(squares(c, key)).astype(np.int64) if width == 64 else four_rounds(c, key), counter, np.int64
    )


def normal_of(word: int) -> float:
    size = NormalDist().inv_cdf(((word & (1 << 53) - 1) + 0.5) * 2.0**-54)
    return size if word >> 63 else -size


_KEY = 0x548C9DECBCE65297
given("_random_bits", bits, case(I(3, 4, high=99), _KEY), case(I(5, high=99), _KEY, 32))
given(
    "_uniform", lambda counter, key, dtype: over(lambda c: (squares(c, key) >> 11) * 2.0**-53, counter, float),
    case(I(3, 4, high=99), _KEY, dtype=dt.float64),
)
given(
    "_normal", lambda counter, key, dtype: over(lambda c: normal_of(squares(c, key)), counter, float),
    case(I(3, 4, high=99), _KEY, dtype=dt.float64),
)
given("_random_integer", lambda counter, key, low, high: over(
    lambda c: (squares(c, key) & (1 << 63) - 1) % (high - low) + low, counter, np.int64
), case(I(3, 4, high=99), _KEY, -3, 12))
given("_random_wide_integer", lambda counter, key, low, high: over(
    lambda c: ((squares(c, key) << 64 | squares(-1 - c, key)) * ((high - low) % 2**64 or 2**64) >> 128) + low,
    counter, np.int64,
), *(case(I(3, 4, high=99), _KEY, low, high) for low, high in (
    (-3, 12), (-(2**62), 2**62 + 5), (-(2**63), 2**63 - 1), (-(2**62), -(2**63)), (-(2**63), -(2**63)), (0, 2**61 + 1)
)))


class Stream:
    """Uniform numbers in (0, 1) that follow from one word (splitmix64)."""

    def __init__(self, word: int) -> None:
        self.state = word & _WORD

    def __call__(self) -> float:
        self.state = self.state + 0x9E3779B97F4A7C15 & _WORD
        z = (self.state ^ self.state >> 30) * 0xBF58476D1CE4E5B9 & _WORD
        z = (z ^ z >> 27) * 0x94D049BB133111EB & _WORD
        return ((z ^ z >> 31) >> 11) * 2.0**-53 + 2.0**-54


def searched(u: float, chance: Callable[[int], float]) -> float:
    """The first k at which the chances of 0, ..., k reach u."""
    k, reached = 0, chance(0)
    while reached < u:
        k += 1
        reached += chance(k)
    return k


def poisson_number(word: int, rate: float) -> float:
    """Inversion below a rate of 10; else Hoermann's PTRS, one try after another."""
    uniform_number = Stream(word)
    if rate < 10:
        return searched(uniform_number(), lambda k: math.exp(-rate) * rate**k / math.factorial(k))
    b = 0.931 + 2.53 * math.sqrt(rate)
    a = -0.059 + 0.02483 * b
    while True:
        u, v = uniform_number() - 0.5, uniform_number()
        us = 0.5 - abs(u)
        k = math.floor((2 * a / us + b) * u + rate + 0.43)
        if us >= 0.07 and v <= 0.9277 - 3.6224 / (b - 2):
            return k
        if k < 0 or (us < 0.013 and v > us):
            continue
        height = v * (1.1239 + 1.1328 / (b - 3.4)) / (a / us**2 + b)
        if math.log(height) <= k * math.log(rate) - rate - math.lgamma(k + 1):
            return k


def binomial_number(word: int, count: float, p: float) -> float:
    """Inversion below a mean of 10; else Hoermann's BTRS, one try after another."""
    n, uniform_number = int(count), Stream(word)
    if p > 0.5:
        return n - binomial_number(word, n, 1 - p)

    def chance(k: int) -> float:
        return math.comb(n, k) * p**k * (1 - p) ** (n - k)

    if n * p < 10:
        return searched(uniform_number(), chance)
    root = math.sqrt(n * p * (1 - p))
    b = 1.15 + 2.53 * root
    a = -0.0873 + 0.0248 * b + 0.01 * p
    while True:
        u, v = uniform_number() - 0.5, uniform_number()
        us = 0.5 - abs(u)
        k = math.floor((2 * a / us + b) * u + n * p + 0.5)
        if us >= 0.07 and v <= 0.92 - 4.2 / b:
            return k
        if 0 <= k <= n and v * (2.83 + 5.1 / b) * root / (a / us**2 + b) <= chance(k) / chance(int((n + 1) * p)):
            return k


def each(number: Callable[..., float]) -> Callable[..., Array]:
    return lambda words, *rest: np.vectorize(lambda w, *r: number(int(w), *map(float, r)), otypes=[float])(words, *rest)


given(
    "_poisson", each(poisson_number), case(I(3, 4, high=2**62), P(3, 4)),
    case(I(20, high=2**62), np.linspace(8, 60, 20)),
)
given("_binomial", each(binomial_number), *(
    case(I(20, high=2**62), np.full(20, n), np.full(20, p)) for n, p in ((12.0, 0.3), (40.0, 0.5), (50.0, 0.9))
))


# ---- distributions: name -> (arguments for n draws, P(X <= x), possible values: None for any)
Distribution = tuple[Callable[[int], tuple[tuple[Any, ...], dict[str, Any]]], Callable[[float], float]]
DISTRIBUTIONS: dict[str, Distribution] = {}


def drawn(names: str, cdf: Callable[[float], float], arguments: Callable[[int], Any], **named: Any) -> None:
    for name in names.split():
        DISTRIBUTIONS[name if "::" in name else f"aten::{name}"] = (lambda n: (arguments(n), named), cdf)


def zeros(n: int) -> Array:
    return np.zeros(n)


def uniform(low: float, high: float) -> Callable[[float], float]:
    return lambda x: min(max((x - low) / (high - low), 0.0), 1.0)


def integers(low: int, high: int) -> Callable[[float], float]:
    return lambda x: min(max((math.floor(x) + 1 - low) / (high - low), 0.0), 1.0)


def two(p: float, low: float = 0.0, high: float = 1.0) -> Callable[[float], float]:
    """high with probability p, else low."""
    return lambda x: 0.0 if x < low else 1 - p if x < high else 1.0


def gauss(mean: float, std: float) -> Callable[[float], float]:
    return NormalDist(mean, std).cdf


drawn("rand", uniform(0, 1), lambda n: ((n,),))
drawn("rand_like", uniform(0, 1), lambda n: (zeros(n),))
drawn("uniform", uniform(-1, 3), lambda n: (zeros(n), -1.0, 3.0))
drawn("randn", gauss(0, 1), lambda n: ((n,),))
drawn("randn_like", gauss(0, 1), lambda n: (zeros(n),))
drawn("normal.self", gauss(1, 2), lambda n: (zeros(n), 1.0, 2.0))
drawn("normal.Tensor_Tensor", gauss(1, 2), lambda n: (zeros(n) + 1, zeros(n) + 2))
drawn("normal.Tensor_float", gauss(1, 2), lambda n: (zeros(n) + 1, 2.0))
drawn("normal.float_Tensor", gauss(1, 2), lambda n: (1.0, zeros(n) + 2))
drawn("normal.float_float", gauss(1, 2), lambda n: (1.0, 2.0, (n,)))
drawn("log_normal", lambda x: NormalDist(0.5, 0.7).cdf(math.log(x)) if x > 0 else 0.0, lambda n: (zeros(n), 0.5, 0.7))
drawn("cauchy", lambda x: 0.5 + math.atan((x - 1) / 2) / math.pi, lambda n: (zeros(n), 1.0, 2.0))
drawn("exponential", lambda x: 1 - math.exp(-2 * x) if x > 0 else 0.0, lambda n: (zeros(n), 2.0))
def counted(probabilities: list[float]) -> Callable[[float], float]:
    """0, 1, 2, ... with these probabilities."""
    return lambda x: math.fsum(probabilities[: max(math.floor(x) + 1, 0)])


def poisson(rate: float) -> Callable[[float], float]:
    return counted([math.exp(k * math.log(rate) - rate - math.lgamma(k + 1)) for k in range(int(rate * 3) + 40)])


def binomial(n: int, p: float) -> Callable[[float], float]:
    return counted([math.comb(n, k) * p**k * (1 - p) ** (n - k) for k in range(n + 1)])


drawn("poisson", poisson(4.5), lambda n: (zeros(n) + 4.5,))
drawn("binomial", binomial(40, 0.6), lambda n: (zeros(n) + 40, zeros(n) + 0.6))
drawn("geometric", lambda x: 1 - 0.7 ** math.floor(x) if x >= 1 else 0.0, lambda n: (zeros(n), 0.3))
drawn("bernoulli", two(0.3), lambda n: (zeros(n) + 0.3,))
drawn("bernoulli.p", two(0.3), lambda n: (zeros(n), 0.3))
drawn("bernoulli.Tensor", two(0.3), lambda n: (zeros(n), zeros(n) + 0.3))
drawn("randint", integers(0, 7), lambda n: (7, (n,)))
drawn("randint.low", integers(-3, 4), lambda n: (-3, 4, (n,)))
drawn("randint_like", integers(0, 7), lambda n: (zeros(n), 7))
drawn("randint_like.low", integers(-3, 4), lambda n: (zeros(n), -3, 4))
drawn("random", integers(0, 2**53), lambda n: (zeros(n),))
drawn("random.from", integers(-3, 4), lambda n: (zeros(n), -3, 4))
drawn("random.to", integers(0, 7), lambda n: (zeros(n), 7))
drawn("randperm", lambda x: min(max((math.floor(x) + 1) / DRAWS, 0.0), 1.0), lambda n: (n,))
drawn(
    "multinomial", lambda x: 0.0 if x < 0 else (0.1, 0.4, 1.0)[min(math.floor(x), 2)],
    lambda n: (np.array([0.2, 0.6, 1.2]), n, True),
)
drawn("dropout nn::dropout", two(0.75, 0.0, 4 / 3), lambda n: (zeros(n) + 1, 0.25, True))
drawn("nn::dropout1d", two(0.75, 0.0, 4 / 3), lambda n: (np.ones((n, 1, 1)), 0.25, True))
drawn("nn::dropout2d", two(0.75, 0.0, 4 / 3), lambda n: (np.ones((n, 1, 1, 1)), 0.25, True))
drawn("nn::dropout3d", two(0.75, 0.0, 4 / 3), lambda n: (np.ones((n, 1, 1, 1, 1)), 0.25, True))
DRAWS = 4000

# What the tests that need inputs, and no values, call them with.
given("_chosen", lambda self, holds: holds.astype(self.dtype), case(F(3, 4), B(3, 4)))
given("_chosen.Tensor", lambda self, holds, p: holds.astype(self.dtype), case(F(3, 4), B(3, 4), P(3, 4)))
given("bernoulli", None, case(P(3, 4)))
given("bernoulli.Tensor", None, case(F(3, 4), P(3, 4)))
given("dropout", None, case(F(3, 4), 0.5, True), case(F(3), 0.25, False))
given("geometric", None, case(F(3, 4), 0.3))
given("multinomial", None, case(P(4), 2), case(P(2, 4), 5, True))
given("normal.float_Tensor", None, case(1.0, P(3)))
given("normal.float_float", None, case(1.0, 2.0, (3,)))
given("randint.low", None, case(-3, 4, (3,)))
given("randint_like.low", None, case(F(3, 4), -3, 4))
given("random.from", None, case(F(3, 4), -3, 4))
given("random.to", None, case(F(3, 4), 7))

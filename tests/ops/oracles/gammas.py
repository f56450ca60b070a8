"""Gamma, Dirichlet and von Mises numbers one element at a time, and how they move with their parameters, by series."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tests.ops.oracles.draws import Stream, drawn, each, zeros
from tests.ops.oracles.table import given
from weft.catalogue.samples import I, P, case

Array = Any


def log_gamma_number(word: int, shape: float) -> float:
    """Marsaglia and Tsang, one try after another; a shape below 1 takes a number of one more."""
    uniform = Stream(word)
    first = uniform()
    if shape < 1:
        more = log_gamma_number_of(uniform, shape + 1)
        return more + math.log(first) / shape
    return log_gamma_number_of(uniform, shape)


def log_gamma_number_of(uniform: Stream, shape: float) -> float:
    d = shape - 1 / 3
    while True:
        u, v, w = uniform(), uniform(), uniform()
        normal = math.sqrt(-2 * math.log(u)) * math.cos(2 * math.pi * v)
        cube = (1 + normal / math.sqrt(9 * d)) ** 3
        if cube > 0 and math.log(w) < normal**2 / 2 + d - d * cube + d * math.log(cube):
            return math.log(d * cube)


def von_mises_number(word: int, kappa: float) -> float:
    """Best and Fisher, one try after another."""
    uniform = Stream(word)
    tau = 1 + math.sqrt(1 + 4 * kappa**2)
    rho = (tau - math.sqrt(2 * tau)) / (2 * kappa)
    r = (1 + rho**2) / (2 * rho)
    while True:
        u, v, w = uniform(), uniform(), uniform()
        z = math.cos(math.pi * u)
        f = (1 + r * z) / (r + z)
        c = kappa * (r - f)
        if c * (2 - c) - v > 0 or math.log(c / v) + 1 - c >= 0:
            return math.copysign(math.acos(f), w - 0.5)


def dirichlet_numbers(words: Array, shapes: Array) -> Array:
    parts = np.exp(each(log_gamma_number)(words, shapes))
    return parts / parts.sum(-1, keepdims=True)


def digamma(x: float) -> float:
    """By steps of 1 to above 40, and the first terms of the asymptotic series there."""
    steps = [1 / (x + k) for k in range(40)]
    x += 40
    series = 1 / (12 * x**2) - 1 / (120 * x**4) + 1 / (252 * x**6)
    return math.log(x) - 1 / (2 * x) - series - math.fsum(steps)


def gamma_slope(a: float, x: float) -> float:
    """-dP/da over the density, with P the sum of x**(a + n) exp(-x) / gamma(a + n + 1)."""
    terms = [math.exp((a + n) * math.log(x) - x - math.lgamma(a + n + 1)) for n in range(60)]
    psi = [digamma(a + 1)]
    for n in range(1, 60):
        psi.append(psi[-1] + 1 / (a + n))
    slope = math.fsum(t * (math.log(x) - p) for t, p in zip(terms, psi, strict=True))
    return -slope / math.exp((a - 1) * math.log(x) - x - math.lgamma(a))


def beta_slope(x: float, a: float, total: float) -> float:
    """-dI/da over the density and 1 - x, with the series of (1 - t)**(b - 1) integrated term by term."""
    b = total - a
    c, terms, moved = 1.0, [], []
    for n in range(600):
        power = c * x ** (a + n)
        terms.append(power / (a + n))
        moved.append(power * (math.log(x) / (a + n) - 1 / (a + n) ** 2))
        c *= (n + 1 - b) / (n + 1)
    slope = math.fsum(moved) - math.fsum(terms) * (digamma(a) - digamma(total))
    return -slope / (x ** (a - 1) * (1 - x) ** b)


def angle_below(kappa: float) -> Any:
    """The distribution function of angles: 1/2 + x / 2 pi + the sum of I_j sin(j x) / (pi j I_0)."""
    def bessel(j: int) -> float:
        return math.fsum((kappa / 2) ** (2 * m + j) / (math.factorial(m) * math.factorial(m + j)) for m in range(30))

    ratios = [bessel(j) / bessel(0) for j in range(1, 30)]
    return lambda x: 0.5 + x / (2 * math.pi) + math.fsum(
        r * math.sin(j * x) / (math.pi * j) for j, r in enumerate(ratios, 1)
    )


WORDS = I(3, 4, high=2**62)
given("_gamma_numbers", lambda words, shapes: np.exp(each(log_gamma_number)(words, shapes)),
      case(WORDS, P(3, 4)), case(I(20, high=2**62), np.linspace(0.5, 30, 20)))
given("_dirichlet_numbers", dirichlet_numbers, case(WORDS, P(3, 4)), case(I(2, 3, high=2**62), np.full((2, 3), 4.0)))
given("_von_mises_numbers", each(von_mises_number), case(WORDS, P(3, 4)), case(I(9, high=2**62), np.linspace(1, 50, 9)))
given("_standard_gamma_grad", np.vectorize(gamma_slope, otypes=[float]), case(P(3, 4), P(3, 4)))
given("_dirichlet_grad", np.vectorize(beta_slope, otypes=[float]), case(
    P(3, 4), np.linspace(0.5, 2, 12).reshape(3, 4), np.linspace(2, 5, 12).reshape(3, 4)
))
given("_standard_gamma", None, case(P(3, 4)))
given("_sample_dirichlet", None, case(P(3, 4)))
given("_standard_von_mises", None, case(P(3, 4)))
drawn("_standard_gamma", lambda x: 1 - (1 + x) * math.exp(-x) if x > 0 else 0.0, lambda n: (zeros(n) + 2,))
# of two parts with concentrations 2 and 1, one has x**2 and the other one 1 - (1 - x)**2: x in the mean
drawn("_sample_dirichlet", lambda x: min(max(x, 0.0), 1.0), lambda n: (np.tile([2.0, 1.0], (n, 1)),))
drawn("_standard_von_mises", angle_below(2.0), lambda n: (zeros(n) + 2,))

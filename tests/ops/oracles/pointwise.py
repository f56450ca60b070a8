"""Element by element."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tests.ops.oracles.table import given_floats as given
from weft.catalogue.samples import B, F, I, case

Array = Any


def elu(x: Array, alpha: float, scale: float = 1.0, input_scale: float = 1.0) -> Array:
    return scale * np.where(x > 0, x, alpha * np.expm1(np.minimum(x, 0) * input_scale))


def sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


def softplus(x: Array, beta: float = 1.0, threshold: float = 20.0) -> Array:
    return np.where(x * beta > threshold, x, np.log1p(np.exp(beta * np.minimum(x, threshold / beta))) / beta)


def gelu(x: Array, approximate: str) -> Array:
    if approximate == "tanh":
        return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))
    return 0.5 * x * (1 + np.vectorize(math.erf, otypes=[float])(x / math.sqrt(2)))


def selu(x: Array, *_: Any) -> Array:
    return elu(x, 1.6732632423543772, 1.0507009873554805)


def mvlgamma(x: Array, p: int) -> Array:
    return (
        p * (p - 1) / 4 * math.log(math.pi)
        + sum(np.vectorize(math.lgamma, otypes=[float])(x - j / 2) for j in range(p))
    )


given("elu", elu)
given("nn::elu", lambda x, alpha, *_: elu(x, alpha))
given("celu nn::celu", lambda x, alpha, *_: elu(x, alpha, 1.0, 1 / alpha))
given("selu nn::selu", selu)
given("gelu", gelu)
given("softplus", softplus)
given("_prelu_kernel", lambda x, weight: np.where(x > 0, x, weight * x))
given("softsign", lambda x: x / (1 + np.abs(x)))
given("tanhshrink", lambda x: x - np.tanh(x))
given("logsigmoid", lambda x: -np.logaddexp(0, -x))
given(
    "prelu",
    lambda x, weight: np.where(x > 0, x, x * (weight.reshape((-1,) + (1,) * (x.ndim - 2)) if x.ndim > 1 else weight)),
)
given("glu", lambda x, dim: np.split(x, 2, dim)[0] * sigmoid(np.split(x, 2, dim)[1]))
given("mvlgamma", mvlgamma, lambda rng: [((rng.uniform(1.2, 4, (3, 4)), 3), {}), ((rng.uniform(0.6, 4, ()), 2), {})])
given("nn::hardsigmoid", lambda x, *_: np.clip(x / 6 + 0.5, 0, 1))
given("nn::hardswish", lambda x, *_: x * np.clip(x / 6 + 0.5, 0, 1))
given("nn::hardtanh", lambda x, low, high, *_: np.clip(x, low, high), case(F(3, 4)), case(F(3), -0.5, 0.25))
given("nn::leaky_relu", lambda x, slope, *_: np.where(x > 0, x, x * slope))
given("nn::mish", lambda x, *_: x * np.tanh(softplus(x)))
given("nn::relu", lambda x, *_: np.maximum(x, 0))
given("nn::relu6", lambda x, *_: np.clip(x, 0, 6))
given("nn::silu", lambda x, *_: x * sigmoid(x))
given("nn::threshold", lambda x, threshold, value, *_: np.where(x > threshold, x, value), case(F(3, 4), 0.3, -1.5))
given("masked_fill.Tensor", lambda x, mask, value: np.where(mask, value, x))
for _name in ("bitwise_and.Tensor", "bitwise_or.Tensor", "bitwise_xor.Tensor"):
    given(_name, None, case(I(3, 4, high=9), I(4, high=9)), case(B(3), B(2, 3)))
given("bitwise_not", None, case(I(3, 4, high=9)), case(B(3)))
given("bitwise_left_shift.Tensor bitwise_right_shift.Tensor", None, case(I(3, 4, high=9), I(4, high=5)))
given("where", np.nonzero, case(B(3, 4)), case(F(5)))


# ---- normalized exponentials
def softmax(x: Array, dim: int, *_: Any) -> Array:
    e = np.exp(x - (x.max(dim, keepdims=True, initial=-np.inf) if x.size else 0))
    return e / e.sum(dim, keepdims=True) if x.ndim else np.ones_like(x)


def log_softmax(x: Array, dim: int, *_: Any) -> Array:
    return np.log(softmax(x, dim))


given("_softmax softmax.int", softmax)
given("_log_softmax log_softmax.int", log_softmax)
given("nn::softmax", lambda x, dim, *_: softmax(x, dim), case(F(3, 4), 1), case(F(2, 3, 2), -2))
given("nn::log_softmax", lambda x, dim, *_: log_softmax(x, dim), case(F(3, 4), 1), case(F(2, 3, 2), -2))
given("nn::softmin", lambda x, dim, *_: softmax(-x, dim), case(F(3, 4), 1), case(F(2, 3, 2), -2))

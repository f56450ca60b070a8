"""Powers of operands of different dtypes: the gradient of float_power was computed in the operands' own dtype (an
exponent of half precision lost its parity, a bool was refused); ldexp of whole numbers by half precision gave
float32."""

from __future__ import annotations

import numpy as np
import pytest

import weft


@pytest.mark.parametrize("kind", ["bool", "uint8", "int64", "float16", "bfloat16", "float32"])
@pytest.mark.parametrize("compiled", [False, True])
def test_gradients_of_float_power_are_of_double_precision(kind: str, compiled: bool, rng: np.random.Generator) -> None:
    exponents = weft.tensor(rng.integers(0, 2, 4)).to(getattr(weft, kind))
    x = weft.tensor(rng.uniform(0.5, 2, 4), dtype=weft.float16, requires_grad=True)
    power = weft.compile(lambda x, e: weft.float_power(x, e)) if compiled else weft.float_power
    (slope,) = weft.autograd.grad(power(x, exponents).sum(), x)
    assert slope.tolist() == [float(e) for e in exponents.tolist()]
    exponents = exponents.to(weft.float32).requires_grad_()
    (slope,) = weft.autograd.grad(power(x, exponents).sum(), exponents)
    base = x.detach().double().numpy()
    np.testing.assert_allclose(slope.numpy(), base ** exponents.detach().numpy() * np.log(base), rtol=1e-6, atol=1e-9)


def test_parity_of_a_large_exponent() -> None:
    x = weft.tensor([-2.5], dtype=weft.float16, requires_grad=True)
    value = weft.float_power(x, weft.tensor([65504.0], dtype=weft.float16))
    assert value.item() == np.inf
    assert weft.autograd.grad(value.sum(), x)[0].item() == -np.inf


@pytest.mark.parametrize("kind", ["bool", "uint8", "int64"])
@pytest.mark.parametrize("floating", ["float16", "bfloat16", "float32", "float64"])
def test_ldexp_of_whole_numbers(kind: str, floating: str) -> None:
    exponent = weft.ones(2, dtype=getattr(weft, floating))
    assert weft.ldexp(weft.ones(2, dtype=getattr(weft, kind)), exponent).dtype is getattr(weft, floating)
    assert weft.ldexp(weft.ones(2, dtype=getattr(weft, kind)), weft.ones(2, dtype=weft.int32)).dtype is weft.float32

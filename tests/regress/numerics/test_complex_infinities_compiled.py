"""Compiled functions of complex infinities and zeros: a power of 1/2 was exp(log(z) / 2), NaN in a part of an infinity;
a quotient by (-0, -0) and the sine and hyperbolic sine of infinities had another sign than in eager mode; and the angle
of a number on the imaginary axis whose real part is -0 was half an ulp beside pi / 2."""

import itertools
import math

import numpy as np
import pytest

import weft

PARTS = (0.0, -0.0, 1.0, -2.5, 710.0, math.inf, -math.inf, math.nan)
POINTS = np.array([complex(a, b) for a, b in itertools.product(PARTS, PARTS)])


def kinds(z: np.ndarray) -> list[str]:
    """What each part is: a number, an infinity with its sign, or NaN."""
    parts = np.stack((z.real, z.imag)).ravel()
    return ["number" if math.isfinite(p) else str(p) for p in parts.tolist()]


@pytest.mark.parametrize("dtype", [weft.complex64, weft.complex128])
@pytest.mark.parametrize("name", ["sin", "cos", "tan", "sinh", "cosh", "tanh", "exp", "sqrt", "reciprocal"])
def test_functions(name: str, dtype: weft.dtype) -> None:
    z = weft.from_numpy(POINTS).to(dtype)
    function = getattr(weft, name)
    assert kinds(weft.compile(lambda z: function(z))(z).numpy()) == kinds(function(z).numpy())


@pytest.mark.parametrize("dtype", [weft.complex64, weft.complex128])
def test_roots_and_quotients(dtype: weft.dtype) -> None:
    z = weft.from_numpy(POINTS).to(dtype)

    def root_and_quotients(z: weft.Tensor) -> tuple[weft.Tensor, weft.Tensor]:
        return z**0.5, z[:, None] / z[None, :2]

    for compiled, eager in zip(weft.compile(root_and_quotients)(z), root_and_quotients(z), strict=True):
        assert kinds(compiled.numpy()) == kinds(eager.numpy())


def test_the_angle_of_the_imaginary_axis() -> None:
    z = weft.tensor([complex(-0.0, 1.0), complex(-0.0, -3.0), complex(0.0, 1.0)], dtype=weft.complex128)
    assert weft.compile(weft.angle)(z).tolist() == [math.pi / 2, -math.pi / 2, math.pi / 2]

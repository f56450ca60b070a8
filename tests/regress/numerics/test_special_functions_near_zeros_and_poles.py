"""Values and slopes of special functions where digits are lost easily: beside zeros, at subnormal and huge numbers.
What is expected was computed with 60 digits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import weft

Function = Callable[[weft.Tensor], weft.Tensor]
def slope_of(function: Function) -> Function:
    def slope(x: weft.Tensor) -> weft.Tensor:
        return weft.autograd.grad(function(x).sum(), x)[0]

    return slope


CASES: dict[str, tuple[Function, list[float], list[float], float]] = {
    "lgamma": (
        weft.lgamma,
        [
            -2.7490035205069248, -2.4540920246693716, -3.955858794443607, -2.4570247382, -3.1435808883,
            -4.9915443849, -9.000002755, -14.999999999999998, -2.5, -0.3, 1.5, 2.6306372739208843, 7.9, 40.5,
        ],
        [
            0.0025453673717024633, 0.0044866525045318744, 0.01178038721497333, 3.1525660499724e-11,
            3.8894044973508284e-10, -2.9793086266772938e-05, 0.0002594315025371441, 6.064940463596433,
            -0.056243716497674054, 1.4648400508576025, -0.12078223763524522, 0.38064043705348133, 8.32426586800881,
            108.47307506906539,
        ],
        3e-15,
    ),
    "ndtri": (
        weft.special.ndtri,
        [5e-324, 1e-310, 1e-300, 1e-100, 1e-20, 1e-17, 0.01],
        [
            -38.467405617144344, -37.663060331949524, -37.0470962993612, -21.273453560965326, -9.262340089798407,
            -8.493793224109599, -2.326347874040841,
        ],
        1e-14,
    ),
    "log_ndtr": (
        weft.special.log_ndtr,
        [-1.4e+154, -1e+100, -300.0, -21.0, -19.0, -3.0, 4.0],
        [
            -9.8e+307, -5e+199, -45006.62273211866, -224.46571583141449, -184.36612866916096, -6.607726221510349,
            -3.167174337748927e-05,
        ],
        1e-14,
    ),
    "the slope of log_ndtr": (
        slope_of(weft.special.log_ndtr),
        [-1e+154, -1000000.0, -300.0, -21.0, -19.0, -3.0, 4.0],
        [
            1e+154, 1000000.000001, 300.0033332592634, 21.047405496518664, 19.052343949197503, 3.2830986549304364,
            0.00013383446446857514,
        ],
        1e-12,
    ),
    "polygamma of order 2": (
        lambda x: weft.polygamma(2, x),
        [-26.5, -8.5, -0.5, 0.3, 8.0, 8.5, 9.5, 30.0],
        [
            -0.001371272069228151, -0.012307845807709338, -0.82879664423432, -75.27253658872604,
            -0.017699569195767775, -0.015564511795903924, -0.012307845807709338, -0.0011487652037286,
        ],
        3e-14,
    ),
    "polygamma of order 5": (
        lambda x: weft.polygamma(5, x),
        [-3.3, 0.3, 8.0, 8.5, 9.5, 30.0],
        [
            165660.14652917208, 164634.84609922304, 0.0009895100047713388, 0.0007184689728767378,
            0.0004002927721168353, 1.0726994936161623e-06,
        ],
        3e-14,
    ),
    "digamma": (
        weft.digamma,
        [-26.5, -8.5, -2.5, 0.3, 8.0, 30.0],
        [
            3.295894008215033, 2.1977378764029494, 1.103156640645243, -3.502524222200133, 2.01564147795561,
            3.384438132685525,
        ],
        3e-14,
    ),
}


def check(function: Function, x: Any, want: Any, rtol: float) -> None:
    for run in (function, weft.compile(function)):
        found = run(weft.from_numpy(np.array(x)).requires_grad_()).detach().numpy()
        np.testing.assert_allclose(found, np.array(want, found.dtype), rtol=rtol, atol=0)


@pytest.mark.parametrize("name", CASES)
def test_float64(name: str) -> None:
    check(*CASES[name])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("order", [1, 2])
def test_slopes_of_bessel_functions_at_subnormal_numbers(dtype: Any, order: int) -> None:
    least = np.finfo(dtype).smallest_subnormal
    x = np.array([least, -least, 3 * least, np.finfo(dtype).tiny / 3, 0.0, -0.0], dtype)
    for function in (weft.special.i1, weft.special.i1e):
        if order == 1:
            check(slope_of(function), x, np.full(6, 0.5), 1e-7)
    if order == 2:  # the slope of i1 is even, and turns by 3/8 of x
        def second(t: weft.Tensor) -> weft.Tensor:
            first = weft.autograd.grad(weft.special.i1(t).sum(), t, create_graph=True)[0]
            return weft.autograd.grad(first.sum(), t)[0]

        points = np.array([1e-5, -1e-5, 2e-4, 0.0], dtype)
        check(second, points, 0.375 * points, 1e-6)


def test_quantiles_of_the_least_float32_numbers() -> None:
    x = np.array([1e-45, 4e-45, 1e-40, 1e-38], np.float32)
    check(weft.special.ndtri, x, [-14.121426582336426, -14.043802261352539, -13.31092, -12.9623597], 3e-7)


def test_lgamma_at_poles_and_far_below() -> None:
    for dtype in (np.float32, np.float64):
        greatest = float(np.finfo(dtype).max)
        check(weft.lgamma, np.array([0, -0.0, -1, -18, -1e9, -greatest, greatest, -np.inf], dtype), [np.inf] * 8, 0)

"""Numbers at the edge: what eager mode gives for them, a captured program gives too,
in the interpreter and natively."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import weft

MODES = ("eager", "interpret", "llvm")
INF, NAN = float("inf"), float("nan")


def run(function: Any, mode: str, *args: weft.Tensor) -> Any:
    return (function if mode == "eager" else weft.compile(function, backend=mode))(*args)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("dtype", [weft.float16, weft.bfloat16, weft.float32, weft.float64], ids=str)
def test_floats_that_no_integer_holds_become_the_most_negative_one(dtype: weft.dtype, mode: str) -> None:
    x = weft.tensor([INF, -INF, NAN, 9.3e18, -9.4e18, 300.0, -300.0] * 5, dtype=dtype)
    for target, low in (
        ((weft.int64, -(2**63)), (weft.int32, -(2**31)), (weft.int16, 0), (weft.int8, 0), (weft.uint8, 0))
    ):
        fits = [300, -300] if target not in (weft.int8, weft.uint8) else [44, -44 if target is weft.int8 else 212]
        assert run(lambda x, t=target: x.to(t), mode, x).tolist() == ([low] * 5 + fits) * 5


@pytest.mark.parametrize("mode", MODES)
def test_casts_of_float64_beyond_32_bits(mode: str) -> None:
    x = weft.tensor([4294967295.0, -2147483649.0, 2147483648.0], dtype=weft.float64)
    assert run(lambda x: x.to(weft.uint8), mode, x).tolist() == [255, 255, 0]
    assert run(lambda x: x.to(weft.int32), mode, x).tolist() == [-(2**31)] * 3
    assert run(lambda x: x.to(weft.int64), mode, x).tolist() == [4294967295, -2147483649, 2147483648]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("exponent", [0.5, -0.5, 3.0, -2.0, -1.0])
def test_common_powers_of_infinities_and_signed_zeros(exponent: float, mode: str) -> None:
    x = np.array([-INF, INF, -2.0, 0.0, -0.0, 4.0, NAN])
    with np.errstate(all="ignore"):
        root, cube, square = np.sqrt(x), x * x * x, x * x
        expected = {0.5: root, -0.5: 1 / root, 3.0: cube, -2.0: 1 / square, -1.0: 1 / x}[exponent]
    found = run(lambda x: x**exponent, mode, weft.from_numpy(x)).numpy()
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(np.signbit(found[~np.isnan(found)]), np.signbit(expected[~np.isnan(expected)]))


@pytest.mark.parametrize("mode", MODES)
def test_truth_values_divide_as_integers_do(mode: str) -> None:
    x, y = (weft.tensor(v) for v in ([True, True, False, False], [True, False, True, False]))
    found = run(lambda x, y: (x // y, x % y, weft.fmod(x, y), x // True), mode, x, y)
    assert [f.dtype for f in found] == [weft.bool] * 4
    assert (
        [f.tolist() for f in found]
        == [[True, False, False, False], [False] * 4, [False] * 4, [True, True, False, False]]
    )


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("number", [0.5, -2.5, 255, True, INF, NAN])
def test_a_number_divided_by_integers_promotes(number: float, mode: str) -> None:
    x = weft.tensor([3, -2, 7], dtype=weft.int8)
    floored, left = run(lambda x: (number // x, number % x), mode, x)
    wide = (
        np.array(number, np.int8 if type(number) is bool else np.float32) if type(number) is not int
        else np.array(number).astype(np.int8)
    )
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(floored.numpy(), wide // x.numpy().astype(wide.dtype))
        np.testing.assert_array_equal(left.numpy(), wide % x.numpy().astype(wide.dtype))
    assert floored.dtype is left.dtype is (weft.float32 if type(number) is float else weft.int8)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("dtype", [weft.bool, weft.uint8, weft.int64], ids=str)
def test_integers_have_no_negative_powers(dtype: weft.dtype, mode: str) -> None:
    for _ in range(2):  # the second call finds its plan
        with pytest.raises(RuntimeError, match="negative integer powers"):
            run(lambda x: x**-2, mode, weft.ones(3, dtype=dtype))
    assert run(lambda x: x**2, mode, weft.ones(3, dtype=dtype)).tolist() == [1, 1, 1]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("number", [INF, NAN])
def test_what_is_no_integer_does_not_fill_one(number: float, mode: str) -> None:
    for function in (
        (lambda x: x.masked_fill(x > 0, number), lambda x: x.clone().fill_(number), lambda x: weft.full_like(x, number))
    ):
        with pytest.raises(RuntimeError, match="without overflow"):
            run(function, mode, weft.ones(3, dtype=weft.int32))


@pytest.mark.parametrize(
    "dtype,number",
    [
        (weft.int8, 300), (weft.int8, -129), (weft.uint8, 256), (weft.uint8, -256), (weft.int64, 2**63),
        (weft.float16, 1e5), (weft.float32, -1e39),
    ],
)
def test_what_a_dtype_cannot_hold_is_refused(dtype: weft.dtype, number: float) -> None:
    x = weft.ones(3).to(dtype)
    for function in (lambda: x.masked_fill(x > 0, number), lambda: x.clone().fill_(number), lambda: weft.full(
        (2,), number, dtype=dtype
    )):
        with pytest.raises(
            RuntimeError, match=re.escape(f"value {number} cannot be converted to type {dtype} without overflow")
        ):
            function()
    assert weft.full((2,), -1, dtype=weft.uint8).tolist() == [255, 255]
    assert weft.full((2,), -INF, dtype=weft.float16).tolist() == [-INF, -INF]

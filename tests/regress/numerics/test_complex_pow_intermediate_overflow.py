"""Powers of huge and tiny complex numbers are what exp(y log x) says, also where products of them overflow; the sign
of a subnormal one is no quotient of infinities."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import weft

HUGE = [1e200 + 1e200j, 1e300j, -1e160 + 1j, 1e-200 + 1e-200j, 3 - 4j]
INF = np.inf
POWERS: dict[Any, list[complex]] = {
    4: [complex(-INF, INF), complex(INF, -INF), complex(INF, -INF), 0j, -527 + 336j],
    -3: [0j, 0j, 0j, complex(-INF, -INF), 1 / (3 - 4j) ** 3],
    -2: [0j, 0j, 0j, complex(INF, -INF), 1 / (3 - 4j) ** 2],
    -1: [5e-201 - 5e-201j, -1e-300j, -1e-160 - 0j, 5e199 - 5e199j, 0.12 + 0.16j],
    2.5: [complex(-INF, INF), complex(-INF, -INF), complex(INF, INF), 0j, (3 - 4j) ** 2.5],
    0: [1, 1, 1, 1, 1],
    1: HUGE,
}


@pytest.mark.parametrize("exponent", POWERS)
@pytest.mark.parametrize("is_compiled", [False, True])
def test_powers_by_a_number(exponent: Any, is_compiled: bool) -> None:
    def power(x: weft.Tensor) -> weft.Tensor:
        return x**exponent

    found = (weft.compile(power) if is_compiled else power)(weft.from_numpy(np.array(HUGE))).numpy()
    check(found, POWERS[exponent])


@pytest.mark.parametrize("exponent", [e for e in POWERS if e != 0])
def test_powers_by_a_tensor(exponent: Any) -> None:
    x = weft.from_numpy(np.array(HUGE))
    for run in (weft.pow, weft.compile(weft.pow)):
        check(run(x, weft.full_like(x, exponent)).numpy(), POWERS[exponent])


def check(found: Any, want: Any) -> None:
    want = np.array(want, np.complex128)
    for a, b in ((found.real, want.real), (found.imag, want.imag)):
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-300)


@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
def test_signs_of_subnormal_numbers(dtype: Any) -> None:
    least = np.finfo(dtype).smallest_subnormal
    x = np.array([complex(least, 0), complex(0, -least), 0, 3 - 4j], dtype)
    for run in (weft.sgn, weft.compile(weft.sgn)):
        np.testing.assert_allclose(run(weft.from_numpy(x)).numpy(), [1, -1j, 0, 0.6 - 0.8j], rtol=1e-6)

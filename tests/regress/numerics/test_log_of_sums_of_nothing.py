"""log(exp(a) + exp(b)) of complex numbers whose exponentials are 0, or that are NaN."""

import math

import numpy as np
import pytest

import weft

INF, NAN = math.inf, math.nan
NOTHING = [complex(-INF, 0), complex(-INF, 2), complex(-INF, INF)]
BROKEN = [complex(NAN, 1), complex(1, NAN), complex(-INF, NAN)]


def column(values, dtype=weft.complex128):
    return weft.tensor(values, dtype=dtype)


@pytest.mark.parametrize("a", NOTHING)
@pytest.mark.parametrize("dtype", [weft.complex64, weft.complex128])
@pytest.mark.parametrize("ways", ["eager", "compiled"])
def test_nothing_changes_nothing(a, dtype, ways):
    add = weft.compile(weft.logaddexp) if ways == "compiled" else weft.logaddexp
    for b in (1 + 1j, -30 - 3j, *NOTHING):
        out = add(column([a, b], dtype), column([b, a], dtype))
        assert not out.real.isnan().any()
        assert np.allclose(np.exp(out.real.numpy()), math.exp(b.real))


@pytest.mark.parametrize("a", BROKEN)
@pytest.mark.parametrize("b", [1 + 1j, *NOTHING, complex(INF, 1)])
def test_nan_stays(a, b):
    out = weft.logaddexp(column([a, b]), column([b, a]))
    assert out.real.isnan().all() and out.imag.isnan().all()


@pytest.mark.parametrize("ways", ["eager", "compiled"])
def test_running_sums(ways):
    run = (lambda f: weft.compile(f)) if ways == "compiled" else (lambda f: f)
    function = run(lambda x: weft.logcumsumexp(x, 0))
    assert function(column([*NOTHING, 1j, 2.0])).tolist()[:4] == [complex(-INF, 0)] * 3 + [1j]
    values = function(column([NOTHING[1], 1 + 2j, BROKEN[0], 3.0])).tolist()
    assert values[1] == 1 + 2j and all(math.isnan(v.real) and math.isnan(v.imag) for v in values[2:])
    x = np.random.default_rng(0).normal(size=(5, 2)) @ np.array([1, 1j])
    assert np.allclose(np.exp(function(weft.from_numpy(x)).numpy()), np.cumsum(np.exp(x)))

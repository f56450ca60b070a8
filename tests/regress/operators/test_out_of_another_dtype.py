"""out= of another dtype: operators that promote take what their result can be cast to, sums compute in it, and all
others want the dtype of their result (PyTorch's RuntimeError otherwise)."""

import numpy as np
import pytest

import weft

X = [[1.5, -2.0], [0.25, 3.0]]
EXACT = {
    "neg": lambda x, out: weft.neg(x, out=out), "mm": lambda x, out: weft.mm(x, x, out=out),
    "amax": lambda x, out: weft.amax(x, 0, out=out), "clamp": lambda x, out: weft.clamp(x, 0, 1, out=out),
    "diagonal_copy": lambda x, out: weft.diagonal_copy(x, out=out), "inv": lambda x, out: weft.linalg.inv(x, out=out),
    "float_power": lambda x, out: weft.float_power(x, 2, out=out), "signbit": lambda x, out: weft.signbit(x, out=out),
    "zeros": lambda x, out: weft.zeros(2, dtype=weft.float32, out=out),
}
CASTABLE = {
    "mul": lambda x, out: weft.mul(x, 2, out=out), "exp": lambda x, out: weft.exp(x, out=out),
    "gt": lambda x, out: weft.gt(x, 0, out=out), "maximum": lambda x, out: weft.max(x, x * x, out=out),
    "clamp of tensors": lambda x, out: weft.clamp(x, x * 0, x * 2, out=out),
    "mean": lambda x, out: weft.mean(x, 0, out=out),
    "cat": lambda x, out: weft.cat([x, x], out=out), "logical_not": lambda x, out: weft.logical_not(x, out=out),
}


def compiled(function):
    step = weft.compile(function)
    return lambda x, out: (step(x, out), step(x, out))[1]


WAYS = {
    "eager": lambda f: f, "compiled": compiled, "lazy": lambda f: lambda x, out: f(x.to("lazy"), out.to("lazy")).cpu(),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", EXACT)
def test_refused(name: str, way: str) -> None:
    with pytest.raises(RuntimeError, match="Expected out tensor to have dtype"):
        WAYS[way](EXACT[name])(weft.tensor(X), weft.zeros(2, 2, dtype=weft.float16))


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", CASTABLE)
def test_cast(name: str, way: str) -> None:
    x, wanted = weft.tensor(X), CASTABLE[name](weft.tensor(X), None)
    out = weft.zeros(wanted.shape, dtype=weft.float64)
    np.testing.assert_allclose(WAYS[way](CASTABLE[name])(x, out).numpy(), wanted.to(weft.float64).numpy())


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", ["sum", "prod", "cumsum", "cumprod"])
def test_computed_in_it(name: str, way: str) -> None:
    x = weft.tensor([1e8 + 8, 1.5, -2.25, 3.0, 1e-8])
    wanted = getattr(weft, name)(x, 0, dtype=weft.float64)
    out = weft.zeros(wanted.shape, dtype=weft.float64)
    result = WAYS[way](lambda x, out: getattr(weft, name)(x, 0, out=out))(x, out)
    assert result.dtype is weft.float64 and (result == wanted).all()
    with pytest.raises(RuntimeError, match="Expected out tensor to have dtype"):
        WAYS[way](lambda x, out: getattr(weft, name)(x, 0, dtype=weft.float32, out=out))(x, out)


def test_any_and_all_take_bytes() -> None:
    x = weft.tensor([0, 3, 1])
    assert weft.any(x, out=weft.zeros((), dtype=weft.uint8)).item() == 1
    assert weft.all(x, out=weft.ones((), dtype=weft.uint8)).item() == 0
    with pytest.raises(RuntimeError):
        weft.all(x, out=weft.ones((), dtype=weft.int64))


def test_indices_want_their_own_dtype() -> None:
    x = weft.tensor(X)
    with pytest.raises(RuntimeError):
        weft.argmax(x, 0, out=weft.zeros(2, dtype=weft.int32))
    with pytest.raises(RuntimeError):
        weft.sort(x, 0, out=(weft.zeros(2, 2), weft.zeros(2, 2, dtype=weft.int32)))


def test_factories_compute_in_it() -> None:
    assert weft.arange(3, out=weft.zeros(3, dtype=weft.float64)).tolist() == [0, 1, 2]
    start, end = weft.tensor(0.0), weft.tensor(2.0)
    assert weft.linspace(start, end, 3, out=weft.zeros(3, dtype=weft.int64)).tolist() == [0, 1, 2]
    assert weft.normal(weft.zeros(3), 1.0, out=weft.zeros(3, dtype=weft.float64)).dtype is weft.float64

"""any and all over an empty list of dims ask each element, where other reductions go over all."""

import numpy as np
import pytest

import weft

VALUES = {
    "float": weft.tensor([[1.0, 0.0, float("nan")], [0.0, -2.0, 0.0]]),
    "bool": weft.tensor([[True, False], [False, True]]),
    "int": weft.tensor([[0, 3, -1]]), "byte": weft.tensor([[0, 3], [1, 0]], dtype=weft.uint8),
    "scalar": weft.tensor(2.0), "nothing": weft.zeros(0, 3), "turned": weft.tensor([[1.0, 0.0], [0.0, 0.0]]).t(),
}


def compiled(function):
    step = weft.compile(function)
    return lambda x: (step(x), step(x))[1]


WAYS = {
    "eager": lambda f: f, "compiled": compiled, "lazy": lambda f: lambda x: f(x.to("lazy")).cpu(),
    "vmap": lambda f: lambda x: weft.func.vmap(f)(weft.stack([x, x]))[1],
    "traced": lambda f: lambda x: weft.jit.trace(f, (x,))(x),
}


@pytest.mark.parametrize("name", ["any", "all"])
@pytest.mark.parametrize("keepdim", [False, True])
@pytest.mark.parametrize("dims", [(), []])
@pytest.mark.parametrize("kind", VALUES)
@pytest.mark.parametrize("ways", WAYS)
def test_each_element(name, keepdim, dims, kind, ways):
    x = VALUES[kind]
    out = WAYS[ways](lambda t: getattr(weft, name)(t, dim=dims, keepdim=keepdim))(x)
    assert out.dtype == (weft.uint8 if kind == "byte" else weft.bool)
    assert out.shape == x.shape and np.array_equal(out.numpy() != 0, x.numpy() != 0)


@pytest.mark.parametrize("name", ["any", "all"])
@pytest.mark.parametrize("ways", WAYS)
def test_within_more(name, ways):
    def f(x):
        return getattr((x + 1) > 1, name)(dim=()).float() * 2 + getattr(x > 0, name)().float()

    x = VALUES["float"].nan_to_num(3.0)
    expected = ((x + 1) > 1).float() * 2 + float(getattr((x > 0).numpy(), name)())
    assert weft.equal(WAYS[ways](f)(x), expected)


@pytest.mark.parametrize("name", ["sum", "mean", "amax", "std"])
def test_the_others_go_over_all(name):
    x = VALUES["float"].nan_to_num(1.0)
    assert weft.equal(getattr(weft, name)(x, dim=()), getattr(weft, name)(x))

"""Values are written to places that the run finds; that they are as many is known when it has found them."""

import pytest

import weft

MODES = {
    "eager": lambda f: f, "compile": weft.compile, "split": lambda f: weft.compile(f, split=True),
    "functionalize": weft.func.functionalize, "lazy": lambda f: f,
}


@pytest.mark.parametrize("mode", MODES)
def test_values_in_places_of_nonzero(mode):
    def step(x, values):
        x[(x > 2).nonzero(as_tuple=True)] = values
        return x.clone()

    device = "lazy" if mode == "lazy" else "cpu"
    f = MODES[mode](step)
    for n in (6, 7):
        x = weft.arange(float(n), device=device)
        assert f(x, -weft.ones(n - 3, device=device)).tolist() == [0, 1, 2, *[-1.0] * (n - 3)]
    with pytest.raises(RuntimeError):
        f(weft.arange(6.0, device=device), weft.ones(2, device=device)).tolist()

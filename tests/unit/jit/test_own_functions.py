"""Functions of weft's scripted as they are, and the names of the operators of a program."""

import io

import pytest

import weft
import weft.jit
import weft.nn.functional as F

X = weft.arange(16.0).reshape(1, 1, 4, 4)


@pytest.mark.parametrize(
    ("function", "args", "kwargs"),
    [
        (F.relu, (X - 3,), {}),
        (F.softmax, (X,), {"dim": -1}),
        (F.conv2d, (X, weft.ones(1, 1, 2, 2)), {"stride": 2}),
        (F.pad, (X, [1, 2]), {"value": 0.5}),
        (F.max_pool2d, (X, 2), {}),
        (F.interpolate, (X,), {"scale_factor": 2.0}),
        (F.triplet_margin_loss, (X, X + 1, X + 2), {"reduction": "sum"}),
        (weft.add, (X, X), {"alpha": 2.0}),
        (weft.stack, ([X, X],), {"dim": 1}),
    ],
)
def test_it_does_what_the_function_does(function, args, kwargs):
    scripted = weft.jit.script(function)
    assert isinstance(scripted, weft.jit.ScriptFunction) and scripted.name == function.__name__
    assert weft.equal(scripted(*args, **kwargs), function(*args, **kwargs))


def test_it_is_stored_and_called_by_other_programs():
    buffer = io.BytesIO()
    weft.jit.save(weft.jit.script(F.gelu), buffer)
    buffer.seek(0)
    assert weft.equal(weft.jit.load(buffer)(X), F.gelu(X))
    relu = weft.jit.script(F.relu)

    @weft.jit.script
    def program(x):
        return relu(x) + 1

    assert weft.equal(program(X - 8), F.relu(X - 8) + 1)


def test_the_names_of_the_operators_of_a_program():
    @weft.jit.script
    def inner(x):
        return x.relu() * 2

    class Net(weft.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = weft.nn.Linear(2, 2)

        def forward(self, x, n: int):
            for _ in range(n):
                x = inner(self.layer(x))
            return x + x

    names = weft.jit.export_opnames(weft.jit.script(Net()))
    assert {"aten::linear", "aten::relu", "aten::mul.Tensor", "aten::add.Tensor", "prim::Loop"} <= set(names)
    assert names == sorted(set(names))
    assert weft.jit.export_opnames(inner) == ["aten::mul.Tensor", "aten::relu"]

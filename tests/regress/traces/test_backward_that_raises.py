"""A custom Function whose backward raises is traced for what it computes: the program raises where that runs."""

import io

import pytest

import weft
from weft.autograd import Function


class Own(Exception):
    pass


def raising(error):
    class Shifted(Function):
        @staticmethod
        def forward(ctx, x):
            return x + 1

        @staticmethod
        def backward(ctx, grad):
            twice = grad * 2
            raise error
            return twice

    return Shifted


class Crossed(Function):
    """Its backward takes one gradient of two."""

    @staticmethod
    def forward(ctx, x):
        return x + 1, x - 1

    @staticmethod
    def backward(ctx, grad):
        return grad


CASES = [
    (raising(NotImplementedError("no gradient")), NotImplementedError, "no gradient"),
    (raising(ValueError("bad")), ValueError, "bad"),
    (raising(Own("mine")), RuntimeError, "Own: mine"),
    (Crossed, TypeError, "positional argument"),
]


@pytest.mark.parametrize("function, kind, text", CASES)
@pytest.mark.parametrize("is_from_file", [False, True])
def test_it_raises_where_it_runs(function, kind, text, is_from_file):
    def f(x):
        out = function.apply(x * 2)
        return (out[0] + out[1] if isinstance(out, tuple) else out) * 3

    program = weft.jit.trace(f, (weft.zeros(2),))
    if is_from_file:
        buffer = io.BytesIO()
        weft.jit.save(program, buffer)
        buffer.seek(0)
        program = weft.jit.load(buffer)
    x = weft.rand(3, 4)
    assert weft.allclose(program(x), f(x))
    x.requires_grad_()
    for _ in range(2):
        out = program(x)
        assert out.requires_grad
        with pytest.raises(kind, match=text):
            out.sum().backward()
        assert x.grad is None

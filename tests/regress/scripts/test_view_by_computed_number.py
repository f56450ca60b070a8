"""A number that a scripted program computes, among the sizes of a view: it was a symbol within a symbol, its guard
asked about the example alone, and a program ran for sizes that it was not made for, beyond its memory.
"""

from __future__ import annotations

import weft
import weft.jit
from weft import Tensor
from weft.jit.interpreter.hot import compiled_after


@weft.jit.script
def rows_of(x: Tensor, n: int) -> Tensor:
    y = weft.tanh(x).sin()
    z = weft.tanh(y.reshape(-1).view(n, -1)) * 1.0
    print(end="")
    return z[:, 0]


def test_one_program_serves_every_number(rng) -> None:
    weft.counters.reset()
    with compiled_after(0, 0):
        for sizes in ((3, 4), (4, 3), (3, 3), (2, 5), (4, 5)):
            x = weft.tensor(rng.standard_normal(sizes), requires_grad=True)
            out = rows_of(x, sizes[0])
            (first,) = weft.autograd.grad((out**2).sum(), x, create_graph=True)
            (second,) = weft.autograd.grad((first**2).sum(), x)
            plain = x.tanh().sin().tanh()[:, 0]
            (a,) = weft.autograd.grad((plain**2).sum(), x, create_graph=True)
            (b,) = weft.autograd.grad((a**2).sum(), x)
            assert weft.allclose(out, plain) and weft.allclose(first, a) and weft.allclose(second, b)
    assert weft.counters.captures == 1


def test_a_loop_whose_views_are_by_its_number(rng) -> None:
    def f(x: Tensor, n: int) -> Tensor:
        for i in range(1, n):
            x = x.reshape(-1).view(i, -1).sin().expand(i, 12 // i)
        return x

    compiled = weft.compile(weft.jit.script(f))
    x = weft.tensor(rng.standard_normal(12))
    for n in (2, 3, 4, 3):
        assert weft.allclose(compiled(x, n), f(x, n))

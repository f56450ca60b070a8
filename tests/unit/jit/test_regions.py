"""Which operators stand in one differentiable region, by how programs are written: what hangs together is one region,
what is in between moves out of the way where it may, and what each region computes is what the program did.
"""

from __future__ import annotations

import numpy as np
import pytest

import weft
import weft.jit
from weft import Tensor
from weft.jit.interpreter.hot import compiled_after


@weft.jit.ignore
def seen(x: Tensor) -> Tensor:
    return x


def merged(x, y):
    a = x * y
    return a * y


def one_alone(x, y):
    return x * y


def unrelated(w, x, y, z):
    a = w * x
    a = a * x
    b = y * z
    b = b * z
    return a, b


def split_by_a_call(x, y):
    a = x * y
    b = seen(a)
    return a * y, b * x


def dense(x, y):
    a = x + y
    b = a * x
    c = a * y
    return b * c + a


def no_cycle(w, x, y):
    a = w * x
    b = seen(a) * y
    return a * b


def merges_up(w, x, y, z):
    a = w * x
    print(z.dim(), end="")
    b = a * y
    return a * b


def merges_down(v, w, x, y):
    a = v * w
    c = x + y
    print(c.dim(), end="")
    d = c * v
    return a * c, a * d


def scopes(x, k: int):
    y = x * k
    if k > 1:
        print(end="")
        y = y * 1.1 + x
    return y * x


def aliasing(x, y):
    y = y * 1
    z1 = y[0] + x
    y[0].add_(1)
    z2 = y[1]
    return (z1 * z2 + z2) * y[0]


def aliased_results(x, y):
    a = x * y
    b = a.t()
    return a, b, b * y


def over_a_print(x, y):
    a = x.tanh() * y
    print(end="")
    return a.tanh() * y


def constants_only(n: int):
    a = weft.ones(2)
    b = weft.zeros(2)
    return a.add_(n), b.add_(n)


# program: operators on tensors in each region
CASES = {
    merged: [2],
    one_alone: [],
    unrelated: [2, 2],
    split_by_a_call: [],
    dense: [5],
    no_cycle: [2],
    merges_up: [3],
    merges_down: [5],
    over_a_print: [4],
    constants_only: [],
}


def arguments(function, rng):
    count = function.__code__.co_argcount
    n = int(rng.integers(2, 6))
    names = function.__code__.co_varnames[:count]
    return [int(rng.integers(1, 4)) if v in "kn" else weft.tensor(rng.standard_normal((n, n)), requires_grad=True)
            for v in names]


@pytest.mark.parametrize("function", CASES, ids=lambda f: f.__name__)
def test_regions_are_as_large_as_they_may_be(function, rng) -> None:
    scripted = weft.jit.script(function)
    scripted(*arguments(function, rng))
    plan = weft.jit.last_executed_plan(scripted)
    plan.graph.lint()
    sizes = sorted(sum(n.op.name.startswith("aten::") for n in g.ir.walk()) for g in plan.autodiff_subgraphs)
    assert sizes == sorted(CASES[function]), plan.graph


PROGRAMS = [*(f for f in CASES if f is not constants_only), scopes, aliasing, aliased_results]


@pytest.mark.parametrize("function", PROGRAMS, ids=lambda f: f.__name__)
def test_regions_compute_what_the_program_does(function, rng) -> None:
    scripted = weft.jit.script(function)
    with compiled_after(0, 0):
        for _ in range(3):
            args = arguments(function, rng)
            leaves = [a for a in args if isinstance(a, Tensor)]
            found = []
            for f in (function, scripted):
                outs = f(*args)
                outs = outs if isinstance(outs, tuple) else (outs,)
                total = sum((o * o).sum() for o in outs)
                first = weft.autograd.grad(total, leaves, create_graph=True, allow_unused=True)
                flowing = [g for g in first if g is not None]
                second = weft.autograd.grad(sum((g * g).sum() for g in flowing), leaves, allow_unused=True)
                found.append([*outs, *first, *second])
            for a, b in zip(*found, strict=True):
                assert (a is None) == (b is None)
                if a is not None:
                    np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=1e-9, atol=1e-9)


def test_a_view_of_a_result_shows_it_still(rng) -> None:
    scripted = weft.jit.script(aliased_results)
    with compiled_after(0, 0):
        for _ in range(3):
            args = [a.detach() for a in arguments(aliased_results, rng)]
            a, b, _ = scripted(*args)
            with weft.no_grad():
                a.add_(1)
            assert weft.equal(a.t(), b)


def test_arguments_that_want_no_gradient_get_none(rng) -> None:
    @weft.jit.script
    def f(x, w, b):
        return (x @ w + b).tanh() * x + b

    with compiled_after(0, 0):
        for wanted in ("w", "wb", "xwb", "b"):
            x, w, b = (weft.tensor(rng.standard_normal(s), requires_grad=n in wanted)
                       for n, s in (("x", (3, 3)), ("w", (3, 3)), ("b", (3,))))
            for _ in range(2):
                f(x, w, b).sum().backward()
            assert [t.grad is not None for t in (x, w, b)] == ["x" in wanted, "w" in wanted, "b" in wanted]


def test_lists_of_tensors_carry_gradients_into_regions(rng) -> None:
    @weft.jit.script
    def f(items: list[Tensor]):
        return (weft.cat(items) * 2).tanh() + items[0].sum()

    with compiled_after(0, 0):
        for _ in range(3):
            n = int(rng.integers(1, 5))
            a, b = weft.tensor(rng.standard_normal(n), requires_grad=True), weft.tensor(rng.standard_normal(n + 1))
            (found,) = weft.autograd.grad(f([a, b]).sum(), [a])
            (expected,) = weft.autograd.grad(((weft.cat([a, b]) * 2).tanh() + a.sum()).sum(), [a])
            np.testing.assert_allclose(found.numpy(), expected.numpy(), rtol=1e-9)


@pytest.mark.parametrize("kind", ["chunk", "split", "unbind", "lstm"])
def test_members_that_nobody_uses_have_gradients_of_zero(kind) -> None:
    texts = {
        "chunk": "a, b = (x * 2).chunk(2)\n    return a * 3, b * 5",
        "split": "a, b = (x * 2).split(2)\n    return a * 3, b * 5",
        "unbind": "a, b, c, d = (x * 2).unbind(0)\n    return a * 3 + b, weft.stack([c, d]) * 5",
        "lstm": "i, f, g, o = (x * 1).chunk(4)\n    c = i.sigmoid() * g.tanh() + f.sigmoid()\n    return c, o * 10",
    }
    f = weft.jit.CompilationUnit(f"def f(x):\n    {texts[kind]}\n").f
    x = weft.ones(4, requires_grad=True)
    with compiled_after(0, 0):
        for _ in range(3):
            (found,) = weft.autograd.grad(f(x)[1].sum(), [x])
            assert found.tolist() == ([0, 0, 0, 10] if kind == "lstm" else [0, 0, 10, 10])

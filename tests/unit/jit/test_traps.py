"""The traps of graph compilers (T-JIT), at least one test each."""

from __future__ import annotations

import gc
import threading
import weakref
from typing import Optional

import numpy as np
import pytest

import weft
import weft.jit
from weft import Tensor
from weft.jit.interpreter.hot import compiled_after

RNG = np.random.default_rng(5)


def test_t_jit_1_the_same_program_with_and_without_gradients_and_none() -> None:
    @weft.jit.script
    def f(x: Tensor, y: Optional[Tensor] = None):  # noqa: UP045
        return x * x if y is None else x * y

    for dtype in (weft.float32, weft.float64):
        for ndim in (0, 1, 3):
            x = weft.ones([2] * ndim, dtype=dtype)
            assert not f(x).requires_grad and f(x).dtype == dtype
            with weft.no_grad():
                assert not f(x.requires_grad_()).requires_grad
            assert f(x).requires_grad and f(x, x.detach()).requires_grad
    (g,) = weft.autograd.grad(f(x).sum(), x, create_graph=True)
    assert weft.equal(weft.autograd.grad(g.sum(), x)[0], weft.full_like(x, 2.0))


def test_t_jit_2_rows_of_any_layout() -> None:
    f = weft.jit.script(written)
    for make in (
        lambda t: t,
        lambda t: t.t(),
        lambda t: t[::2],
        lambda t: t[:, 1:].t(),
        lambda t: t.expand(2, *t.shape)[0],
    ):
        n = int(RNG.integers(4, 7))
        x = make(weft.randn(n, n))
        assert weft.equal(f(x.clone()), written(x.clone())) and weft.equal(f(x.contiguous()), f(x.clone()))


def written(x):
    y = x * 2
    y[0] += 1
    return y.t() + 1


def test_t_jit_3_results_that_are_inputs_views_and_constants() -> None:
    constant = weft.ones(2)

    @weft.jit.script
    def f(x, y):
        return x, x, y[0], constant, x.detach()

    x, y = weft.randn(2, requires_grad=True), weft.randn(2, 2)
    a, b, c, d, e = f(x, y)
    assert a is x and b is x and d is constant and not e.requires_grad
    c.add_(1)
    assert weft.equal(y[0], c)


def test_t_jit_4_writes_are_seen_where_python_sees_them() -> None:
    def f(x, y):
        view = y[1]
        z1 = y[0] + 1
        y[0].add_(x)
        z2 = y[0] + 1
        items = [z1]
        alias = items
        alias.append(z2)
        view.mul_(2.0)
        return items, len(items), y, x + 1, (x.add_(1), x + 1)[1]

    args = [weft.randn(3), weft.randn(2, 3)]
    (a, n, y, *rest), (b, m, z, *others) = f(*[t.clone() for t in args]), weft.jit.script(f)(*[t.clone() for t in args])
    assert n == m and all(weft.equal(p, q) for p, q in zip([*a, y, *rest], [*b, z, *others], strict=True))


def test_t_jit_4_random_draws_stay_in_order() -> None:
    def f(n: int):
        a = weft.rand(n)
        weft.rand(n)  # its draw keeps its place in the stream
        return a - weft.rand(n)

    weft.manual_seed(3)
    expected = f(4)
    weft.manual_seed(3)
    assert weft.equal(weft.jit.script(f)(4), expected)


@pytest.mark.parametrize("n", [-3, 0, 1, 2, 7, 20])
def test_t_jit_5_trip_counts(n: int) -> None:
    def f(x, n: int):
        i = 0
        for i in range(n):  # noqa: B007
            x = x * 1.5
            if x.sum() > 40:
                break
        while i < n and n < 5:
            i += 1
            x = x + i
        return x, i

    scripted = weft.jit.script(f)
    x, y = (weft.ones(2, requires_grad=True) for _ in range(2))
    (a, i), (b, j) = f(x, n), scripted(y, n)
    a.sum().backward(), b.sum().backward()
    assert weft.equal(a, b) and i == j and weft.equal(x.grad, y.grad)


def test_t_jit_6_what_is_computed_and_how_often() -> None:
    calls: list[int] = []

    @weft.jit.ignore
    def noted(n: int) -> int:
        calls.append(n)
        return n

    @weft.jit.script
    def f(n: int):
        a = noted(1) < noted(n) < noted(3)
        b = noted(10) < 0 and noted(11) > 0
        c = noted(20) > 0 or noted(21) > 0
        return a, b, c

    assert f(0) == (False, False, True) and calls == [1, 0, 10, 20]
    calls.clear()
    assert f(2) == (True, False, True) and calls == [1, 2, 3, 10, 20]


def test_t_jit_6_integers_have_64_bits() -> None:
    f = weft.jit.CompilationUnit(
        "def f(n: int):\n    for i in range(70):\n        n = n * 3 + 1\n    return n, n // 7, -n % 5\n"
    ).f
    with np.errstate(over="ignore"):
        n = np.int64(5)
        for _ in range(70):
            n = n * np.int64(3) + np.int64(1)
    assert f(5) == (int(n), int(n) // 7, -int(n) % 5)


def test_t_jit_7_what_is_inferred_holds_in_every_run(rng) -> None:
    def f(x, n: int):
        y = x[:, :1] * 2
        for i in range(n):
            y = weft.cat([y, (x * i).tanh()], 1)
        return y, x.reshape(x.shape[0] * x.shape[1])

    scripted = weft.jit.script(f)
    typed = weft.jit.shape_analysis(scripted.graph, (weft.ones(3, 2), 2))
    (loop,) = typed.findAllNodes("prim::Loop")
    assert str(loop.outputs()[0].type()) == "f32[3, *]"  # it grows: its size is told nowhere
    traced = weft.jit.trace(lambda x: x.view(x.size(1), -1) + x.shape[0], (weft.ones(2, 4),))
    with compiled_after(0, 0):
        for n, rows in ((2, 3), (0, 5), (3, 2), (5, 4), (2, 7)):
            x = weft.tensor(rng.standard_normal((rows, 2)))
            for a, b in zip(scripted(x, n), f(x, n), strict=True):
                assert a.shape == b.shape and weft.allclose(a, b)
            assert weft.equal(traced(x), x.view(2, -1) + rows)
    again = str(scripted.graph)
    weft.jit.shape_analysis(scripted.graph, (weft.ones(5, 2), 1))
    assert str(scripted.graph) == again


def test_t_jit_8_diamonds_compile_in_linear_time() -> None:
    depth = 200
    lines = "".join(f"    a{i + 1} = a{i} * 0.5 + a{i} * 0.5\n" for i in range(depth))
    f = weft.jit.CompilationUnit(f"def f(a0):\n{lines}    return a{depth}\n").f
    x = weft.ones(3, requires_grad=True)
    with compiled_after(0, 0):
        for _ in range(2):
            (g,) = weft.autograd.grad(f(x).sum(), [x])
    assert weft.allclose(g, weft.ones(3)) and len(f.graph.copy().nodes()) == 3 * depth


def test_t_jit_8_long_programs_compile_in_linear_time() -> None:
    count = 2500
    text = "def f(x):\n" + "    x = x * 0.5 + 1\n" * count + "    return x\n"
    graph = weft.jit.CompilationUnit(text).f.graph
    assert len(graph.nodes()) == 2 * count
    assert weft.allclose(weft.jit.CompilationUnit(text).f(weft.zeros(1)), weft.full((1,), 2.0))


def test_t_jit_9_sizes_are_looked_at_when_the_program_runs(rng) -> None:
    def f(x, y, z):
        a = (x * y).tanh() + x
        b = (x + z).sigmoid() * z - 1
        return a, b, weft.cat([a, b], 0)

    scripted = weft.jit.script(f)
    shapes = (((4, 3), (4, 3), (4, 3)), ((4, 3), (4, 1), (1, 3)), ((2, 1), (2, 3), (1, 3)), ((0, 2), (0, 2), (2,)),
              ((3, 1), (1, 2), (3, 2)), ((1, 1), (), (1,)))
    with compiled_after(0, 0):
        for _ in range(2):
            for shape in shapes:
                args = [weft.tensor(rng.standard_normal(s)) for s in shape]
                try:
                    expected = f(*args)
                except Exception as error:
                    with pytest.raises(type(error)):
                        scripted(*args)
                    continue
                for a, b in zip(scripted(*args), expected, strict=True):
                    assert a.shape == b.shape and weft.allclose(a, b)
        with pytest.raises(Exception, match=r"broadcast|cat"):
            scripted(weft.ones(3, 3), weft.ones(3, 3), weft.ones(2))


def test_t_jit_10_dropout_draws_anew_and_obeys_the_seed() -> None:
    f = weft.jit.CompilationUnit("def f(x, train: bool):\n    return F.dropout(x, 0.5, train)\n").f
    x = weft.ones(64)
    weft.manual_seed(1)
    a, b = f(x, True), f(x, True)
    weft.manual_seed(1)
    assert weft.equal(f(x, True), a) and not weft.equal(a, b) and weft.equal(f(x, False), x)


def test_t_jit_11_saved_values_know_their_version() -> None:
    f = weft.jit.CompilationUnit("def f(x):\n    y = x * 2\n    return y, y * y\n").f
    y, z = f(weft.ones(2, requires_grad=True))
    with weft.no_grad():
        y.add_(1)
    with pytest.raises(RuntimeError, match=r"modified by an inplace operation|modified in place"):
        z.sum().backward()


def test_t_jit_12_errors_name_the_lines_of_all_callers() -> None:
    unit = weft.jit.CompilationUnit(
        "def a(x):\n    return x @ x\n\ndef b(x):\n    if x.dim() > 0:\n        return a(x)\n    return x\n"
    )
    with pytest.raises(RuntimeError, match=r"line 2, column 12\n.*line 6, column 16"):
        unit.b(weft.ones(2, 3))


def test_values_are_let_go_after_their_last_use() -> None:
    alive: list[weakref.ref] = []
    counts: list[int] = []

    @weft.jit.ignore
    def watch(x: Tensor) -> Tensor:
        alive.append(weakref.ref(x))
        return x

    @weft.jit.ignore
    def ask(n: int) -> int:
        gc.collect()
        counts.append(sum(r() is not None for r in alive))
        return n

    @weft.jit.script
    def f(x, n: int):
        y = watch(x * 2)
        z = y + 1
        n = ask(n)
        return z + n

    f(weft.ones(2), 1)
    assert counts == [0]


def test_threads_run_one_program() -> None:
    f = weft.jit.CompilationUnit("def f(x, n: int):\n    for i in range(n):\n        x = x + i\n    return x\n").f
    found: dict[int, Tensor] = {}
    threads = [threading.Thread(target=lambda k=k: found.__setitem__(k, f(weft.zeros(2), k * 5))) for k in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert all(weft.equal(found[k], weft.full((2,), float(sum(range(k * 5))))) for k in range(8))


def test_a_scripted_function_within_a_compiled_one() -> None:
    @weft.jit.script
    def f(x, n: int):
        for i in range(n):
            x = weft.tanh(x) * 1.5 + i if i % 2 == 0 else x - 1
        return x

    step = weft.compile(lambda x: (f(x, 3) ** 2).sum())
    x, y = (weft.linspace(-1, 1, 5).requires_grad_() for _ in range(2))
    a, b = step(x), (f(y, 3) ** 2).sum()
    a.backward(), b.backward()
    assert weft.allclose(a, b) and weft.allclose(x.grad, y.grad)

"""Plans of scripted programs: one for each kind of arguments, which serves every size; groups that are native programs;
and what is interpreted after all.
"""

from __future__ import annotations

import gc
import threading
import weakref

import numpy as np
import pytest

import weft
import weft.compiled_autograd
import weft.func
import weft.jit
from weft.jit.interpreter.hot import compiled_after


def chain(x, y, z, s):
    for _ in (0, 1, 2, 3):
        x = (x * y + z).tanh() - s
        x = weft.relu(x) + x * 0.1
        x = (x - y) / 2.0
    return x


def arguments(rng, n: int, m: int, grad: bool = False):
    shapes = ((n, m), (m,), (n, 1), ())
    return [weft.tensor(rng.standard_normal(shape), requires_grad=grad and not i) for i, shape in enumerate(shapes)]


def test_one_plan_and_one_program_serve_every_size(rng) -> None:
    f = weft.jit.script(chain)
    weft.counters.reset()
    for n in range(2, 40):
        args = arguments(rng, n, n + 1)
        np.testing.assert_allclose(f(*args).numpy(), chain(*args).numpy(), rtol=1e-12, atol=1e-12)
    assert (weft.counters.jit_plans, weft.counters.captures, weft.counters.fusion_fallbacks) == (1, 1, 0)
    before = weft.counters.kernels
    f(*arguments(rng, 7, 3))
    assert weft.counters.kernels == before + 1


def test_a_plan_for_each_kind_of_arguments(rng) -> None:
    @weft.jit.script
    def f(x, y: weft.Tensor | None):
        return x * 2 if y is None else x * y

    x, y = weft.ones(3), weft.ones(3)
    weft.counters.reset()
    wanting = weft.ones(3, requires_grad=True)
    for args in ((x, None), (x, y), (weft.ones(2, 2), None), (x.to(weft.float64), None), (wanting, None)):
        for _ in range(2):
            f(*args)
    assert weft.counters.jit_plans == 5
    with weft.no_grad():
        f(wanting, None)
    assert weft.counters.jit_plans == 6
    assert f(wanting, None).requires_grad
    f(weft.ones(9), None)
    assert weft.counters.jit_plans == 6


def test_groups_stand_in_the_plans_graph() -> None:
    @weft.jit.script
    def f(x, y):
        a = x.tanh() * y
        print("half")
        b = a.sigmoid() + x
        return b.matmul(y)

    x = weft.ones(2, 2, requires_grad=True)
    f(x, x)
    plan = weft.jit.last_executed_plan(f)
    assert [n.kind() for n in plan.graph.nodes()] in (
        ["prim::Print", "prim::DifferentiableGraph"], ["prim::DifferentiableGraph", "prim::Print"]
    )
    assert len(plan.autodiff_subgraphs) == 1
    assert len(plan.fusion_groups) == 1
    assert [n.kind() for n in plan.fusion_groups[0].nodes()] == [
        "aten::tanh", "aten::mul", "aten::sigmoid", "aten::add"
    ]
    assert "aten::matmul" in str(plan.autodiff_subgraphs[0])
    plan.graph.lint()
    with weft.no_grad():
        f(x, x)
    assert weft.jit.last_executed_plan(f).autodiff_subgraphs == []


def test_nothing_moves_over_a_write() -> None:
    @weft.jit.script
    def f(y):
        x = y[0] * 2
        y[0].add_(1)
        return x + y[0] * 3, y[1] + x

    def plain(y):
        x = y[0] * 2
        y[0].add_(1)
        return x + y[0] * 3, y[1] + x

    with compiled_after(0, 0):
        for _ in range(3):
            a, b = weft.arange(4.0).view(2, 2), weft.arange(4.0).view(2, 2)
            for p, q in zip((*f(a), a), (*plain(b), b), strict=True):
                assert weft.equal(p, q)


def test_sizes_that_do_not_fit_are_interpreted_and_counted(rng) -> None:
    @weft.jit.script
    def f(x, y, z):
        a = (x * y).tanh() + x
        b = (x + z).sigmoid() * z
        return a * 2, b - 1

    def call(p, q, r):
        args = [weft.tensor(rng.standard_normal(s)) for s in (p, q, r)]
        for a, b in zip(f(*args), f.__wrapped__(*args), strict=True):
            np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-12, atol=1e-12)

    for n in (3, 4, 5):
        call((n, 2), (n, 2), (n, 2))
    weft.counters.reset()
    call((4, 1), (4, 3), (1, 5))
    assert weft.counters.fusion_fallbacks == 1
    call((6, 2), (6, 2), (6, 2))
    assert weft.counters.fusion_fallbacks == 1


@pytest.mark.parametrize("change", ["transposed", "sliced", "expanded", "empty", "one"])
def test_a_program_is_used_again_with_other_layouts(change, rng) -> None:
    f = weft.jit.script(chain)

    def made(n, m):
        if change == "transposed":
            return weft.tensor(rng.standard_normal((m, n))).t()
        if change == "sliced":
            return weft.tensor(rng.standard_normal((2 * n, m)))[::2]
        if change == "expanded":
            return weft.tensor(rng.standard_normal((1, m))).expand(n, m)
        return weft.tensor(rng.standard_normal((0 if change == "empty" else 1, m)))

    for n in (3, 4):
        f(*arguments(rng, n, 5))
    for n in (3, 6, 4):
        x = made(n, 5)
        args = [x, *arguments(rng, x.shape[0], 5)[1:]]
        np.testing.assert_allclose(f(*args).numpy(), chain(*args).numpy(), rtol=1e-12, atol=1e-12)


def test_gradients_of_both_orders_and_versions(rng) -> None:
    f = weft.jit.script(chain)
    for n in (2, 3, 5):
        args = arguments(rng, n, 4, grad=True)
        found = []
        for g in (f, chain):
            (first,) = weft.autograd.grad((g(*args) ** 2).sum(), [args[0]], create_graph=True)
            found.append((first, weft.autograd.grad((first**2).sum(), [args[0]])[0]))
        for a, b in zip(*found, strict=True):
            np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=1e-9, atol=1e-9)
    out = f(*args)
    with weft.no_grad():
        args[1].mul_(2)
    with pytest.raises(RuntimeError, match="version"):
        out.sum().backward()


def test_results_that_are_arguments_stay_what_they_are(rng) -> None:
    @weft.jit.script
    def f(x, y):
        z = (x * y + x).tanh().exp().sin() * y
        return x, z, z, y[0], x

    with compiled_after(0, 0):
        for _ in range(3):
            x, y = (weft.tensor(rng.standard_normal((2, 3))) for _ in range(2))
            a, b, c, d, e = f(x, y)
            assert a is x
            assert e is x
            assert b is c
            d.zero_()
            assert y[0].abs().sum().item() == 0


def test_a_value_is_let_go_after_its_last_use() -> None:
    seen = []

    @weft.jit.ignore
    def watch(x):
        gc.collect()
        seen.append([r() is None for r in refs])
        refs.append(weakref.ref(x))
        return x * 1

    refs: list[weakref.ref] = []

    @weft.jit.script
    def f(x):
        a = watch(x + 1)
        b = watch(a + 1)
        return watch(b + 1)

    f(weft.ones(2))
    assert seen == [[], [True], [True, True]]


def test_errors_of_a_native_group_are_the_interpreters() -> None:
    @weft.jit.script
    def f(x, n: int):
        total = x * 0
        for i in range(n):
            total = total + x[i].exp() * x
        return total

    for _ in range(3):
        f(weft.ones(4), 3)
    with pytest.raises(IndexError, match=r"test_plans.py, line \d+"):
        f(weft.ones(4), 6)


def test_threads_share_a_plan(rng) -> None:
    f = weft.jit.script(chain)
    calls = [arguments(rng, int(n), 3) for n in rng.integers(1, 9, 8)]
    found: dict[int, list[np.ndarray]] = {}

    def run(i: int) -> None:
        found[i] = [f(*calls[i]).numpy() for _ in range(5)]

    threads = [threading.Thread(target=run, args=(i,)) for i in range(len(calls))]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    for i, args in enumerate(calls):
        for out in found[i]:
            np.testing.assert_allclose(out, chain(*args).numpy(), rtol=1e-12, atol=1e-12)


def test_chunks_are_part_of_a_group() -> None:
    @weft.jit.script
    def f(x):
        p, q, r, s = x.chunk(4)
        return (p.sigmoid() * q.tanh() + r).exp() * s - p

    for n in (8, 12, 20):
        x = weft.randn(n)
        assert weft.allclose(f(x), f.__wrapped__(x), atol=1e-6)
    before = weft.counters.native_calls
    f(weft.randn(16))
    assert weft.counters.native_calls == before + 1
    with pytest.raises(ValueError, match="not enough values to unpack"):
        f(weft.randn(5))  # three chunks


def test_transforms_and_compiled_programs_see_through_plans(rng) -> None:
    f = weft.jit.script(chain)
    args = arguments(rng, 3, 4)
    for _ in range(2):
        f(*args)
    found = weft.func.grad(lambda x: f(x, *args[1:]).sum())(args[0])
    expected = weft.func.grad(lambda x: chain(x, *args[1:]).sum())(args[0])
    np.testing.assert_allclose(found.numpy(), expected.numpy(), rtol=1e-12)
    batch = weft.tensor(rng.standard_normal((5, 3, 4)))
    mapped = weft.func.vmap(lambda x: f(x, *args[1:]))(batch)
    np.testing.assert_allclose(mapped.numpy(), np.stack([chain(x, *args[1:]).numpy() for x in batch]), rtol=1e-12)
    x = args[0].clone().requires_grad_()
    with weft.compiled_autograd.enable():
        f(x, *args[1:]).sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), expected.numpy(), rtol=1e-12)


def test_draws_follow_the_seed() -> None:
    def f(x):
        return (weft.nn.functional.dropout(x, 0.5, True).exp() * 2 + x).tanh() - x * 3 + weft.rand_like(x)

    scripted, x = weft.jit.script(f), weft.ones(5)
    for seed in range(4):
        weft.manual_seed(seed)
        a, b = scripted(x), scripted(x)
        weft.manual_seed(seed)
        assert weft.allclose(a, f(x), atol=1e-6)
        assert weft.allclose(b, f(x), atol=1e-6)
        assert not weft.equal(a, b)


def test_a_plans_graph_reads_back_and_runs(rng) -> None:
    f = weft.jit.script(chain)
    args = arguments(rng, 2, 3)
    f(*args)
    shown = weft.jit.last_executed_plan(f).graph
    again = weft.jit.parse_ir(str(shown))
    again.lint()
    assert str(again) == str(shown)
    assert weft.equal(weft.jit.create_function_from_graph("again", again)(*args), chain(*args))

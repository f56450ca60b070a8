"""The acceptance checks of the register (S0, S1) and the traps T-CA that no other file here is about."""

from __future__ import annotations

import gc
import inspect
import re
from typing import Any

import numpy as np
import pytest

import weft
from weft import compiled_autograd as ca
from weft.compiled_autograd.cache import cache
from weft.support.counters import counters

Rng = np.random.Generator


@pytest.fixture(autouse=True)
def _empty_cache() -> None:
    ca.reset()


def leaf(rng: Rng, *shape: int) -> weft.Tensor:
    return weft.from_numpy(rng.standard_normal(shape)).requires_grad_()


def names() -> list[str]:
    return [node.op.name.split("::")[1] for node in ca.last_graph().graph.nodes]


def both(step: Any, *leaves: weft.Tensor) -> int:
    """Run a step by the engine and by a captured graph; the gradients must be the same. Gives the captures."""
    found = []
    before = counters.captures
    for compiled in (False, True):
        for p in leaves:
            p.grad = None
        with ca.enable() if compiled else ca.disable():
            step()
        found.append([None if p.grad is None else p.grad.numpy().copy() for p in leaves])
    for e, c in zip(*found, strict=True):
        assert (e is None) == (c is None)
        if e is not None:
            assert e.dtype == c.dtype
            np.testing.assert_allclose(c, e, rtol=1e-6, atol=1e-9)
    return counters.captures - before


def test_s0_1_the_second_stage_opens_the_calls(rng: Rng) -> None:
    x, y = leaf(rng, 3, 4), leaf(rng, 3, 4)
    with ca.enable():
        weft.sin(x * y).sum().backward()
    called = names()
    assert called.count("MulBackward0") == 1 and not {"mul", "cos"} & set(called)
    program = cache.graphs()[0].compiled[ca.native]
    text = str(program.stages()[0]["captured"])  # type: ignore[attr-defined]
    assert "autograd::" not in text and "aten::cos" in text and "aten::mul" in text


def test_s0_2_one_signature_and_masks_that_are_heeded() -> None:
    signatures = {str(inspect.signature(form)) for form in ca.ops.values()}
    assert len(signatures) == 1 and len(ca.ops) > 200
    for form in ca.ops.values():
        count = len(form.plan.differentiable)
        slots = (None,) * len(form.plan.slots)
        assert form((None,), (False,) * count, slots) == (None,) * count  # reads nothing


def test_s0_5_one_check_for_each_edge(rng: Rng) -> None:
    x, w = leaf(rng, 3), leaf(rng, 3)
    with ca.enable():
        ((x * w).sin() + x).sum().backward()
    assert names().count("validate_outputs") == 6  # sum, add (2), sin, mul (2)


@pytest.mark.parametrize("dtype", [weft.float16, weft.bfloat16])
def test_s0_6_narrow_gradients_are_not_cast(rng: Rng, dtype: Any) -> None:
    class Double(weft.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: weft.Tensor) -> weft.Tensor:
            return x * 2

        @staticmethod
        def backward(ctx: Any, g: weft.Tensor) -> Any:
            assert g.dtype is dtype
            return g * 2

    x = weft.randn(4, 3).to(dtype).requires_grad_()
    with ca.enable():
        Double.apply(x.t()[1:]).sum().backward()
    assert x.grad.dtype is dtype and not [name for name in names() if "copy" in name or "cast" in name]
    np.testing.assert_array_equal(x.grad.float().numpy(), np.broadcast_to([0, 2, 2], (4, 3)))


def test_s0_7_classes_of_one_name(rng: Rng) -> None:
    def make(factor: float, extra: bool) -> Any:
        class Same(weft.autograd.Function):
            @staticmethod
            def forward(ctx: Any, x: weft.Tensor) -> weft.Tensor:
                ctx.save_for_backward(x)
                return x * factor

            @staticmethod
            def backward(ctx: Any, g: weft.Tensor) -> Any:
                return g * factor + (0 * ctx.saved_tensors[0] if extra else 0)

        return Same

    x = leaf(rng, 3)
    kinds = [(make(2.0, False), 2.0), (make(3.0, True), 3.0)]
    for function, factor in kinds + kinds[::-1]:
        x.grad = None
        with ca.enable():
            function.apply(x).sum().backward()
        assert names().count("call_backward") == 1
        np.testing.assert_array_equal(x.grad.numpy(), np.full(3, factor))


def test_s0_8_broadcasts_and_s0_9_sizes_share(rng: Rng) -> None:
    before = counters.captures
    y = leaf(rng, 3, 4)
    for shape in ((3, 1), (3, 4), (1, 4), (1, 1)):
        x = leaf(rng, *shape)
        both(lambda x=x: (x * y).sum().backward(), x, y)
    assert counters.captures - before == 1
    for n in (0, 1, 2, 7, 1000):
        x = leaf(rng, n)
        both(lambda x=x: (x * x).exp().sum().backward(), x)
        assert x.grad.shape == (n,)
    assert counters.captures - before == 2
    text = str(ca.last_graph())
    assert "1000" not in text and not re.search(r"\b7\b", text.split("#")[0])


def test_t_ca_3_what_only_prints_prints_once(rng: Rng, capsys: pytest.CaptureFixture[str]) -> None:
    class Prints(weft.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: weft.Tensor) -> weft.Tensor:
            return x * 1

        @staticmethod
        def backward(ctx: Any, g: weft.Tensor) -> Any:
            print("once")

    x = leaf(rng, 3)
    for _ in range(3):  # captured, written again, recalled
        x.grad = None
        with ca.enable():
            (Prints.apply(x * 2) + x).sum().backward()
        assert capsys.readouterr().out == "once\n"
        np.testing.assert_array_equal(x.grad.numpy(), np.ones(3))


def test_s1_5_a_shared_parameter_and_one_without_dims(rng: Rng) -> None:
    orders = []
    for compiled in (False, True):
        w, b, scale = leaf(rng, 3, 3), leaf(rng, 3), leaf(rng)
        order: list[str] = []
        for name, p in (("w", w), ("b", b), ("scale", scale)):
            p.register_post_accumulate_grad_hook(lambda p, name=name, order=order: order.append(name))
        x = weft.from_numpy(rng.standard_normal((2, 3)))
        h = ((x @ w + b).tanh() * scale) @ w
        with ca.enable() if compiled else ca.disable():
            h.sum().backward()
        assert all(p.grad is not None and p.grad.shape == p.shape for p in (w, b, scale))
        orders.append(order)
    assert orders[0] == orders[1] and orders[0].count("w") == 1


def test_s1_7_one_copy_backwards(rng: Rng) -> None:
    s = leaf(rng, 1, 3)
    start = weft.zeros(2, 3).requires_grad_()

    def step() -> None:
        d = start * 1
        d[:].copy_(s)
        (d * d).sum().backward()

    both(step, s, start)
    assert s.grad.dtype is weft.float64 and s.grad.shape == (1, 3)
    assert len([name for name in names() if name.startswith("Copy")]) == 1


def test_s1_8_numbers_of_functions_are_inputs(rng: Rng) -> None:
    class Scaled(weft.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: weft.Tensor, k: int, f: float, both: tuple[int, ...]) -> weft.Tensor:
            ctx.k, ctx.f, ctx.both = k, f, both
            return x * (k * f + sum(both))

        @staticmethod
        def backward(ctx: Any, g: weft.Tensor) -> Any:
            return g * (ctx.k * ctx.f + sum(ctx.both)), None, None, None

    before = counters.captures
    for _ in range(5):
        k, f = int(rng.integers(1, 99)), float(rng.uniform(1, 2))
        drawn = tuple(int(i) for i in rng.integers(0, 9, int(rng.integers(1, 4))))
        x = leaf(rng, 3)
        with ca.enable():
            Scaled.apply(x, k, f, drawn).sum().backward()
        np.testing.assert_allclose(x.grad.numpy(), np.full(3, k * f + sum(drawn)))
    assert counters.captures - before == 1


def test_s1_11_sums_are_one_kernel(rng: Rng) -> None:
    x = leaf(rng, 5)

    def step() -> None:
        y = x * 1.0
        sum((y * float(k)).sin() for k in range(1, 13)).sum().backward()  # type: ignore[union-attr]

    with ca.enable():
        step()
        step()
        kernels = counters.kernels
        step()
    assert names().count("add.Tensor") == 11 and counters.kernels - kernels <= 3


def test_t_ca_1_grad_mode(rng: Rng) -> None:
    """One structure, once for numbers and once for a graph that goes on."""
    v = rng.standard_normal(3)
    captures = counters.captures
    for create in (False, True, False, True):
        x = weft.from_numpy(v.copy()).requires_grad_()
        with ca.enable():
            (g,) = weft.autograd.grad((x**3).sum(), x, create_graph=create)
            assert g.requires_grad is create
            if create:
                (g,) = weft.autograd.grad(g.sum(), x)
        np.testing.assert_allclose(g.detach().numpy(), 6 * v if create else 3 * v**2)
    assert counters.captures - captures == 3  # first gradients of either kind, second ones


def test_s1_13_wrappers_have_entries_of_their_own(rng: Rng) -> None:
    class Two(weft.Tensor):
        @staticmethod
        def __new__(cls: Any, a: Any, b: Any) -> Any:
            out = weft.Tensor._make_wrapper_subclass(cls, a.shape, dtype=a.dtype)
            out.a, out.b = a, b
            return out

        @classmethod
        def __weft_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            def on(name: str) -> Any:
                return func(*[getattr(x, name) if isinstance(x, Two) else x for x in args], **(kwargs or {}))

            return Two(on("a"), on("b"))

    captures = counters.captures
    for kind in (1, 1, 2, 2, 1, 2):
        parts = [leaf(rng, int(rng.integers(2, 9)), 3).detach() for _ in range(kind)]
        x = (Two(parts[0], parts[0] * 2) if kind == 2 else parts[0]).requires_grad_()
        with ca.enable():
            (x * x).sum().backward()
        assert type(x.grad) is type(x)
        np.testing.assert_allclose((x.grad.b if kind == 2 else x.grad).numpy(), 2 * kind * parts[0].detach().numpy())
    assert counters.captures - captures == 2 and "wrappers" in ca.miss_log()[-1]


def test_t_ca_2_scaled_losses_share(rng: Rng) -> None:
    x = leaf(rng, 4)
    before = counters.captures
    for _ in range(4):
        scale = float(rng.uniform(1, 1e4))
        both(lambda scale=scale: (x.tanh().sum() * scale).backward(), x)
        with ca.enable():
            x.tanh().sum().mul(scale).backward(weft.tensor(scale, dtype=weft.float64))
    assert counters.captures - before == 1


def test_t_ca_4_inputs_that_alias_what_is_accumulated_into(rng: Rng) -> None:
    """A saved tensor shows the gradient that the backward adds to: it is read before it changes."""
    for _ in range(3):
        results = []
        v, start = rng.standard_normal(4), rng.standard_normal(4)
        for compiled in (False, True):
            x = weft.from_numpy(v.copy()).requires_grad_()
            x.grad = weft.from_numpy(start.copy())
            y = (x * x.grad[:]).sin()  # saves a view of x.grad
            with ca.enable() if compiled else ca.disable():
                y.sum().backward()
            results.append(x.grad.numpy().copy())
        np.testing.assert_allclose(results[1], results[0])
        np.testing.assert_allclose(results[0], start + np.cos(v * start) * start)


def test_t_ca_4_a_parameter_that_is_saved_twice_is_one_input(rng: Rng) -> None:
    w = leaf(rng, 3)
    x = weft.from_numpy(rng.standard_normal(3))
    both(lambda: ((x * w).sin() * w + w * w).sum().backward(), w)
    program_inputs = len(ca.last_graph().tensor_inputs)
    assert program_inputs == 5  # the first gradient, x, w, x * w, its sine


def test_t_ca_10_ranks_and_two_thousand_shapes(rng: Rng) -> None:
    x, rows = leaf(rng, 1), int(rng.integers(40, 50))
    before = counters.captures

    def held() -> int:
        return sum("weft.compiled_autograd" in str(type(o)) for o in gc.get_objects())

    with ca.enable():
        for n in range(2_000):
            y = weft.ones(n % rows, n // rows, requires_grad=True, dtype=weft.float64)
            y.mul(x).sum().backward()
            if n == 500:
                compiles, alive = counters.llvm_compiles, held()
    assert counters.captures - before == 1 == len(cache)
    assert counters.llvm_compiles == compiles and held() <= alive + 100  # nothing is kept for each
    np.testing.assert_array_equal(y.grad.numpy(), np.full(y.shape, x.item()))
    with ca.enable():
        weft.ones(3, requires_grad=True, dtype=weft.float64).mul(x).sum().backward()
    assert counters.captures - before == 2 == len(cache)


def test_t_ca_11_sparse_updates_by_hand_under_no_grad(rng: Rng) -> None:
    """A hook that writes other parameters under no_grad while the backward goes on."""
    a, b = leaf(rng, 3), leaf(rng, 3)
    start = b.detach().numpy().copy()

    def hook(p: weft.Tensor) -> None:
        with weft.no_grad():
            p.index_add_(0, weft.tensor([0, 2]), p.grad[[0, 2]], alpha=-1.0)
        p.grad = None

    b.register_post_accumulate_grad_hook(hook)
    with ca.enable():
        (a * 2).sum().add((b * 3).sum()).backward()
    np.testing.assert_allclose(b.detach().numpy(), start - np.array([3, 0, 3]))
    np.testing.assert_array_equal(a.grad.numpy(), np.full(3, 2.0))

"""weft.compile with tensor subclasses: programs take and give inner tensors, and the class's code runs once,
at capture."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
from wrappers import Scaled, Two, calls, drawn

import weft
from weft import nn, overrides
from weft.nn.parameter import Parameter
from weft.record.wrappers import WrapperMemo, desugar
from weft.support.counters import counters
from weft.utils.checkpoint import checkpoint
from weft.utils.dispatch import WeftDispatchMode


@pytest.fixture(autouse=True)
def fresh_log() -> None:
    calls.clear()


def same(left: weft.Tensor, right: weft.Tensor) -> None:
    if isinstance(left, Two):
        assert type(left) is type(right)
        same(left.a, right.a)  # type: ignore[attr-defined]
        same(left.b, right.b)  # type: ignore[attr-defined]
    else:
        np.testing.assert_allclose(left.detach().numpy(), right.detach().numpy(), rtol=1e-6, atol=1e-12)


class Once:
    """How often a block captured, and how many calls of a class's code it made."""

    def __enter__(self) -> Once:
        calls.clear()
        self._captures = counters.captures
        return self

    def __exit__(self, *error: Any) -> None:
        self.captures, self.calls = counters.captures - self._captures, len(calls)


def test_the_class_runs_at_capture_only(rng: np.random.Generator) -> None:
    f = weft.compile(lambda x: x * x + 1)
    for i in range(3):
        a, b = drawn(rng, 2, 3)
        x = Two(a, b, requires_grad=True)
        with Once() as once:
            y = f(x)
        assert once.captures == (i == 0) and (once.calls > 0) == (i == 0)
        assert type(y) is Two and y.requires_grad
        same(y, Two(a * a + 1, b * b + 1))
        y.sum().backward()
        same(x.grad, Two(2 * a, 2 * b))


def test_other_sizes_classes_and_metadata(rng: np.random.Generator) -> None:
    f = weft.compile(lambda x: x * 2 + 1)
    sizes = rng.choice(np.arange(2, 50), 3, replace=False)
    with Once() as once:
        for n in sizes:
            a, b = drawn(rng, int(n))
            same(f(Two(a, b)), Two(a * 2 + 1, b * 2 + 1))
    assert once.captures == 1  # one program for every size
    with Once() as once:
        f(weft.ones(2))
        f(Two(weft.ones(3, dtype=weft.float64), weft.ones(3, dtype=weft.float64)))
    assert once.captures == 1
    q = weft.tensor(rng.integers(-9, 9, 4), dtype=weft.int8)
    with Once() as once:
        for scale in (0.5, 0.25, 0.5):
            same(f(Scaled(q, scale)), q.float() * scale * 2 + 1)
    assert once.captures == 2  # the context is guarded


def test_nested_mixed_and_containers(rng: np.random.Generator) -> None:
    a, b = drawn(rng, 3)

    def function(d: dict[str, Any], w: weft.Tensor) -> Any:
        return {"y": d["x"] * w, "n": d["n"], "both": [d["x"], d["x"].exp()]}

    f = weft.compile(function)
    w = weft.from_numpy(rng.standard_normal(3)).requires_grad_()
    for _ in range(2):
        x = Two(Two(a, b), Two(b, a), requires_grad=True)
        out = f({"x": x, "n": 3}, w)
        expected = function({"x": x, "n": 3}, w)
        same(out["y"], expected["y"])
        same(out["both"][0], x)
        same(out["both"][1], expected["both"][1])
        assert out["n"] == 3
        out["y"].sum().backward()
        same(x.grad, Two(Two(w.detach(), w.detach()), Two(w.detach(), w.detach())))
        assert type(w.grad) is Two  # as without compile: a plain leaf takes what the class gives
        same(w.grad.a, Two(a, b))
        w.grad = None


def test_a_wrapper_in_the_middle_of_a_history(rng: np.random.Generator) -> None:
    a, b = drawn(rng, 3)
    f = weft.compile(lambda x: x.exp())
    x = Two(a, b, requires_grad=True)
    (f(x * 2) * 3).sum().backward()
    same(x.grad, Two(6 * (2 * a).exp(), 6 * (2 * b).exp()))


def test_closing_over_a_wrapper(rng: np.random.Generator) -> None:
    c = Two(*drawn(rng, 3))
    x = weft.from_numpy(rng.standard_normal(3))
    f = weft.compile(lambda t: t * c)
    with Once() as once:
        same(f(x), Two(x * c.a, x * c.b))
        c.b.mul_(5)
        same(f(x), Two(x * c.a, x * c.b))
    assert once.captures == 1 and once.calls == 1
    c.b = weft.zeros(3, dtype=x.dtype)
    with Once() as once:
        same(f(x), Two(x * c.a, x * c.b))
    assert once.captures == 1


def test_writes_reach_the_callers_wrapper(rng: np.random.Generator) -> None:
    a, b = drawn(rng, 3, 2)
    x = Two(a.clone(), b.clone())
    f = weft.compile(lambda t: t.mul_(2)[0].add_(1).sum())
    for _ in range(2):
        f(x)
    expected = a * 4
    expected[0] += 3
    same(x.a, expected)


def test_a_step_with_backward_inside(rng: np.random.Generator) -> None:
    a, b = drawn(rng, 3)

    def step(x: weft.Tensor) -> weft.Tensor:
        x.grad = None
        loss = (x * x * x).sum()
        loss.backward()
        with weft.no_grad():
            x.sub_(x.grad * 0.1)
        return loss

    compiled = weft.compile(step)
    x, eager = (Two(a.clone(), b.clone(), requires_grad=True) for _ in range(2))
    for i in range(3):
        with Once() as once:
            loss = compiled(x)
        assert (once.calls > 0) == (i == 0)
        same(loss, step(eager))
        same(x, eager)
        same(x.grad, eager.grad)


@pytest.mark.parametrize("optimizer", [weft.optim.SGD, weft.optim.Adam])
def test_training_wrapped_parameters(optimizer: Any, rng: np.random.Generator) -> None:
    weft.manual_seed(int(rng.integers(1 << 30)))
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
    for layer in (model[0], model[2]):
        for name, p in list(layer.named_parameters()):
            setattr(layer, name, Parameter(Two(p.detach().clone(), p.detach() * 2)))
    eager = copy.deepcopy(model)

    def stepping(m: nn.Module) -> Any:
        o = optimizer(m.parameters(), lr=0.05)

        def step(x: weft.Tensor) -> weft.Tensor:
            o.zero_grad()
            loss = m(x).pow(2).mean()
            loss.backward()
            o.step()
            return loss

        return step

    compiled, plain = weft.compile(stepping(model)), stepping(eager)
    x = weft.from_numpy(rng.standard_normal((5, 3)).astype(np.float32))
    for i in range(4):
        with Once() as once:
            loss = compiled(x)
        assert (once.calls > 0) == (i == 0)
        np.testing.assert_allclose(loss.a.item(), plain(x).a.item(), rtol=1e-4)
    for p, q in zip(model.parameters(), eager.parameters(), strict=True):
        np.testing.assert_allclose(p.b.detach().numpy(), q.b.detach().numpy(), rtol=1e-3, atol=1e-5)
        np.testing.assert_allclose(p.grad.a.numpy(), q.grad.a.numpy(), rtol=1e-3, atol=1e-5)


def test_double_backward_inside(rng: np.random.Generator) -> None:
    a, b = drawn(rng, 3)

    def penalty(x: weft.Tensor) -> Any:
        (g,) = weft.autograd.grad((x**3).sum(), x, create_graph=True)
        return g, (g * g).sum()

    x = Two(a, b, requires_grad=True)
    g, total = weft.compile(penalty)(x)
    same(g, Two(3 * a**2, 3 * b**2))
    total.backward()
    same(x.grad, Two(36 * a**3, 36 * b**3))


def test_a_model_or_closure_with_an_eager_backward(rng: np.random.Generator) -> None:
    layer = nn.Linear(3, 2)
    layer.weight = Parameter(Two(layer.weight.detach().clone(), layer.weight.detach() * 2))
    eager, compiled = copy.deepcopy(layer), weft.compile(layer)
    for _ in range(2):
        x = weft.from_numpy(rng.standard_normal((4, 3)).astype(np.float32))
        compiled(x).exp().sum().a.item()
        for m in (compiled, eager):
            (m(x) * 2).sum().backward(Two(weft.tensor(1.0), weft.tensor(3.0)))
    same(layer.weight.grad, eager.weight.grad)
    assert type(layer.bias.grad) is Two


def test_around_operators(rng: np.random.Generator) -> None:
    class Cube(weft.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: weft.Tensor) -> weft.Tensor:
            ctx.save_for_backward(x)
            return x * x * x

        @staticmethod
        def backward(ctx: Any, g: weft.Tensor) -> weft.Tensor:
            (x,) = ctx.saved_tensors
            return g * 3 * x * x

    def step(x: weft.Tensor) -> weft.Tensor:
        y = weft.utils.checkpoint.checkpoint(lambda t: Cube.apply(t) * 2, x, use_reentrant=False)
        y.register_hook(lambda g: g * 10)
        y.sum().backward()
        return y

    compiled = weft.compile(step)
    for _ in range(2):
        a, b = drawn(rng, 3)
        x = Two(a, b, requires_grad=True)
        same(compiled(x), Two(2 * a**3, 2 * b**3))
        same(x.grad, Two(60 * a**2, 60 * b**2))


def test_made_inside_twice_the_same_and_explained(rng: np.random.Generator) -> None:
    a, b = drawn(rng, 3)
    inside = weft.compile(lambda t: Two(t, t * 2) * 3)
    same(inside(a), Two(a * 3, a * 6))
    same(inside(b), Two(b * 3, b * 6))
    x = Two(a, b, requires_grad=True)
    weft.compile(lambda s, t: s * t)(x, x).sum().backward()
    same(x.grad, Two(2 * a, 2 * b))
    assert "mul" in str(weft.explain(lambda t: t * t, Two(a, b)))


def test_wrappers_are_compared_with_those_of_the_same_part(rng: np.random.Generator) -> None:
    a, b, c, _ = *drawn(rng, 3), *drawn(rng, 3)
    memo = WrapperMemo()
    first, other, alike = desugar([Two(a, b), Two(c, b), Two(a, b)], memo)
    assert [len(list(memo.sharing(d.inner))) for d in (first, other, alike)] == [2, 1, 2]
    assert first.facts[-1] == 0 and alike.facts[-1] == 1  # another object of the same parts
    nested = desugar([Two(Two(a, b), Two(c, b))], memo)[0]
    assert len(list(memo.sharing(nested.inner))) == 4  # two of before, and the inner and the outer one


def test_modes_inside_a_compiled_function() -> None:
    class Below(WeftDispatchMode):
        def __weft_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            out = func(*args, **(kwargs or {}))
            return out * 2 if func is weft.ops.aten.exp.default else out

    def function(x: weft.Tensor) -> weft.Tensor:
        with Below():
            return weft.exp(x) + 1

    compiled = weft.compile(function)
    for _ in range(2):
        assert compiled(weft.zeros(2)).tolist() == [3.0, 3.0]


def test_mistakes(rng: np.random.Generator) -> None:
    class Closed(weft.Tensor):
        @classmethod
        def __weft_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            return args[0]

    f = weft.compile(lambda x: x * 2)
    with pytest.raises(RuntimeError, match="__tensor_flatten__"):
        f(weft.Tensor._make_wrapper_subclass(Closed, (2,)))
    with pytest.raises(RuntimeError, match=r"'q' is weft.int8"):
        f(Scaled(weft.ones(2).char(), 1.0, requires_grad=True))


# ---- classes that keep their bytes
class Quantity(weft.Tensor):
    unit = ""

    @staticmethod
    def of(data: weft.Tensor, unit: str) -> Any:
        out = data.as_subclass(Quantity)
        out.unit = unit
        return out

    @classmethod
    def __weft_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = super().__weft_function__(func, types, args, kwargs)
        if isinstance(out, Quantity):
            out.unit = "".join(a.unit for a in args if isinstance(a, Quantity))
        return out


def test_function_subclasses(rng: np.random.Generator) -> None:
    f = weft.compile(lambda x, y: x * y)
    a, b = drawn(rng, 3)
    with Once() as once:
        for unit in ("m", "m", "s", "m"):
            out = f(Quantity.of(a, unit), Quantity.of(b, "k"))
            assert type(out) is Quantity and out.unit == unit + "k"
            np.testing.assert_allclose(out.numpy(), (a * b).numpy())
    assert once.captures == 2
    x = Quantity.of(a.clone(), "m").requires_grad_()
    x.unit = "m"
    for i in range(2):
        f(x, Quantity.of(b, "k")).sum().backward()
        np.testing.assert_allclose(x.grad.numpy(), (b * (i + 1)).numpy())
    assert type(f(a, b)) is weft.Tensor


def test_function_subclass_steps(rng: np.random.Generator) -> None:
    def step(x: weft.Tensor) -> weft.Tensor:
        x.grad = None
        (x * x).sum().backward()
        with weft.no_grad():
            x.sub_(x.grad * 0.25)
        return x.sum()

    a, _ = drawn(rng, 3)
    x = Quantity.of(a.clone(), "m").requires_grad_()
    x.unit = "m"
    compiled = weft.compile(step)
    for _ in range(3):
        compiled(x)
    np.testing.assert_allclose(x.detach().numpy(), a.numpy() / 8)
    assert type(x) is Quantity and x.is_leaf


@pytest.mark.parametrize("is_wrapped", [False, True])
def test_checkpoints_give_out_what_they_saved_once(rng: np.random.Generator, is_wrapped: bool) -> None:
    def step(x: weft.Tensor) -> weft.Tensor:
        out = checkpoint(lambda s: (s.sin() * s).exp(), x, use_reentrant=False)
        return weft.autograd.grad(out.sum(), (x,))[0]

    a, b = drawn(rng, int(rng.integers(1, 5)))
    x = (Two(a, b) if is_wrapped else a).requires_grad_()
    f, expected = weft.compile(step), step(x)
    for i in range(2):
        with Once() as once:
            same(f(x), expected)
        assert once.captures == (i == 0)


def test_modes_see_compiled_functions_uncompiled() -> None:
    seen: list[str] = []

    class Below(WeftDispatchMode):
        def __weft_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            seen.append(func.__name__)
            return func(*args, **(kwargs or {}))

    class Above(overrides.WeftFunctionMode):
        def __weft_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            seen.append(func.__name__)
            return func(*args, **(kwargs or {}))

    f = weft.compile(lambda x: (x * 2).exp())
    x = weft.ones(2)
    with Once() as once:
        f(x)
        with Below():
            f(x)
        with Above():
            f(x)
    assert seen == ["mul.Tensor", "exp.default", "mul", "exp"] and once.captures == 1


def test_a_retained_gradient_of_a_result(rng: np.random.Generator) -> None:
    def f(x: Any) -> Any:
        y = x * 2
        y.retain_grad()
        y.sum().backward(retain_graph=True)
        return y

    for step in (f, weft.compile(f)):
        y = step(Two(*drawn(rng, 3), requires_grad=True))
        same(y.grad, Two(weft.ones(3), weft.ones(3)))
        y.sum().backward()
        same(y.grad, Two(weft.ones(3) * 2, weft.ones(3) * 2))


class Counted(Scaled):
    """One that changes its own metadata."""

    def bumped(self) -> Counted:
        self.scale += 1
        return self

    @staticmethod
    def __tensor_unflatten__(inner: Any, context: Any, size: Any, stride: Any) -> Any:
        return Counted(inner["q"], context)


def test_an_argument_that_changes_its_own_metadata(rng: np.random.Generator) -> None:
    """Capture did not settle; the call runs as it is written."""
    compiled = weft.compile(lambda x: x.bumped() + 1)
    for scale in (2, 2, 5):
        q = weft.from_numpy(rng.integers(-5, 5, 3).astype(np.int8))
        x = Counted(q, scale)
        np.testing.assert_allclose(compiled(x).numpy(), q.numpy() * (scale + 1.0) + 1)
        assert x.scale == scale + 1
    assert "sets an attribute of a Counted" in compiled.misses[0]

"""Traces of functions that hand functions over: to transforms, as backwards, as hooks; and of what Modules assign."""

from __future__ import annotations

import io
from typing import Any

import pytest

import weft
from weft import Tensor, func, nn
from weft.overrides import WeftFunctionMode, resolve_name
from weft.utils.checkpoint import checkpoint


def stored(traced: Any) -> Any:
    file = io.BytesIO()
    weft.jit.save(traced, file)
    file.seek(0)
    return weft.jit.load(file)


def test_a_gradient_by_a_transform_follows_the_input() -> None:
    traced = weft.jit.trace(lambda z: func.grad(lambda z: (z**3).sum())(z), (weft.ones(2),))
    for program in (traced, stored(traced)):
        assert program(weft.tensor([3.0, 5.0])).tolist() == [27.0, 75.0]
        assert program(weft.tensor([1.0, 2.0, 3.0])).tolist() == [3.0, 12.0, 27.0]


class Straight(weft.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return weft.round(x)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        return grad


class Estimated(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.w = nn.Parameter(weft.tensor([0.7, 1.2]))

    def forward(self, x: Tensor) -> Tensor:
        return Straight.apply(self.w * 2 * x).sum() + self.w.sum()  # type: ignore[no-any-return]


def test_a_straight_through_estimator_has_its_gradient() -> None:
    traced = weft.jit.trace(Estimated(), (weft.ones(2),))
    for program in (traced, stored(traced)):
        program(weft.tensor([3.0, 4.0])).backward()
        assert program.w.grad.tolist() == [7.0, 9.0]


class Once(weft.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x**2

    @staticmethod
    @weft.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        return grad * 2 * x


def test_a_backward_that_is_differentiated_once_refuses_twice() -> None:
    traced = weft.jit.trace(lambda x: Once.apply(x), (weft.ones(2),), check_trace=False)
    x = weft.tensor([3.0, 4.0], requires_grad=True)
    seed = weft.ones(2, requires_grad=True)
    for function in (Once.apply, traced):
        (grad,) = weft.autograd.grad(function(x), x, seed, create_graph=True)
        assert grad.tolist() == [6.0, 8.0]
        with pytest.raises(weft.WeftError, match="once_differentiable"):
            grad.sum().backward()


def test_a_saved_tensor_that_was_written_is_an_error() -> None:
    traced = weft.jit.trace(lambda x: Once.apply(x).add_(1), (weft.ones(2),), check_trace=False)
    x = weft.tensor([3.0, 4.0], requires_grad=True)
    y = x * 1
    out = traced(y)
    y.mul_(2)
    with pytest.raises(weft.WeftError, match="modified by an inplace operation"):
        out.sum().backward()


def test_gradients_within_a_traced_function() -> None:
    def force(x: Tensor) -> Tensor:
        position = x.detach().requires_grad_()
        return weft.autograd.grad((position**3).sum(), position)[0]

    def accumulated(x: Tensor) -> Tensor:
        position = x.detach().clone().requires_grad_()
        (position**3).sum().backward()
        assert position.grad is not None
        return position.grad + 1

    for function, shift in ((force, 0), (accumulated, 1)):
        traced = weft.jit.trace(function, (weft.ones(2),))
        for program in (traced, stored(traced)):
            assert program(weft.tensor([1.0, 2.0, 3.0])).tolist() == [3.0 + shift, 12.0 + shift, 27.0 + shift]


def test_what_a_trace_cannot_have_is_refused_with_its_line() -> None:
    def saved(x: Tensor) -> Tensor:
        with weft.autograd.graph.saved_tensors_hooks(lambda t: t * 2, lambda t: t / 2):
            return x * x

    def dual(x: Tensor) -> Any:
        with weft.autograd.forward_ad.dual_level():
            return weft.autograd.forward_ad.make_dual(x, x)

    def several(x: Tensor) -> Tensor:
        y = x * 2
        weft.autograd.graph.register_multi_grad_hook((x, y), lambda grads: None)
        return y

    def of_a_node(x: Tensor) -> Tensor:
        y = x * 2
        assert y.grad_fn is not None
        y.grad_fn.register_hook(lambda given, got: None)
        return y

    left: list[Tensor] = []

    def leaking(x: Tensor) -> Tensor:
        def inner(z: Tensor) -> Tensor:
            left.append(z * 2)
            return z.sum()

        func.grad(inner)(x)
        return left[-1]

    for function, text in (
        (saved, "hooks on saved tensors"), (dual, r"weft\.func\.jvp"), (several, r"Tensor\.register_hook"),
        (of_a_node, r"Tensor\.register_hook"),
    ):  # fmt: skip
        with pytest.raises(weft.WeftError, match=rf"test_trace_of_hooks_and_backward_functions\.py:\d+: .*{text}"):
            weft.jit.trace(function, (weft.ones(2, requires_grad=True),))
    with pytest.raises(weft.WeftError, match="return it from there"):
        weft.jit.trace(leaking, (weft.ones(2),), check_trace=False)


class Counter(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("calls", weft.zeros(()))
        self.last: Any = None

    def forward(self, x: Tensor) -> Tensor:
        self.calls = self.calls + 1
        self.last = [x * 2, x.shape[0]]
        return x * self.calls


def test_buffers_that_are_assigned_are_state_and_nothing_of_the_trace_stays() -> None:
    module = Counter()
    traced = weft.jit.trace(module, (weft.ones(2),), check_trace=False)
    assert type(module.calls) is Tensor and type(module.last[0]) is Tensor and type(module.last[1]) is int
    loaded = stored(traced)
    assert [loaded(weft.ones(2)).tolist() for _ in range(3)] == [[2.0, 2.0], [3.0, 3.0], [4.0, 4.0]]
    assert loaded.calls.tolist() == 4.0


def test_function_modes_see_every_method_of_a_plain_tensor() -> None:
    seen: list[str] = []

    class Log(WeftFunctionMode):
        def __weft_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            seen.append(str(resolve_name(func)))
            return func(*args, **(kwargs or {}))

    def run(w: Tensor) -> Any:
        return w.reshape(2, -1), w.view(-1), w.permute(1, 0), w.expand(2, 3), w.flatten()

    w = nn.Parameter(weft.ones(2, 3))
    for _ in range(2):
        run(w)  # the call signatures are known now
        with Log():
            run(w)
            run(w)
        assert seen == 2 * [f"weft.Tensor.{n}" for n in ("reshape", "view", "permute", "expand", "flatten")]
        seen.clear()


def test_checkpoints_of_nested_transforms() -> None:
    w = weft.tensor([1.0, 2.0], requires_grad=True)

    def nested(x: Tensor) -> Tensor:
        return func.grad(lambda z: func.grad(lambda u: (u**3 * w).sum())(z).pow(2).sum())(x)

    x = weft.tensor([1.0, 2.0])
    expected, found = nested(x), checkpoint(nested, x, use_reentrant=False)
    assert found.tolist() == expected.tolist()
    grads = [weft.autograd.grad(v.sum(), w)[0].tolist() for v in (expected, found)]
    assert grads[0] == grads[1]


def test_loops_within_loops_within_a_trace() -> None:
    def twice(x: Tensor, body: Any) -> Any:
        return weft.while_loop(lambda i, z: i < 2, lambda i, z: (i + 1, body(z)), (weft.tensor(0), x))[1]

    def function(x: Tensor) -> Any:
        return twice(x, lambda z: twice(z, lambda u: Straight.apply(u * 1.5) + u))

    traced = weft.jit.trace(function, (weft.ones(2, requires_grad=True),), check_trace=False)
    for program in (traced, stored(traced)):
        x, y = (weft.tensor([0.3, 1.7, 2.2], requires_grad=True) for _ in range(2))
        function(x).sum().backward()
        program(y).sum().backward()
        assert x.grad is not None and y.grad is not None and x.grad.tolist() == y.grad.tolist()


class Marked(Tensor):
    """A subclass that every operator keeps."""


def test_a_class_of_its_own_within_a_trace_is_refused() -> None:
    """Its tensors were the example's, in silence."""
    with pytest.raises(weft.WeftError, match=r"py:\d+: a tensor seen as Marked is no part of a trace"):
        weft.jit.trace(lambda x: x.as_subclass(Marked) * 2, (weft.ones(2),), check_trace=False)  # type: ignore[attr-defined]
    traced = weft.jit.trace(lambda x: x.as_subclass(Tensor) * 2, (weft.ones(2),), check_trace=False)  # type: ignore[attr-defined]
    assert traced(weft.full((3,), 4.0)).tolist() == [8.0] * 3

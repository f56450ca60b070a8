"""Dispatch modes: the operators of a block, below autograd, those of backward included."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest
from wrappers import Two, calls

import weft
from weft.nn import functional as F
from weft.utils import checkpoint
from weft.utils.dispatch import WeftDispatchMode, current_dispatch_modes

aten = weft.ops.aten


class Log(WeftDispatchMode):
    def __init__(self, name: str = "", seen: list[str] | None = None) -> None:
        self.name, self.seen = name, [] if seen is None else seen

    def __weft_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.seen.append(f"{self.name}{func.__name__}")
        return func(*args, **(kwargs or {}))


def test_a_mode_sees_forward_and_backward(rng: np.random.Generator) -> None:
    x = weft.from_numpy(rng.standard_normal(3)).requires_grad_()
    for _ in range(2):
        x.grad = None
        with Log() as log:
            ((x + 1) * x).sum().backward()
            z = x.detach().clone()
            z.add_(2)
            z[0] = 3
            weft.zeros(2)
        assert log.seen[:3] == ["add.Tensor", "mul.Tensor", "sum.default"] and log.seen[-6:] == [
            "clone.default", "add_.Tensor", "select.int", "full.default", "copy_.default", "zeros.default",
        ]
        assert log.seen.count("mul.Tensor") == 3
        np.testing.assert_allclose(x.grad.numpy(), 2 * x.detach().numpy() + 1)
    assert (x + 1).requires_grad and current_dispatch_modes() == ()


def test_composites_are_opened(rng: np.random.Generator) -> None:
    x = weft.from_numpy(rng.standard_normal((2, 3)))
    expected = F.cross_entropy(x, weft.tensor([0, 1]))
    with Log() as log:
        out = F.cross_entropy(x, weft.tensor([0, 1]))
    np.testing.assert_allclose(out.numpy(), expected.numpy())
    assert "_log_softmax.default" in log.seen and not any(name.startswith("cross_entropy") for name in log.seen)


def test_modes_nest(rng: np.random.Generator) -> None:
    seen: list[str] = []

    class Negating(Log):
        def __weft_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            out = super().__weft_dispatch__(func, types, args, kwargs)
            return -out if func is aten.exp.default else out

    x = weft.from_numpy(rng.standard_normal(3)).requires_grad_()
    with Log("a ", seen), Negating("b ", seen):
        y = x.exp()
    assert seen == ["b exp.default", "a exp.default", "a neg.default"]
    np.testing.assert_allclose(y.detach().numpy(), -np.exp(x.detach().numpy()))
    y.sum().backward()  # the formula of exp reads its result
    np.testing.assert_allclose(x.grad.numpy(), -np.exp(x.detach().numpy()))


def test_a_mode_may_change_factories() -> None:
    class Doubles(WeftDispatchMode):
        def __weft_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            kwargs = dict(kwargs or {})
            if func.overloadpacket in (aten.zeros, aten.ones):
                kwargs["dtype"] = weft.float64
            return func(*args, **kwargs)

    with Doubles():
        assert weft.zeros(2).dtype is weft.float64 and weft.ones(2, requires_grad=True).dtype is weft.float64
    assert weft.zeros(2).dtype is weft.float32


def test_modes_come_before_classes() -> None:
    x = Two(weft.ones(2), weft.zeros(2), requires_grad=True)
    calls.clear()
    with Log("mode ", calls):
        y = x * 2
    assert calls == ["mode mul.Tensor", "aten.mul.Tensor"] and type(y) is Two and y.requires_grad


def test_not_implemented() -> None:
    class Absent(WeftDispatchMode):
        def __weft_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            return NotImplemented

    x = Two(weft.ones(2), weft.zeros(2))
    one = weft.ones(2)
    with Absent():
        assert type(x + 1) is Two
        with pytest.raises(TypeError, match=r"Absent answers NotImplemented for 'aten.add.Tensor'"):
            one + 1


def test_modes_are_of_one_thread_and_end_with_their_block() -> None:
    x = weft.ones(2)

    class Broken(WeftDispatchMode):
        def __weft_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            raise ValueError("no")

    with Log() as log:
        thread = threading.Thread(target=lambda: x + x)
        thread.start()
        thread.join()
        with pytest.raises(ValueError, match="no"), Broken():
            x + x
        assert log.seen == [] and current_dispatch_modes() == (log,)
        inner = Log()
        inner.__enter__()
        with pytest.raises(RuntimeError, match="reverse order"):
            log.__exit__(None, None, None)
        inner.__exit__(None, None, None)
    assert current_dispatch_modes() == ()


def test_with_checkpoint_inference_mode_and_functions(rng: np.random.Generator) -> None:
    x = weft.from_numpy(rng.standard_normal(3)).requires_grad_()

    class Double(weft.autograd.Function):
        @staticmethod
        def forward(ctx: Any, t: weft.Tensor) -> weft.Tensor:
            return t * 2

        @staticmethod
        def backward(ctx: Any, g: weft.Tensor) -> weft.Tensor:
            return g * 2

    with Log() as log:
        checkpoint.checkpoint(lambda t: Double.apply(t.exp()), x, use_reentrant=False).sum().backward()
    assert log.seen.count("exp.default") == 2 and log.seen.count("mul.Tensor") >= 3
    np.testing.assert_allclose(x.grad.numpy(), 2 * np.exp(x.detach().numpy()))
    with weft.inference_mode(), Log() as log:
        assert (x * 2).is_inference()
    with Log() as log, weft.inference_mode():
        assert (x * 2).is_inference()
    assert log.seen == ["mul.Tensor"]


def test_below_transforms(rng: np.random.Generator) -> None:
    x = weft.from_numpy(rng.standard_normal((2, 3)))
    with Log() as log:
        out = weft.func.vmap(lambda t: t * t.sum())(x)
    np.testing.assert_allclose(out.numpy(), (x * x.sum(1, keepdim=True)).numpy())
    assert any(name.startswith("sum") for name in log.seen) and any(name.startswith("mul") for name in log.seen)

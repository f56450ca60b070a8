"""Wrapper subclasses and dispatch modes below the transforms: the class's operators are asked,
and gradients are of the class."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

import weft
from weft.func import grad, jvp, vmap
from weft.utils.dispatch import WeftDispatchMode


class Logged(weft.Tensor):
    """Passes every operator on to an inner tensor and keeps its name."""

    calls: ClassVar[list[str]] = []
    inner: weft.Tensor

    @staticmethod
    def __new__(cls: Any, inner: weft.Tensor) -> Any:
        made = weft.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype)
        made.inner = inner
        return made

    @classmethod
    def __weft_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        Logged.calls.append(str(func))
        out = func(*[a.inner if isinstance(a, Logged) else a for a in args], **(kwargs or {}))
        return Logged(out) if isinstance(out, weft.Tensor) else out


def test_a_wrapper_under_each_transform(rng):
    values = rng.uniform(0.5, 1.5, 3)
    x = Logged(weft.from_numpy(values))
    Logged.calls.clear()
    gradient = grad(lambda x: (x.sin() * x).sum())(x)
    assert type(gradient) is Logged and "aten.cos.default" in Logged.calls
    np.testing.assert_allclose(gradient.inner.numpy(), np.cos(values) * values + np.sin(values))
    mapped = vmap(lambda a: a * 2)(x)
    assert type(mapped) is Logged
    np.testing.assert_allclose(mapped.inner.numpy(), 2 * values)
    pushed = jvp(weft.sin, (x,), (x,))[1]
    assert type(pushed) is Logged
    np.testing.assert_allclose(pushed.inner.numpy(), np.cos(values) * values)


def test_a_mode_sees_what_comes_down(rng):
    seen: list[str] = []

    class Names(WeftDispatchMode):
        def __weft_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            seen.append(str(func))
            return func(*args, **(kwargs or {}))

    x = weft.from_numpy(rng.uniform(0.5, 1.5, (4, 3)))
    with Names():
        found = vmap(grad(lambda a: a.exp().sum()))(x)
    np.testing.assert_allclose(found.numpy(), np.exp(x.numpy()))
    assert seen.count("aten.exp.default") == 1  # once for all examples


def test_a_function_mode_inside(rng):
    from weft.overrides import WeftFunctionMode

    class Doubled(WeftFunctionMode):
        def __weft_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            out = func(*args, **(kwargs or {}))
            return out * 2 if getattr(func, "__name__", "") == "sin" else out

    x = weft.from_numpy(rng.uniform(0.5, 1.5, 3))
    with Doubled():
        found = grad(lambda x: weft.sin(x).sum())(x)
    np.testing.assert_allclose(found.numpy(), 2 * np.cos(x.numpy()))

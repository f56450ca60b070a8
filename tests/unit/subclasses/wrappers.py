"""Wrapper subclasses that several tests use: a pair of tensors, a scaled tensor, one that logs."""

from __future__ import annotations

from typing import Any

import numpy as np

import weft
from weft.utils.dispatch import return_and_correct_aliasing
from weft.utils.pytree import tree_flatten, tree_map, tree_unflatten

calls: list[str] = []


def drawn(rng: np.random.Generator, *shape: int) -> tuple[weft.Tensor, weft.Tensor]:
    return weft.from_numpy(rng.standard_normal(shape)), weft.from_numpy(rng.standard_normal(shape))


class Two(weft.Tensor):
    """Every operator runs on `a` and on `b`. What takes part and is no Two is in both."""

    a: weft.Tensor
    b: weft.Tensor

    @staticmethod
    def __new__(cls: Any, a: weft.Tensor, b: weft.Tensor, requires_grad: bool = False) -> Any:
        out = weft.Tensor._make_wrapper_subclass(
            cls, a.size(), dtype=a.dtype, strides=a.stride(), requires_grad=requires_grad
        )
        out.a, out.b = a, b
        return out

    def __repr__(self) -> str:
        return f"Two({self.a!r}, {self.b!r})"

    def __tensor_flatten__(self) -> Any:
        return ["a", "b"], None

    @classmethod
    def __tensor_unflatten__(cls, inner: Any, context: Any, size: Any, stride: Any) -> Any:
        return cls(inner["a"], inner["b"])

    @classmethod
    def __weft_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        calls.append(str(func))
        given = (args, kwargs or {})
        args_a, kwargs_a = tree_map(lambda t: t.a if isinstance(t, Two) else t, given)
        args_b, kwargs_b = tree_map(lambda t: t.b if isinstance(t, Two) else t, given)
        left, spec = tree_flatten(func(*args_a, **kwargs_a))
        right, _ = tree_flatten(func(*args_b, **kwargs_b))
        both = [Two(x, y) if isinstance(x, weft.Tensor) else x for x, y in zip(left, right, strict=True)]
        return return_and_correct_aliasing(func, args, kwargs, tree_unflatten(both, spec))


class Scaled(weft.Tensor):
    """int8 values with a factor that claim to be float32: quantised weights. Operators see the product;
    multiplying by a number keeps the int8 values."""

    q: weft.Tensor
    scale: float

    @staticmethod
    def __new__(cls: Any, q: weft.Tensor, scale: float, requires_grad: bool = False) -> Any:
        out = weft.Tensor._make_wrapper_subclass(cls, q.shape, dtype=weft.float32, requires_grad=requires_grad)
        out.q, out.scale = q, scale
        return out

    def __tensor_flatten__(self) -> Any:
        return ["q"], self.scale

    @staticmethod
    def __tensor_unflatten__(inner: Any, context: Any, size: Any, stride: Any) -> Any:
        return Scaled(inner["q"], context)

    def plain(self) -> weft.Tensor:
        return self.q.float() * self.scale

    @classmethod
    def __weft_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        calls.append(str(func))
        if func is weft.ops.aten.mul.Tensor and isinstance(args[0], Scaled) and isinstance(args[1], (int, float)):
            return Scaled(args[0].q, args[0].scale * args[1])
        if func is weft.ops.aten.t.default or func is weft.ops.aten.transpose.int:
            return Scaled(func(args[0].q, *args[1:]), args[0].scale)
        args, kwargs = tree_map(lambda t: t.plain() if isinstance(t, Scaled) else t, (args, kwargs or {}))
        return func(*args, **kwargs)

"""Operators on lists of tensors under PyTorch's names: `_foreach_add_(tensors, others)`. Each tensor is computed by
itself: the names serve optimizers and averages that were written with them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from weft.ops.packet import aten
from weft.support.errors import StateError
from weft.tensor.tensor import Tensor

PREFIX = "_foreach_"
_UNARY = frozenset((
    "abs", "acos", "asin", "atan", "ceil", "cos", "cosh", "erf", "erfc", "exp", "expm1", "floor", "frac", "lgamma",
    "log", "log10", "log1p", "log2", "max", "neg", "reciprocal", "round", "rsqrt", "sigmoid", "sign", "sin", "sinh",
    "sqrt", "tan", "tanh", "trunc",
))
_BINARY = frozenset(("add", "clamp_max", "clamp_min", "copy", "div", "maximum", "minimum", "mul", "pow", "sub"))
_TERNARY = frozenset(("addcdiv", "addcmul", "lerp"))


def __getattr__(name: str) -> Any:
    """The function of this name, made when it is first asked for."""
    base = name[len(PREFIX):].removesuffix("_")
    is_known = base in _UNARY | _BINARY | _TERNARY and name not in (f"{PREFIX}max_",)
    if not name.startswith(PREFIX) or not (is_known or name in (f"{PREFIX}norm", f"{PREFIX}zero_")):
        raise AttributeError(f"module 'weft' has no attribute {name!r}")
    return globals().setdefault(name, _function(name, base))


def _function(name: str, base: str) -> Callable[..., Any]:
    one = _in_place(base) if name.endswith("_") else _new(base)
    if base in _UNARY or base == "zero":

        def function(self: Sequence[Tensor]) -> Any:
            return _results(name, [one(t) for t in _tensors(name, self)])
    elif base == "norm":

        def function(self: Sequence[Tensor], ord: Any = 2, dtype: Any = None) -> Any:  # type: ignore[misc]
            return tuple(aten.linalg_vector_norm(t, ord, dtype=dtype) for t in _tensors(name, self))
    elif base in _BINARY:

        def function(self: Any, other: Any, **options: Any) -> Any:  # type: ignore[misc]
            options.pop("non_blocking", None)
            if base == "pow" and not isinstance(self, (list, tuple)):  # a number to the power of each
                return tuple(aten.pow(self, t) for t in _tensors(name, other))
            tensors = _tensors(name, self)
            others = _each(name, other, len(tensors))
            return _results(name, [one(t, o, **options) for t, o in zip(tensors, others, strict=True)])
    else:
        def function(self: Any, tensors1: Any, *more: Any, **named: Any) -> Any:  # type: ignore[misc]
            tensors = _tensors(name, self)
            lists = [_each(name, values, len(tensors)) for values in (tensors1, *more)]
            numbers = next(iter(named.values()), None)
            at_end = len(lists) == (1 if base == "lerp" else 2)
            weights = _each(name, 1 if numbers is None else numbers, len(tensors)) if at_end else lists.pop()
            return _results(name, [
                one(t, *values) for t, *values in zip(tensors, *lists, weights, strict=True)
            ])

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"{base} of each tensor of a list{', in place' if name.endswith('_') else ''}."
    function.__module__ = "weft"
    return function


def _new(base: str) -> Callable[..., Any]:
    if base == "copy":
        return lambda t, source: aten.clone(source).to(t.dtype)
    if base == "norm":
        return aten.linalg_vector_norm
    operator: Callable[..., Any] = getattr(aten, base)
    return _scaled(operator) if base in ("addcdiv", "addcmul") else operator


def _in_place(base: str) -> Callable[..., Any]:
    method = getattr(Tensor, f"{base}_", None)
    if method is None:  # maximum and minimum
        operator = getattr(aten, base)
        return lambda t, *args: t.copy_(operator(t, *args))
    return _scaled(method) if base in ("addcdiv", "addcmul") else method


def _scaled(function: Callable[..., Any]) -> Callable[..., Any]:
    """value: a number, also one in a tensor."""

    def scaled(t: Tensor, a: Tensor, b: Tensor, value: Any = 1) -> Any:
        return function(t, a, b, value=value.item() if isinstance(value, Tensor) else value)

    return scaled


def _tensors(name: str, values: Any) -> Sequence[Tensor]:
    if not values:
        raise StateError(f"{name}: Tensor list must have at least one tensor.")
    return list(values)


def _each(name: str, values: Any, count: int) -> Sequence[Any]:
    """One for each tensor: a list, the numbers of a tensor with one dim, or the same for all."""
    if isinstance(values, Tensor) and values.ndim == 1 and name[len(PREFIX):].startswith("addc"):
        values = list(values)
    if not isinstance(values, (list, tuple)):
        return [values] * count
    if len(values) != count:
        raise StateError(f"{name}: Tensor lists must have the same number of tensors, got {count} and {len(values)}")
    return values


def _results(name: str, results: list[Any]) -> Any:
    return results if name.endswith("_") else tuple(results)

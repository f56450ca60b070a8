"""Derived variants: `x.name_(...)` writes the functional result into x, `name(..., out=o)` into o. Made from the entries, never written by hand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from weft.layers import eager
from weft.layers.walk import inplace
from weft.ops.forms import Calls
from weft.ops.op import PACKETS, Op, on_define
from weft.ops.packet import Packet, aten
from weft.support.errors import ArgumentError, DTypeError, StateError
from weft.tensor.modes import modes
from weft.tensor.tensor import Tensor
from weft.types import promotion


def _inplace_method(base: str, candidates: list[Op]) -> Callable[..., Any]:
    calls = Calls(f"{base}_", candidates)

    def method(*args: Any, **kwargs: Any) -> Tensor:
        op, bound = calls.resolve(args, kwargs)
        return inplace(op, bound)

    method.__name__ = method.__qualname__ = f"{base}_"
    method.__doc__ = f"In-place {base}: the result is written to self.\n\n" + candidates[0].doc
    return method


_INPLACE_SYNTAX = {
    "add": "__iadd__", "sub": "__isub__", "mul": "__imul__", "div": "__itruediv__", "floor_divide": "__ifloordiv__", "remainder": "__imod__",
    "pow": "__ipow__", "bitwise_and": "__iand__", "bitwise_or": "__ior__", "bitwise_xor": "__ixor__",
    "bitwise_left_shift": "__ilshift__", "bitwise_right_shift": "__irshift__",
}


def install_inplace() -> None:
    """Add `name_` to Tensor for every entry that allows it, now and later."""

    def add(op: Op) -> None:
        if not op.inplace or op.schema.namespace != "aten" or not {"Tensor", "nn.functional"} & set(op.public):
            return
        base = op.base
        candidates = [o for o in PACKETS[f"aten::{base}"] if o.inplace]
        method = _inplace_method(base, candidates)
        setattr(Tensor, f"{base}_", method)
        if base in _INPLACE_SYNTAX:
            setattr(Tensor, _INPLACE_SYNTAX[base], method)

    on_define(add)


def with_out(packet: Packet) -> Callable[..., Any]:
    """The function users call: the packet, with `out=` where the entry offers it."""
    name = packet.__name__
    can = any(op.out for op in packet.overloads)

    def function(*args: Any, out: Any = None, **kwargs: Any) -> Any:
        if out is None:
            return packet(*args, **kwargs)
        if not can:
            raise ArgumentError(f"{name}() got an unexpected keyword argument 'out'")
        return _into(name, packet(*_detached(args), **kwargs), out, args)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = packet.__doc__  # made when the function is first asked for
    function.packet = packet  # type: ignore[attr-defined]
    return function


def _detached(args: tuple[Any, ...]) -> tuple[Any, ...]:
    for a in args:
        if modes.grad and isinstance(a, Tensor) and a.requires_grad:
            raise StateError("functions with out=... arguments don't support automatic differentiation, but one of the arguments requires grad.")
    return args


def _into(name: str, result: Any, out: Any, args: tuple[Any, ...]) -> Any:
    if isinstance(out, (tuple, list)):
        return type(result)(*[_write_out(name, r, o) for r, o in zip(result, out)]) if hasattr(result, "_fields") else tuple(
            _write_out(name, r, o) for r, o in zip(result, out))
    return _write_out(name, result, out)


def _write_out(name: str, result: Tensor, out: Tensor) -> Tensor:
    if not promotion.can_cast(result.dtype, out.dtype):
        raise DTypeError(
            f"result type {eager._name(result.dtype)} can't be cast to the desired output type {eager._name(out.dtype)}"
        )
    if tuple(out.shape) != tuple(result.shape):
        _resize(out, result)
    out.copy_(result)
    return out


def _resize(out: Tensor, result: Tensor) -> None:
    """An output of another shape takes the result's (its old bytes are given up), as PyTorch does with a warning."""
    if out._view is not None:
        raise StateError(f"out= has shape {list(out.shape)} and is a view; the result has shape {list(result.shape)}")
    fresh = aten.empty(tuple(result.dims), dtype=out.dtype)
    out._data, out._storage = fresh._data, None

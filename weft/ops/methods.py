"""The operators of Python's syntax, as methods that any routable class inherits: Tensor, ir.Handle, ops.Array.

Named methods (`x.sum()`) are added to the same class from the entries (`install_methods`), so a rule written with
operators runs on all of them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from weft.ops.bind import Mismatch
from weft.ops.op import Op, on_define
from weft.ops.overrides import FirstOverride, asked_of_method, handle, meets, override_classes
from weft.ops.packet import Packet, aten
from weft.ops.shown import show
from weft.support.errors import ArgumentError
from weft.types.dims import Expr


class OperatorMethods:
    """Arithmetic and comparison syntax on anything that operators accept."""

    __slots__ = ()

    def __add__(self, other: Any) -> Any:
        return _binary(aten.add, self, other)

    def __radd__(self, other: Any) -> Any:
        return _reflected(aten.add, self, other)

    def __sub__(self, other: Any) -> Any:
        return _binary(aten.sub, self, other)

    def __rsub__(self, other: Any) -> Any:
        return _syntax("__rsub__", aten.rsub, self, other)

    def __mul__(self, other: Any) -> Any:
        return _binary(aten.mul, self, other)

    def __rmul__(self, other: Any) -> Any:
        return _reflected(aten.mul, self, other)

    def __truediv__(self, other: Any) -> Any:
        return _binary(aten.div, self, other)

    def __rtruediv__(self, other: Any) -> Any:
        return _syntax("__rtruediv__", _reversed_div, self, other)

    __rdiv__ = __rtruediv__

    def __floordiv__(self, other: Any) -> Any:
        return _binary(aten.floor_divide, self, other)

    def __rfloordiv__(self, other: Any) -> Any:
        return _syntax("__rfloordiv__", _reversed_floor_divide, self, other)

    def __mod__(self, other: Any) -> Any:
        return _binary(aten.remainder, self, other)

    def __rmod__(self, other: Any) -> Any:
        return _syntax("__rmod__", _reversed_remainder, self, other)

    def __pow__(self, other: Any) -> Any:
        return _binary(aten.pow, self, other)

    def __rpow__(self, other: Any) -> Any:
        return _syntax("__rpow__", _reversed_pow, self, other)

    def __matmul__(self, other: Any) -> Any:
        return _binary(aten.matmul, self, other)

    def __rmatmul__(self, other: Any) -> Any:
        return _syntax("__rmatmul__", _reversed_matmul, self, other)

    def __neg__(self) -> Any:
        return aten.neg(self) if not override_classes else _named("neg")(self)

    def __pos__(self) -> Any:
        return self

    def __abs__(self) -> Any:
        return aten.abs(self) if not override_classes else _named("abs")(self)

    def __invert__(self) -> Any:
        return aten.bitwise_not(self) if not override_classes else _named("bitwise_not")(self)

    def __and__(self, other: Any) -> Any:
        return _binary(aten.bitwise_and, self, other)

    __rand__ = __and__

    def __or__(self, other: Any) -> Any:
        return _binary(aten.bitwise_or, self, other)

    __ror__ = __or__

    def __xor__(self, other: Any) -> Any:
        return _binary(aten.bitwise_xor, self, other)

    __rxor__ = __xor__

    def __lshift__(self, other: Any) -> Any:
        return _binary(aten.bitwise_left_shift, self, other)

    def __rshift__(self, other: Any) -> Any:
        return _binary(aten.bitwise_right_shift, self, other)

    def __eq__(self, other: Any) -> Any:
        return _binary(aten.eq, self, other)

    def __ne__(self, other: Any) -> Any:
        return _binary(aten.ne, self, other)

    def __lt__(self, other: Any) -> Any:
        return _binary(aten.lt, self, other)

    def __le__(self, other: Any) -> Any:
        return _binary(aten.le, self, other)

    def __gt__(self, other: Any) -> Any:
        return _binary(aten.gt, self, other)

    def __ge__(self, other: Any) -> Any:
        return _binary(aten.ge, self, other)

    def __rlshift__(self, other: Any) -> Any:
        return _syntax("__rlshift__", _reversed_left_shift, self, other)

    def __rrshift__(self, other: Any) -> Any:
        return _syntax("__rrshift__", _reversed_right_shift, self, other)

    __hash__ = object.__hash__


def _named(name: str) -> Any:
    """The method of an operator (`Tensor.neg`)."""
    return OperatorMethods.__dict__[name]


def _beside(x: Any, array: Any) -> Any:
    """An ndarray beside a Tensor counts as a tensor over its memory."""
    make = getattr(type(x), "_over_array", None)
    return array if make is None else make(array)


def _is_operand(value: Any) -> bool:
    return (
        isinstance(value, (int, float, complex, Expr))
        or hasattr(type(value), "__weft_route__")
        or hasattr(type(value), "__weft_number__")
        or hasattr(value, "__index__")
        or hasattr(value, "dtype")
    )


def _binary(packet: Any, x: Any, other: Any) -> Any:
    """`x <op> other`, known to classes that take calls over as the method: `Tensor.add`."""
    if override_classes:
        asked = asked_of_method((x, other))
        if asked is not None:
            return handle(_named(packet.__name__), asked, (x, other))
    if _is_operand(other):
        return packet(x, _beside(x, other) if type(other) is np.ndarray else other)
    return _binary(packet, x, other) if meets((other,), {}) else NotImplemented


def _syntax(name: str, operation: Any, x: Any, other: Any) -> Any:
    """`other <op> x`, known to classes that take calls over by its own name: `Tensor.__rsub__`."""
    _check_reflected(x)
    if override_classes:
        asked = asked_of_method((x, other))
        if asked is not None:
            return handle(_named(name), asked, (x, other))
    if not _is_operand(other):
        return NotImplemented
    return operation(x, _beside(x, other) if type(other) is np.ndarray else other)


def _reflected(packet: Any, x: Any, other: Any) -> Any:
    _check_reflected(x)
    return _binary(packet, x, other)


def _check_reflected(x: Any) -> None:
    if not hasattr(type(x), "__weft_route__"):  # called by hand: `Tensor.__radd__(2, x)`
        raise ArgumentError(f"a reflected operator belongs to a Tensor, not to a {type(x).__name__}")


def _reversed_div(x: Any, other: Any) -> Any:
    return aten.mul(aten.reciprocal(x), other)


def _reversed_floor_divide(x: Any, other: Any) -> Any:
    return aten.floor_divide(other, x)


def _reversed_remainder(x: Any, other: Any) -> Any:
    return aten.remainder(other, x)


def _reversed_pow(x: Any, other: Any) -> Any:
    return aten.pow(other, x)


def _reversed_left_shift(x: Any, other: Any) -> Any:
    return aten.bitwise_left_shift(other, x)


def _reversed_right_shift(x: Any, other: Any) -> Any:
    return aten.bitwise_right_shift(other, x)


def _reversed_matmul(x: Any, other: Any) -> Any:
    return aten.matmul(other, x)


def _method(packet: Packet) -> Any:
    plain, signatures = packet.calls.plain, packet.calls.signatures

    def method(*args: Any, **kwargs: Any) -> Any:
        if not kwargs:  # what Packet.__call__ does, without its frames
            count = len(args)
            kinds: Any
            if count == 1:
                kinds = type(args[0])
            elif count == 2:
                kinds = (type(args[0]), type(args[1]))
            elif count == 3:
                kinds = (type(args[0]), type(args[1]), type(args[2]))
            else:
                kinds = tuple(map(type, args))
            entry = plain.get(kinds)
            if entry is not None:
                op, rest, route = entry
                return route(op, args + rest)
            form = signatures.get(kinds)
            if form is not None and form.route is not None and not (override_classes and form.op.tensor_list_positions):
                try:
                    bound = form.bind(args, kwargs)
                except Mismatch:
                    return packet(*args)  # which has the words
                return form.route(form.op, bound)
        if override_classes and args:
            asked = asked_of_method(args, kwargs)
            if asked is not None:
                return handle(method, asked, args, kwargs)
        try:
            return packet(*args, **kwargs)
        except FirstOverride:
            return method(*args, **kwargs)

    method.__name__ = method.__qualname__ = packet.__name__
    method.__doc__ = packet.overloads[0].doc
    show(method, packet.overloads, "self")
    return method


def install_methods() -> None:
    """Add the named methods of every entry that is public on Tensor, now and for entries defined later."""

    def add(op: Op) -> None:
        if "Tensor" not in op.public or op.schema.namespace != "aten":
            return
        if op.base not in OperatorMethods.__dict__:
            setattr(OperatorMethods, op.base, _method(getattr(aten, op.base)))

    on_define(add)

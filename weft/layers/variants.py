"""Derived variants: `x.name_(...)` writes the functional result into x, `name(..., out=o)` into o.
Made from the entries, never written by hand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from weft.layers.outputs import computed_in, into, no_history
from weft.ops.bind import Mismatch
from weft.ops.call_signatures import Calls
from weft.ops.op import PACKETS, Op, on_define
from weft.ops.overrides import FirstOverride, handle, meets, overridable, override_classes, overriding, plain_kinds
from weft.ops.packet import Packet, aten
from weft.ops.shown import show
from weft.support.errors import ArgumentError
from weft.tensor.tensor import Tensor


def write_of(args: tuple[Any, ...]) -> Callable[..., Any]:
    """What runs an in-place operator: the first class among the arguments' that has a way of its own, or the layers."""
    usual: Callable[..., Any] = Tensor.__weft_inplace__  # type: ignore[attr-defined]
    for value in args:
        own: Callable[..., Any] = getattr(type(value), "__weft_inplace__", usual)
        if own is not usual:
            return own
    return usual


def _inplace_method(base: str, candidates: list[Op]) -> Callable[..., Any]:
    calls = Calls(f"{base}_", candidates, is_inplace=True)
    plain = calls.plain

    def method(*args: Any, **kwargs: Any) -> Any:
        if not kwargs:
            entry = plain.get(tuple(map(type, args)) if len(args) != 2 else (type(args[0]), type(args[1])))
            if entry is not None and entry[2] is not None:
                return entry[2](entry[0], args + entry[1])
        if override_classes:
            asked = overriding(args, kwargs)
            if asked is not None:
                return handle(getattr(Tensor, f"{base}_"), asked, args, kwargs)
        try:
            op, bound, route = calls.resolve(args, kwargs)
        except FirstOverride:
            return method(*args, **kwargs)
        return write_of(bound)(op, bound) if route is None else route(op, bound)

    method.__name__ = method.__qualname__ = f"{base}_"
    method.asks = True  # type: ignore[attr-defined]
    method.__doc__ = f"In-place {base}: the result is written to self.\n\n" + candidates[0].doc
    show(method, candidates, "self")
    return method


def inplace_function(name: str) -> Callable[..., Any]:
    """`weft.relu_(x)`: the in-place method as a function."""

    def function(self: Tensor, *args: Any, **kwargs: Any) -> Any:
        return getattr(self, name)(*args, **kwargs)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"`self.{name}(...)`."
    public = overridable(function)
    show(public, getattr(aten, name[:-1]).overloads)
    return public


_INPLACE_SYNTAX = {
    "add": "__iadd__", "sub": "__isub__", "mul": "__imul__", "div": "__itruediv__", "floor_divide": "__ifloordiv__",
    "remainder": "__imod__", "pow": "__ipow__", "bitwise_and": "__iand__", "bitwise_or": "__ior__",
    "bitwise_xor": "__ixor__", "bitwise_left_shift": "__ilshift__", "bitwise_right_shift": "__irshift__",
}


def install_inplace() -> None:
    """Add `name_` to Tensor for every entry that allows it, now and later."""

    def add(op: Op) -> None:
        if not op.inplace or op.schema.namespace != "aten" or not {"Tensor", "nn.functional"} & set(op.public):
            return
        base = op.base
        candidates = [o for o in PACKETS[f"{op.schema.namespace}::{base}"] if o.inplace]
        method = _inplace_method(base, candidates)
        setattr(Tensor, f"{base}_", method)
        if base in _INPLACE_SYNTAX:
            setattr(Tensor, _INPLACE_SYNTAX[base], method)

    on_define(add)


def with_out(packet: Packet) -> Callable[..., Any]:
    """The function users call: the packet, with `out=` where the entry offers it, and numbers only
    where PyTorch takes them."""
    name = packet.__name__
    has_out = any(op.out for op in packet.overloads)
    numbers = _Numbers(
        any(op.number_first for op in packet.overloads), any(op.numbers_alone for op in packet.overloads)
    )
    asks_first = numbers.first or _accepts_number_first(packet)
    plain, signatures = packet.calls.plain, packet.calls.signatures

    def function(*args: Any, out: Any = None, **kwargs: Any) -> Any:
        if out is None and not kwargs and args:  # what the packet does, without its frames
            kinds = tuple(map(type, args))
            if kinds[0] in plain_kinds:
                entry = plain.get(kinds[0] if len(kinds) == 1 else kinds)
                if entry is not None:
                    return entry[2](entry[0], args + entry[1])
            form = None if kinds[0] in _NUMBERS else signatures.get(kinds)
            if form is not None and form.route is not None and not (override_classes and form.op.tensor_list_positions):
                try:
                    bound = form.bind(args, kwargs)
                except Mismatch:
                    return packet(*args)  # which has the words
                return form.route(form.op, bound)
        if override_classes:
            keywords = kwargs if out is None else {**kwargs, "out": out}
            asked = overriding(args, keywords)
            if asked is not None:
                return handle(function, asked, args, keywords)
        try:
            given_args = args
            if args and asks_first and type(args[0]) in _NUMBERS:
                args = _with_number_first(name, numbers, args)
            if out is None:
                return packet(*args, **kwargs)
        except FirstOverride:
            return function(*given_args, out=out, **kwargs)
        if not has_out:
            raise ArgumentError(f"{name}() got an unexpected keyword argument 'out'")
        takes = packet.calls.resolve(args, kwargs)[0].takes
        kwargs = computed_in(takes, kwargs, out)
        return into(name, takes, packet(*no_history(name, args, out), **kwargs), out, (*args, *kwargs.values()))

    function.__name__ = function.__qualname__ = name
    function.__doc__ = packet.__doc__  # made when the function is first asked for
    function.packet = packet  # type: ignore[attr-defined]
    options: dict[str, Any] = {"out": None} if has_out else {}
    show(function, packet.overloads, **options)
    return function


_NUMBERS = frozenset((int, float, bool, complex))


class _Numbers(NamedTuple):
    """Where users may give numbers for tensors: as the first operand, and for all of them."""

    first: bool
    alone: bool


def _accepts_number_first(packet: Packet) -> bool:
    """Whether the entries, which rules call with numbers too, would take a number where users owe a tensor."""
    return any(
        op.numbers and op.schema.arguments and op.schema.arguments[0].kind == "Tensor" for op in packet.overloads
    )


def _with_number_first(name: str, numbers: _Numbers, args: tuple[Any, ...]) -> tuple[Any, ...]:
    """The arguments of a call whose first operand is a number. Raises ArgumentError where PyTorch wants a tensor."""
    if numbers.first and any(isinstance(a, Tensor) for a in args[1:]):
        return args
    if meets(args, {}):
        raise FirstOverride
    if numbers.alone:
        return (aten.full((), args[0]), *args[1:])
    got = ", ".join(type(a).__name__ for a in args)
    raise ArgumentError(
        f"{name}(): argument 'input' (position 1) must be Tensor, not {type(args[0]).__name__}; got ({got})"
    )

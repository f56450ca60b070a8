"""Packets: what users and rules call. `ops.aten.mul(x, y)` binds one of the overloads named mul and routes it."""

from __future__ import annotations

from functools import cache
from typing import Any

from weft.ops.call_signatures import Calls
from weft.ops.op import PACKETS, Op
from weft.ops.route import call
from weft.support.errors import ArgumentError


class Packet:
    # All overloads of one name, callable; an attribute is one overload: `aten.max.dim`.
    # (A comment, since __doc__ is the entries' text.)

    __name__: str

    def __init__(self, name: str, overloads: list[Op]) -> None:
        self.__name__, self.overloads = name, overloads
        self.calls = Calls(name, overloads)

    @property
    def __doc__(self) -> str:  # type: ignore[override]
        return "\n\n".join(f"{op.schema}\n\n{op.doc}" for op in self.overloads)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if not kwargs:
            count = len(args)
            kinds: Any = (
                type(args[0]) if count == 1 else (type(args[0]), type(args[1])) if count == 2
                else tuple(map(type, args))
            )
            entry = self.calls.plain.get(kinds)
            if entry is not None:
                op, rest, route = entry
                return route(op, args + rest)
        op, bound, route = self.calls.resolve(args, kwargs)
        return call(op, bound) if route is None else route(op, bound)

    def __getattr__(self, overload: str) -> Overload:
        wanted = "" if overload == "default" else overload
        for op in object.__getattribute__(self, "overloads"):
            if op.schema.overload == wanted:
                return overload_of(op)
        raise AttributeError(f"{self.__name__} has no overload {overload!r}")

    def __copy__(self) -> Packet:
        return self

    def __deepcopy__(self, memo: Any) -> Packet:
        # An operator is one: a copy of a Module that holds it holds it too.
        return self

    def __repr__(self) -> str:
        return f"<operator {self.__name__}>"


class Overload(Packet):
    # One overload, one object for each: `func is aten.add.Tensor` holds in `__weft_dispatch__`.

    suffix = ""

    def __init__(self, op: Op) -> None:
        super().__init__(f"{op.base}{self.suffix}.{op.schema.overload or 'default'}", [op])
        self.op = op

    @property
    def namespace(self) -> str:
        return self.op.schema.namespace

    @property
    def overloadpacket(self) -> Packet:
        """The operator with all of its overloads: `aten.add`."""
        packet: Packet = getattr(namespace_of(self.namespace), self.op.base + self.suffix)
        return packet

    @property
    def _overloadname(self) -> str:
        return self.op.schema.overload or "default"

    @property
    def _schema(self) -> Any:
        return self.op.schema

    @property
    def is_view(self) -> bool:
        """Whether the result shares memory with the first argument."""
        return self.op.is_view

    def name(self) -> str:
        """`aten::add.Tensor`."""
        overload = self.op.schema.overload
        return f"{self.namespace}::{self.op.base}{self.suffix}" + (f".{overload}" if overload else "")

    def __str__(self) -> str:
        return f"{self.namespace}.{self.__name__}"

    def __repr__(self) -> str:
        return f"<operator {self}>"


def _run_inplace(packet: Packet, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    op, bound, _ = packet.calls.resolve(args, kwargs)
    inplace = getattr(type(bound[0]), "__weft_inplace__", None)
    if inplace is None:
        raise ArgumentError(
            f"{packet.__name__}: its first argument is written to and must be a Tensor, not {type(bound[0]).__name__}"
        )
    return inplace(op, bound)


class InplacePacket(Packet):
    # `aten.add_`: the overloads of an operator that write their result into the first argument.

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return _run_inplace(self, args, kwargs)

    def __getattr__(self, overload: str) -> Overload:
        return inplace_of(getattr(Packet(self.__name__, self.overloads), overload).op)


class InplaceOverload(Overload):
    # `aten.add_.Tensor`.

    suffix = "_"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return _run_inplace(self, args, kwargs)


def has_operators(namespace: str) -> bool:
    """Whether any operator is defined in a namespace."""
    return any(name.startswith(f"{namespace}::") for name in PACKETS)


def renew(namespace: str, base: str) -> None:
    """Let a name be looked up anew: what is defined under it has changed."""
    if namespace in _NAMESPACES:
        vars(_NAMESPACES[namespace]).pop(base, None)


def namespace_of(name: str) -> Namespace:
    """A namespace of operators by its name, those of users included."""
    return _NAMESPACES.setdefault(name, Namespace(name))


@cache
def overload_of(op: Op) -> Overload:
    """The callable of one entry: `aten.add.Tensor`."""
    return Overload(op)


@cache
def inplace_of(op: Op) -> InplaceOverload:
    """The callable that writes an entry's result into its first argument: `aten.add_.Tensor`."""
    return InplaceOverload(op)


class Namespace:
    """`aten`, `prim`, ...: packets by attribute, found when first asked so that entries may refer to later ones."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, base: str) -> Packet:
        if base.startswith("__"):
            raise AttributeError(base)
        overloads = PACKETS.get(f"{self._name}::{base}")
        # (an entry of a graph that writes is called as below)
        if overloads and any(op.writes is None for op in overloads):
            packet = Packet(base, overloads)
        else:
            written = [op for op in PACKETS.get(f"{self._name}::{base[:-1]}", ()) if op.inplace and base.endswith("_")]
            if not written:
                raise AttributeError(f"no operator {self._name}::{base}")
            packet = InplacePacket(base, written)
        shared: Packet = vars(self).setdefault(base, packet)  # another thread may have been faster: one for all
        return shared


aten = Namespace("aten")
prim = Namespace("prim")
_NAMESPACES: dict[str, Namespace] = {"aten": aten, "prim": prim}

"""Packets: what users and rules call. `ops.aten.mul(x, y)` binds one of the overloads named mul and routes it."""

from __future__ import annotations

from typing import Any

from weft.ops.forms import Calls
from weft.ops.op import PACKETS, Op
from weft.ops.route import call


class Packet:
    # All overloads of one name, callable; an attribute is one overload: `aten.max.dim`. (A comment, since __doc__ is the entries' text.)

    __name__: str

    def __init__(self, name: str, overloads: list[Op]) -> None:
        self.__name__, self.overloads = name, overloads
        self.calls = Calls(name, overloads)

    @property
    def __doc__(self) -> str:  # type: ignore[override]
        return "\n\n".join(f"{op.schema}\n\n{op.doc}" for op in self.overloads)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if not kwargs:
            found = self.calls.plain.get(tuple(map(type, args)))
            if found is not None:
                op, rest, route = found
                return route(op, args + rest)
        op, bound = self.calls.resolve(args, kwargs)
        return call(op, bound)

    def __getattr__(self, overload: str) -> Packet:
        for op in object.__getattribute__(self, "overloads"):
            if op.schema.overload == overload:
                return Packet(op.name, [op])
        raise AttributeError(f"{self.__name__} has no overload {overload!r}")

    def __repr__(self) -> str:
        return f"<operator {self.__name__}>"


class Namespace:
    """`aten`, `prim`, ...: packets by attribute, found when first asked so that entries may refer to later ones."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, base: str) -> Packet:
        if base.startswith("__"):
            raise AttributeError(base)
        overloads = PACKETS.get(f"{self._name}::{base}")
        if overloads is None:
            raise AttributeError(f"no operator {self._name}::{base}")
        packet = Packet(base, overloads)
        setattr(self, base, packet)
        return packet


aten = Namespace("aten")
prim = Namespace("prim")

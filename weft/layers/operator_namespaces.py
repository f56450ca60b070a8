"""weft.fft, weft.linalg and weft.special: modules whose functions are operators with the module's name in front."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from weft.layers.factories import factory
from weft.layers.variants import with_out
from weft.ops.op import PACKETS
from weft.ops.packet import aten
from weft.support.absent import refuse


class OperatorNamespace:
    """The functions of one module, each made when it is first asked for.

    others: functions that go by another operator's name, by their own.
    """

    def __init__(self, name: str, scope: dict[str, Any], others: Mapping[str, str] | None = None) -> None:
        self.name, self.scope, self.others = name, scope, dict(others or {})

    def operators(self) -> dict[str, str]:
        """Public name -> operator."""
        packets = {key.partition("::")[2]: ops for key, ops in PACKETS.items() if key.partition("::")[0] == "aten"}
        start = f"{self.name}_"
        own = {
            base[len(start) :]: base for base, overloads in packets.items()
            if base.startswith(start) and any(self.name in op.public for op in overloads)
        }
        return {name: base for name, base in self.others.items() if base in packets} | own

    def find(self, name: str) -> Any:
        """The function of this name, which the module has from now on. Raises AttributeError."""
        operator = self.operators().get(name)
        if operator is None:
            refuse(f"module 'weft.{self.name}'", name)
        packet = getattr(aten, operator)
        is_factory = any(a.name == "device" for op in packet.overloads for a in op.schema.arguments)
        return self.scope.setdefault(name, factory(operator) if is_factory else with_out(packet))

    def names(self) -> list[str]:
        """Everything that the module has, made or not."""
        return sorted({*self.scope, *self.operators()})

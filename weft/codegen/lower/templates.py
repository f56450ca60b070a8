"""Groups of one structure are lowered once: a program of thousands of equal layers (or parameters to update)
has few kernels, and many calls of them.

The structure of a group is everything that its kernels depend on, with values numbered in the order in which the group
meets them. The calls of a later group of the same structure are those of the first with its own values in the places
of the first one's.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from weft.ir.builder import memo_key
from weft.ir.graph import Node, Operand, Value
from weft.loops.kernel import KernelCall
from weft.passes.alias import Aliases
from weft.passes.group import Group

_FRESH = -1  # the number of a value that a lowering makes: each group gets one of its own


@dataclass(frozen=True)
class Structure:
    """The key of a group, and its values and nodes by number."""

    key: tuple[Any, ...]
    values: tuple[Value, ...]
    nodes: tuple[Node, ...]


def structure_of(group: Group, aliases: Aliases, stored: set[Value]) -> Structure:
    """What the kernels of a group depend on."""
    writer = _Writer(group, aliases)
    facts = []
    for node in group.nodes:
        out = node.outputs[0]
        args = writer.operands(node.args)
        facts.append((node.op, args, out.type, group.axis_maps[out], out in stored, out in group.cross_row))
        writer.numbers[out] = len(writer.numbers)
    return Structure((group.space, group.inner, *facts), tuple(writer.numbers), tuple(group.nodes))


class _Writer:
    """Writes operands down. A value is described where it is met first, and is a number from then on."""

    def __init__(self, group: Group, aliases: Aliases) -> None:
        self.group, self.aliases = group, aliases
        self.numbers: dict[Value, int] = {}

    def operands(self, args: Iterable[Operand]) -> tuple[Any, ...]:
        numbers = self.numbers
        return tuple([
            (n if (n := numbers.get(a)) is not None else self._first(a)) if type(a) is Value else (memo_key(a),)
            for a in args
        ])

    def _first(self, value: Value) -> tuple[Any, ...]:
        """A value that has no number yet: computed in the group behind a view, or read from a buffer,
        or computed anew from constants."""
        node = value.node
        axis_map = self.group.axis_map_of(value)
        if axis_map is not None:
            assert node is not None
            source = self.operands(node.args[:1])
            self.numbers[value] = len(self.numbers)
            return ("view", value.type, axis_map, source)
        root, geometry = self.aliases.of(value)
        self.numbers[value] = len(self.numbers)
        return (value.type, geometry, None if root is value else self.operands((root,)), self._origin(root))

    def _origin(self, root: Value) -> tuple[Any, ...] | None:
        """How readers compute a root that they do not load: a range, or a splat."""
        node = root.node
        if node is None:
            return ("parameter",)
        if root in self.aliases.splats or node.op.counts:
            return (root in self.aliases.splats, node.op, self.operands(node.args))
        return None


class Template:
    """The calls of a group of some structure, as numbers."""

    def __init__(self, structure: Structure, calls: list[KernelCall]) -> None:
        numbers = {value: i for i, value in enumerate(structure.values)}
        at = {node: i for i, node in enumerate(structure.nodes)}
        fresh: dict[Value, int] = {}
        self.made = fresh  # values that lowering made, each with a number below 0
        self.calls = calls
        self.buffers = [
            tuple([numbers[v] if v in numbers else fresh.setdefault(v, _FRESH - len(fresh)) for v in c.buffers])
            for c in calls
        ]
        self.numbers = [tuple([numbers[n] if type(n) is Value else None for n in c.numbers]) for c in calls]
        self.nodes = [tuple([at[n] for n in c.nodes]) for c in calls]

    def calls_of(self, structure: Structure) -> list[KernelCall]:
        """The calls of another group of the structure."""
        values, nodes = structure.values, structure.nodes
        fresh = {number: Value(v.type, v.name) for v, number in self.made.items()}
        return [
            replace(
                call,
                buffers=tuple([values[i] if i >= 0 else fresh[i] for i in buffers]),
                numbers=tuple([n if i is None else values[i] for i, n in zip(numbers, call.numbers, strict=True)]),
                nodes=tuple([nodes[i] for i in at]),
            )
            for call, buffers, numbers, at in zip(self.calls, self.buffers, self.numbers, self.nodes, strict=True)
        ]

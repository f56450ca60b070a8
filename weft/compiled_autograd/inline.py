"""The backward of a compiled forward inside a captured backward: its nodes, copied, between a call that makes its
gradients (the prologue) and the sums and checks of the walk. What it gives for arguments without a gradient, or that
nobody asks for, is left out before it is copied."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from weft.compile.program.inlining import Body
from weft.compile.program.tensor_program import ProgramBackward
from weft.compiled_autograd.steps import FLOAT, INLINE, Ref
from weft.compiled_autograd.writer import Writer
from weft.ir.backward_calls import PROGRAM_PROLOGUE, SIZE_OF
from weft.ir.builder import Builder
from weft.ir.graph import Node, Operand, Value
from weft.ir.printer import name_values
from weft.ir.structure import CONSTANT
from weft.support.locations import Location
from weft.tensor.tensor import Tensor
from weft.types.dims import Expr
from weft.types.tensor_type import INT, TENSOR

Refs = tuple["Ref | None", ...]


# ---- the step
class Known(NamedTuple):
    """What was written down of a node: for which gradients, and what its body takes, tensors by number."""

    asked: tuple[Any, ...]
    body: Body
    taken: tuple[Ref | float, ...]
    numbers: list[int]
    tangents: tuple[int, ...]
    edges: tuple[int, ...]


def inline(writer: Writer, node: ProgramBackward, grads: Refs, needs: tuple[bool, ...]) -> Refs | None:
    """Write down the run of a compiled backward as a body to copy; None where it cannot be copied."""
    asked = (tuple([g is not None for g in grads]), needs)
    known = next(iter(writer.out.known.get(node, ())), None)
    if known is None or known.asked != asked:
        made = node.inlined(grads, needs)
        if made is None:
            return None
        taken = tuple([
            writer.tensor(x, None if packed is None else (packed, node)) if isinstance(x, Tensor) else x
            for x, packed in made.taken
        ])
        known = Known(asked, made.body, taken, made.numbers, made.tangents, made.edges)
        writer.out.known[node] = (known,)
    writer.out.floats.extend([x for x in known.taken if type(x) is float])
    writer.out.numbers.extend(known.numbers)
    first = writer.count
    refs = tuple([FLOAT if type(x) is float else x for x in known.taken])
    writer.emit((INLINE, known.body, refs, tuple([grads[i] for i in known.tangents])), len(known.edges))
    places = {edge: first + i for i, edge in enumerate(known.edges)}
    return tuple([places.get(i) for i in range(len(node.edges))])


# ---- the copy
class Copies:
    """The bodies that a graph takes in. The names of a copy's values begin with its own prefix: `aot0_`, `aot0_1_` for
    the second copy of the same body. Constants are there once."""

    def __init__(self, builder: Builder) -> None:
        self.builder = builder
        self.uses: dict[Body, int] = {}
        self.constants: dict[Any, tuple[Value, ...]] = {}

    def add(
        self, body: Body, taken: Sequence[Operand], grads: Sequence[Operand], numbers: Sequence[Value],
        where: Location | None,
    ) -> list[Operand]:
        """Copy a body. numbers: for its symbols. Gives what stands for its results."""
        prefix = self._prefix(body)
        sizes = _Sizes(self.builder, dict(zip(body.symbols, numbers, strict=True)), where)
        missing = [
            None if g is not None else (tuple([sizes.operand(d) for d in p.tensor_type.shape]), p.tensor_type.dtype)
            for g, p in zip(grads, body.given, strict=True)
        ]
        given: tuple[Value, ...] = ()
        if grads:
            types = (TENSOR,) * len(grads)
            given = self.builder.emit_raw(
                PROGRAM_PROLOGUE, (tuple(grads), tuple(missing)), types, where=where
            ).outputs
        names = name_values(body.graph)
        values: dict[Value, Operand] = dict(zip(body.graph.params, (*taken, *given), strict=True))
        for value, name in zip(given, body.given, strict=True):
            value.name = f"{prefix}{names[name]}"

        def mapped(operand: Operand) -> Operand:
            kind = type(operand)
            if kind is tuple:
                return tuple([mapped(o) for o in operand])
            return values[operand] if kind is Value else sizes.operand(operand) if kind is Expr else operand

        for node in body.graph.nodes:
            outputs = self._copied(node, tuple([mapped(a) for a in node.args]), where)
            for old, new in zip(node.outputs, outputs, strict=True):
                values[old] = new
                new.name = new.name or f"{prefix}{names[old]}"
        return [mapped(r) for r in body.graph.results]

    def _copied(self, node: Node, args: tuple[Operand, ...], where: Location | None) -> tuple[Value, ...]:
        types = (TENSOR,) * len(node.outputs)
        if node.op is not CONSTANT:
            return self.builder.emit_raw(node.op, args, types, where=node.where or where).outputs
        key = repr(args)
        found = self.constants.get(key)
        if found is None:
            found = self.constants[key] = self.builder.emit_raw(node.op, args, types, where=where).outputs
        return found

    def _prefix(self, body: Body) -> str:
        number = list(self.uses).index(body) if body in self.uses else len(self.uses)
        use = self.uses[body] = self.uses.get(body, -1) + 1
        return f"aot{number}_{use}_" if use else f"aot{number}_"


class _Sizes:
    """The sizes of a copy: numbers of the graph in place of symbols."""

    def __init__(self, builder: Builder, numbers: dict[str, Value], where: Location | None) -> None:
        self.builder, self.numbers, self.where = builder, numbers, where
        self.found: dict[Expr, Value] = {}

    def operand(self, dim: Operand) -> Operand:
        if type(dim) is not Expr:
            return dim
        name = dim.symbol_name
        if name is not None:
            return self.numbers[name]
        if dim not in self.found:
            names = tuple(sorted(dim.symbols()))
            values = tuple([self.numbers[n] for n in names])
            self.found[dim] = self.builder.emit_raw(SIZE_OF, (str(dim), names, values), (INT,), where=self.where).output
        return self.found[dim]

"""A graph as lines that read like Python: `.code`."""

from __future__ import annotations

from collections.abc import Iterator

from weft.ir.graph import Block, Graph, Node, Operand, Value
from weft.ir.printer import name_values
from weft.jit.annotations import written
from weft.ops.op import OPS
from weft.types.dtype import DType
from weft.types.tensor_type import TensorType

_BINARY = {
    "add": "+",
    "sub": "-",
    "mul": "*",
    "truediv": "/",
    "floordiv": "//",
    "mod": "%",
    "pow": "**",
    "int_pow": "**",
    "lt": "<",
    "le": "<=",
    "gt": ">",
    "ge": ">=",
    "eq": "==",
    "ne": "!=",
    "is_": "is",
    "is_not": "is not",
    "bitwise_and": "&",
    "bitwise_or": "|",
    "bitwise_xor": "^",
}
_BY_OP = {OPS[f"prim::{name}"]: sign for name, sign in _BINARY.items()}
_IF, _LOOP, _LIST, _TUPLE, _GET = (
    OPS[f"prim::{n}"] for n in ("If", "Loop", "ListConstruct", "TupleConstruct", "GetAttr")
)
INDENT = "  "


def code_with_constants(graph: Graph) -> tuple[str, dict[str, str]]:
    """The lines of a graph, in which tensors from outside are `CONSTANTS.c0` and so on, and for each of these the name
    under which the program keeps it.
    """
    printer = _Printer(graph)
    head = ", ".join(f"{printer.name(p)}: {written(p.type)}" for p in graph.params)
    results = ", ".join(map(printer.text, graph.results))
    lines = [f"def {graph.name}({head}):", *printer.lines(graph.block, INDENT), f"{INDENT}return {results}"]
    return "\n".join(lines) + "\n", {f"c{i}": name for i, name in enumerate(printer.constants)}


class _Printer:
    def __init__(self, graph: Graph) -> None:
        self.names = name_values(graph)
        self.constants: list[str] = []  # the names of tensors from outside

    def name(self, value: Value) -> str:
        name = self.names[value]
        return f"_{name}" if name[0].isdigit() else name

    def text(self, operand: Operand) -> str:
        """An operand."""
        if isinstance(operand, Value):
            return self.name(operand)
        if isinstance(operand, tuple):
            return f"[{', '.join(map(self.text, operand))}]"
        return f"weft.{operand.name}" if isinstance(operand, DType) else repr(operand)

    def lines(self, block: Block, indent: str) -> Iterator[str]:
        """The lines of a block's nodes."""
        for node in block.nodes:
            if node.op is _IF:
                yield from self._choice(node, indent)
            elif node.op is _LOOP:
                yield from self._loop(node, indent)
            else:
                target = ", ".join(map(self.name, node.outputs))
                yield f"{indent}{target + ' = ' if target else ''}{self._call(node)}"

    def _call(self, node: Node) -> str:
        args = [self.text(a) for a in node.args]
        sign = _BY_OP.get(node.op)
        if sign is not None:
            return f"{args[0]} {sign} {args[1]}"
        if node.op is _LIST:
            return args[0]
        if node.op is _TUPLE:
            return f"({args[0][1:-1]}{',' if len(node.args[0]) == 1 else ''})"
        if node.op is _GET and node.args[0] is None and isinstance(node.output.type, TensorType):
            if node.args[1] not in self.constants:
                self.constants.append(node.args[1])
            return f"CONSTANTS.c{self.constants.index(node.args[1])}"
        if node.op is _GET:
            return f"{'' if node.args[0] is None else args[0] + '.'}{node.args[1]}"
        return f"{node.op.schema.namespace}.{node.op.base}({', '.join(args)})"

    def _assigned(self, targets: tuple[Value, ...], results: tuple[Operand, ...], indent: str) -> Iterator[str]:
        if targets:
            yield f"{indent}{', '.join(map(self.name, targets))} = {', '.join(map(self.text, results))}"

    def _choice(self, node: Node, indent: str) -> Iterator[str]:
        for head, block in zip((f"if {self.text(node.args[0])}:", "else:"), node.blocks, strict=True):
            yield indent + head
            lines = [*self.lines(block, indent + INDENT), *self._assigned(node.outputs, block.results, indent + INDENT)]
            yield from lines or [f"{indent}{INDENT}pass"]

    def _loop(self, node: Node, indent: str) -> Iterator[str]:
        trip, condition, carried, _, _ = node.args
        block = node.blocks[0]
        index, *inside = block.params
        again, *left = block.results
        yield from self._assigned(tuple(inside), carried, indent)
        yield f"{indent}for {self.name(index)} in range({self.text(trip)}):"
        if condition is not True:
            yield f"{indent}{INDENT}if not {self.text(condition)}: break  # before the first step"
        yield from self.lines(block, indent + INDENT)
        yield from self._assigned(tuple(inside), tuple(left), indent + INDENT)
        if again is not True:
            yield f"{indent}{INDENT}if not {self.text(again)}: break"
        yield from self._assigned(node.outputs, tuple(inside), indent)

"""A graph as lines that read like Python: `.code`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from weft.ir.graph import Block, Graph, Node, Operand, Value
from weft.ir.kinds import type_of_immediate
from weft.ir.printer import name_values
from weft.jit.script.annotations import written
from weft.ops.op import OPS
from weft.types.dtype import DType
from weft.types.tensor_type import OptionalType, TensorType

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
_IF, _LOOP, _LIST, _TUPLE, _GET, _DICT, _BUILTIN, _FUNCTION = (
    OPS[f"prim::{n}"] for n in (
        "If", "Loop", "ListConstruct", "TupleConstruct", "GetAttr", "DictConstruct", "CallBuiltin", "CallFunction",
    )
)  # fmt: skip
_UNPACK = (OPS["prim::ListUnpack"], OPS["prim::TupleUnpack"])
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
                target = ", ".join(map(self.name, node.outputs)) + ("," if node.op in _UNPACK else "")
                yield f"{indent}{target + ' = ' if target else ''}{self._call(node)}"

    def _call(self, node: Node) -> str:
        args = [self.text(a) for a in node.args]
        sign = _BY_OP.get(node.op)
        if sign is not None:
            return f"{args[0]} {sign} {args[1]}"
        if node.op is _LIST:
            return args[0] if node.args[0] else f"annotate({written(node.output.type)}, [])"
        if node.op is _DICT:
            pairs = ", ".join(f"{self.text(k)}: {self.text(v)}" for k, v in zip(*node.args[:2], strict=True))
            return f"{{{pairs}}}" if pairs else f"annotate({written(node.output.type)}, {{}})"
        if node.op in _UNPACK:
            return args[0]
        if node.op is _BUILTIN:
            return self._builtin(str(node.args[0]), node.args[1], node.args[2])
        if node.op is _FUNCTION:
            return f"{str(node.args[0]).rpartition('.')[2]}({args[1][1:-1]})"
        if node.op is _TUPLE:
            return f"({args[0][1:-1]}{',' if len(node.args[0]) == 1 else ''})"
        if node.op is _GET and node.args[0] is None and isinstance(node.output.type, TensorType):
            if node.args[1] not in self.constants:
                self.constants.append(node.args[1])
            return f"CONSTANTS.c{self.constants.index(node.args[1])}"
        if node.op is _GET:
            return f"{'' if node.args[0] is None else args[0] + '.'}{node.args[1]}"
        keywords = [a.name for a in node.op.schema.arguments if a.keyword_only]
        space = node.op.schema.namespace
        space = space if space in ("aten", "prim") else f"weft.ops.{space}"
        return f"{space}.{node.op.base}({self._named(node.args, keywords)})"

    def _builtin(self, path: str, args: Sequence[Operand], names: Sequence[str]) -> str:
        """A call of a function of weft's, or of a method."""
        space, _, name = path.rpartition(".")
        if space == "weft.Tensor" and args:
            return f"{self.text(args[0])}.{name}({self._named(args[1:], names)})"
        return f"{path}({self._named(args, names)})"

    def _named(self, args: Sequence[Operand], names: Sequence[str]) -> str:
        """Arguments, of which the last have names."""
        split = len(args) - len(names)
        named = [f"{n}={self.text(a)}" for n, a in zip(names, args[split:], strict=True)]
        return ", ".join([*map(self.text, args[:split]), *named])

    def _assigned(self, targets: tuple[Value, ...], results: tuple[Operand, ...], indent: str) -> Iterator[str]:
        if targets:
            values = [self._fitted(r, t) for r, t in zip(results, targets, strict=True)]
            yield f"{indent}{', '.join(map(self.name, targets))} = {', '.join(values)}"

    def _fitted(self, result: Operand, target: Value) -> str:
        """What is assigned to a value of which the type may be wider."""
        text, kind = self.text(result), target.type
        is_wider = isinstance(kind, OptionalType) and type_of_immediate(result) is not kind
        return f"annotate({written(kind)}, {text})" if is_wider else text

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

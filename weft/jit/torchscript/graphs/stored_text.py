"""The lines of TorchScript's text: declarations, calls, blocks."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from typing import Any, NoReturn

from weft.support.errors import ParseError
from weft.types import dtype as dt
from weft.types import tensor_type as tt
from weft.types.tensor_type import Type, dict_of, list_of, optional, tensor_type, tuple_of

_NAME = r"%([A-Za-z0-9_.]+)"
_CALL = re.compile(
    rf"(?:(?P<outputs>%.*?) = )?(?P<kind>[A-Za-z_]\w*::\w+)(?P<attributes>\[.*\])?\((?P<args>(?:{_NAME}(?:, "
    rf")?)*)\)\s*\Z"
)
_BLOCK = re.compile(r"block(\d+)\((.*)\):\s*\Z")
_HEADER = re.compile(r"graph\((.*)\):\s*\Z", re.S)
_TENSORS = {
    "Float": dt.float32, "Double": dt.float64, "Half": dt.float16, "BFloat16": dt.bfloat16, "Long": dt.int64,
    "Int": dt.int32, "Short": dt.int16,
    "Char": dt.int8, "Byte": dt.uint8, "Bool": dt.bool_, "ComplexFloat": dt.complex64, "ComplexDouble": dt.complex128,
}  # fmt: skip
_PLAIN: dict[str, Type] = {
    "Tensor": tt.TENSOR, "int": tt.INT, "float": tt.FLOAT, "bool": tt.BOOL, "str": tt.STR, "complex": tt.COMPLEX,
    "NoneType": tt.NONE, "None": tt.NONE, "Function": tt.ANY,
    "number": tt.NUMBER, "Scalar": tt.NUMBER, "Device": tt.DEVICE, "Any": tt.ANY,
}  # fmt: skip


@dataclass
class Line:
    """One node: its results with types, operator, attributes in brackets, names of arguments, and where it stands."""

    outputs: list[tuple[str, Type]]
    kind: str
    attributes: dict[str, Any]
    args: list[str]
    number: int
    column: int


class Text:
    """The lines one by one, comments taken off."""

    def __init__(self, text: str) -> None:
        self.lines = [(i + 1, _without_comment(line)) for i, line in enumerate(text.split("\n"))]
        self.lines = [(n, line) for n, line in self.lines if line.strip() and not line.strip().startswith("#")]
        self.at = 0

    def fail(self, problem: str, at: int | None = None) -> NoReturn:
        """Raises ParseError at the line with this number, or at the one that was read last."""
        matching = [(n, line) for n, line in self.lines if n == at]
        last = self.lines[min(max(self.at - 1, 0), len(self.lines) - 1)] if self.lines else (1, "")
        number, line = matching[0] if matching else last
        column = len(line) - len(line.lstrip()) + 1
        raise ParseError(f"line {number}, column {column}: {problem}\n    {line}\n    {' ' * (column - 1)}^")

    def _read(self) -> str:
        if self.at >= len(self.lines):
            self.fail("the text ends within the graph")
        self.at += 1
        return self.lines[self.at - 1][1].strip()

    def _next(self) -> str:
        return self.lines[self.at][1] if self.at < len(self.lines) else ""

    # ---- parts
    def header(self) -> list[tuple[str, Type]]:
        """`graph(%x : Tensor, %n : int):`, over several lines too."""
        whole = self._read()
        while not whole.endswith("):"):
            whole += " " + self._read()
        match = _HEADER.match(whole)
        if match is None:
            self.fail("expected graph(%x : Tensor, ...):")
        return self.declared(match[1])

    def indent_of_next(self) -> int:
        """How far the next line stands to the right."""
        return len(self._next()) - len(self._next().lstrip())

    def sees_node(self, indent: int) -> bool:
        """Whether the next line is a node of a block at this place."""
        line = self._next()
        return (
            self.indent_of_next() == indent
            and bool(line.strip())
            and not line.strip().startswith(("return", "->", "block"))
        )

    def node(self) -> Line:
        """A node."""
        number, raw = self.lines[self.at]
        line = self._read()
        match = _CALL.match(line)
        if match is None:
            self.fail("expected a node: %y : Tensor = aten::relu(%x)")
        outputs = self.declared(match["outputs"]) if match["outputs"] else []
        args = re.findall(_NAME, match["args"])
        return Line(
            outputs, match["kind"], self._attributes(match["attributes"]), args, number, len(raw) - len(raw.lstrip())
        )

    def block_header(self, number: int) -> list[tuple[str, Type]]:
        """`block0(%i : int):`."""
        match = _BLOCK.match(self._read())
        if match is None or int(match[1]) != number:
            self.fail(f"expected block{number}(...):")
        return self.declared(match[2])

    def yielded(self) -> list[str]:
        """`-> (%a, %b)`."""
        return self._names("->")

    def returned(self) -> list[str]:
        """`return (%y)`."""
        return self._names("return")

    def _names(self, word: str) -> list[str]:
        line = self._read()
        if not re.fullmatch(rf"{word} \((?:{_NAME}(?:, )?)*\)", line):
            self.fail(f"expected {word} (%a, ...)")
        return re.findall(_NAME, line)

    def expect_end(self) -> None:
        """Nothing may follow."""
        if self.at < len(self.lines):
            self.at += 1
            self.fail("expected the end of the text")

    # ---- values
    def declared(self, text: str) -> list[tuple[str, Type]]:
        """`%x : Tensor, %n : int`."""
        declarations = []
        for part in split(text):
            match = re.fullmatch(rf"{_NAME}\s*:\s*(.+)", part) or re.fullmatch(rf"{_NAME}()", part)
            if match is None:
                self.fail(f"expected %name : type, found {part!r}")
            declarations.append((match[1], self.type(match[2]) if match[2] else tt.TENSOR))
        return declarations

    def type(self, text: str) -> Type:
        """A type as TorchScript prints it."""
        text = text.strip()
        if text.endswith("?"):
            return optional(self.type(text[:-1]))
        if text.endswith("[]"):
            return list_of(self.type(text[:-2]))
        if text in _PLAIN:
            return _PLAIN[text]
        head, bracket, inside = text.partition("(")
        if bracket and inside.endswith(")"):
            return self._compound(head, inside[:-1])
        if head in _TENSORS:
            return tensor_type(_TENSORS[head])
        self.fail(f"{text!r} is no type")

    def _compound(self, head: str, inside: str) -> Type:
        parts = split(inside)
        if not head:
            return tuple_of(*(self.type(p) for p in parts))
        if head == "Optional":
            return optional(self.type(inside))
        if head == "List":
            return list_of(self.type(inside))
        if head == "Dict" and len(parts) == 2:
            return dict_of(self.type(parts[0]), self.type(parts[1]))
        if head in _TENSORS or head == "Tensor":
            return tt.TENSOR  # sizes in a stored graph are those of an example
        self.fail(f"{head}({inside}) is no type")

    def _attributes(self, text: str | None) -> dict[str, Any]:
        attributes: dict[str, Any] = {}
        for part in split(text[1:-1]) if text else []:
            name, _, value = part.partition("=")
            try:
                attributes[name.strip()] = ast.literal_eval(re.sub(r"\Aannotate\(.*?, (.*)\)\Z", r"\1", value.strip()))
            except (ValueError, SyntaxError):
                attributes[name.strip()] = value.strip()
        return attributes


def _without_comment(line: str) -> str:
    """A line without its comment; nodes without results begin with `=`, one to the right of the others."""
    return re.sub(r"\A(\s*) = (?=\S)", r"\1", re.sub(r"\s+#.*\Z", "", line))


def split(text: str) -> list[str]:
    """The parts between commas that stand outside of brackets and quotes."""
    parts, depth, start, quoted = [], 0, 0, False
    for i, c in enumerate(text):
        if c == '"' and text[i - 1 : i] != "\\":
            quoted = not quoted
        elif not quoted and c in "([{":
            depth += 1
        elif not quoted and c in ")]}":
            depth -= 1
        elif c == "," and depth == 0 and not quoted:
            parts.append(text[start:i].strip())
            start = i + 1
    return [p for p in [*parts, text[start:].strip()] if p]

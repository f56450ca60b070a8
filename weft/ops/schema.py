"""Schemas: `aten::sum(Tensor self, int[1]? dim=None, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor`,
parsed once."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

from weft.support.errors import ParseError

KINDS = (
    "Tensor", "Scalar", "int", "float", "bool", "str", "ScalarType", "Device",
    "Layout", "MemoryFormat", "Generator", "Object",
)


@dataclass(frozen=True)
class Argument:
    """One argument: its kind (`Tensor`, `int`, ...), whether it is a list and of which fixed size,
    optional, keyword only."""

    name: str
    kind: str
    is_list: bool = False
    list_size: int | None = None
    is_optional: bool = False
    element_optional: bool = False
    default: Any = None
    has_default: bool = False
    keyword_only: bool = False
    alias: str = ""

    @property
    def is_tensor(self) -> bool:
        return self.kind == "Tensor"

    @property
    def type_text(self) -> str:
        text = self.kind + (f"({self.alias})" if self.alias else "") + ("?" if self.element_optional else "")
        if self.is_list:
            text += f"[{self.list_size or ''}]"
        return text + ("?" if self.is_optional else "")

    def __str__(self) -> str:
        text = f"{self.type_text} {self.name}"
        return text + (f"={_default_text(self.default)}" if self.has_default else "")


def _default_text(value: Any) -> str:
    return str(list(value)) if isinstance(value, tuple) else repr(value)


class Schema:
    """The contract of an operator. Of a parsed one only the name is read at first, the rest when it is asked for:
    importing weft reads 550."""

    def __init__(
        self, namespace: str, base: str, overload: str, arguments: tuple[Argument, ...] = (),
        returns: tuple[Argument, ...] = (), text: str = "",
    ) -> None:
        self.namespace, self.base, self.overload = namespace, base, overload
        if text:
            self._text = text
        else:
            self.arguments, self.returns = arguments, returns

    @cached_property
    def arguments(self) -> tuple[Argument, ...]:
        """The arguments in order. Raises ParseError."""
        return _arguments(_head(self._text)[3])

    @cached_property
    def returns(self) -> tuple[Argument, ...]:
        """The results in order."""
        return _returns(_head(self._text)[4])

    @property
    def name(self) -> str:
        """`aten::max.dim`."""
        return f"{self.namespace}::{self.base}" + (f".{self.overload}" if self.overload else "")

    @cached_property
    def gives_several(self) -> bool:
        """Whether a call gives a tuple: of several results, or of those in a list."""
        return self.returns_list or len(self.returns) > 1

    @cached_property
    def returns_list(self) -> bool:
        return len(self.returns) == 1 and self.returns[0].is_list

    def index(self, name: str) -> int:
        """Position of an argument. Raises KeyError that lists the names."""
        for i, a in enumerate(self.arguments):
            if a.name == name:
                return i
        raise KeyError(f"{self.name} has no argument {name!r}; it has {', '.join(a.name for a in self.arguments)}")

    def __str__(self) -> str:
        parts: list[str] = []
        starred = False
        for a in self.arguments:
            if a.keyword_only and not starred:
                parts.append("*")
                starred = True
            parts.append(str(a))
        results = [r.type_text + (f" {r.name}" if r.name else "") for r in self.returns]
        return (
            f"{self.name}({', '.join(parts)}) -> {results[0] if len(results) == 1 else '(' + ', '.join(results) + ')'}"
        )


_HEAD = re.compile(r"^\s*(\w+)::(\w+)(?:\.(\w+))?\s*\((.*)\)\s*->\s*(.+?)\s*$", re.S)
_TYPE = re.compile(r"^(\w+)(?:\(([a-z0-9!|*> ]+)\))?(\?)?(?:\[(\d*)\])?(\?)?$")


def parse_schema(text: str) -> Schema:
    """A schema from its text. Raises ParseError with the part that is not understood (in the arguments:
    when they are first read)."""
    namespace, base, overload, _, _ = _head(text)
    return Schema(namespace, base, overload or "", text=text)


def _head(text: str) -> tuple[str, str, str | None, str, str]:
    match = _HEAD.match(text)
    if match is None:
        raise ParseError(f"schema {text!r} is not of the form ns::name(arguments) -> result")
    return match.groups()  # type: ignore[return-value]


def _arguments(inside: str) -> tuple[Argument, ...]:
    arguments: list[Argument] = []
    keyword_only = False
    for part in _split(inside):
        if part == "*":
            keyword_only = True
            continue
        arguments.append(_argument(part, keyword_only))
    return tuple(arguments)


def _split(text: str) -> list[str]:
    """The parts between commas that stand outside brackets."""
    plain = text.split(",")
    if all(p.count("[") == p.count("]") and p.count("(") == p.count(")") for p in plain):
        return [p.strip() for p in plain if p.strip()]
    parts, depth, start = [], 0, 0
    for i, c in enumerate(text):
        if c in "[(":
            depth += 1
        elif c in "])":
            depth -= 1
        elif c == "," and depth == 0:
            parts.append(text[start:i].strip())
            start = i + 1
    parts.append(text[start:].strip())
    return [p for p in parts if p]


@cache
def _argument(part: str, keyword_only: bool) -> Argument:
    declaration, _, default = part.partition("=")
    words = declaration.split()
    if len(words) != 2:
        raise ParseError(f"schema: argument {part!r} is not `type name`")
    kind, alias, element_optional, size, is_list, is_optional = _type(words[0])
    has_default = bool(default)
    value = _default(default.strip(), is_list) if has_default else None
    return Argument(
        words[1], kind, is_list, size, is_optional, element_optional, value, has_default, keyword_only, alias
    )


@cache
def _type(text: str) -> tuple[str, str, bool, int | None, bool, bool]:
    match = _TYPE.match(text)
    if match is None or match[1] not in KINDS:
        raise ParseError(f"schema: {text!r} is not a type; kinds are {', '.join(KINDS)}")
    kind, alias, q1, size, q2 = match.groups()
    is_list = size is not None
    element_optional = bool(q1) and is_list
    is_optional = bool(q2) or (bool(q1) and not is_list)
    return kind, alias or "", element_optional, int(size) if size else None, is_list, is_optional


_PLAIN: dict[str, Any] = {"None": None, "True": True, "False": False, "0": 0, "1": 1, "-1": -1, "[]": []}


def _default(text: str, is_list: bool) -> Any:
    value = _PLAIN[text] if text in _PLAIN else ast.literal_eval(text)
    return tuple(value) if isinstance(value, list) else ((value,) if is_list and value is not None else value)


@cache
def _returns(text: str) -> tuple[Argument, ...]:
    if text == "()":
        return ()
    parts = _split(text[1:-1]) if text.startswith("(") else [text]
    returns = []
    for part in parts:
        type_text, _, name = part.partition(" ")
        kind, alias, element_optional, size, is_list, is_optional = _type(type_text)
        returns.append(Argument(name.strip(), kind, is_list, size, is_optional, element_optional, alias=alias))
    return tuple(returns)

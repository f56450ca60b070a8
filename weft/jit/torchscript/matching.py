"""Matching nodes by schema: `node.matches("aten::type_as(Tensor self, Tensor other) -> Tensor")`."""

from __future__ import annotations

from collections.abc import Collection
from functools import cache
from typing import Protocol

from weft.ir.graph import Node, Operand, Value, values_in
from weft.ir.kinds import type_of_argument, type_of_immediate
from weft.ops.op import PACKETS
from weft.ops.schema import Argument, Schema, parse_schema
from weft.support.errors import ArgumentError
from weft.types.tensor_type import ANY, TENSOR, Type, list_of, unify

parsed = cache(parse_schema)


def type_of_operand(operand: Operand) -> Type:
    """The type of an operand; that of a list that is written out from its elements."""
    if not isinstance(operand, tuple):
        return type_of_immediate(operand)
    common: Type | None = None
    for part in operand:
        kind = type_of_operand(part)
        common = kind if common is None else unify(common, kind)
    return list_of(TENSOR if common is None else common)


def matches(node: Node, text: str, const: Collection[str] = ()) -> bool:
    """Whether a node calls this operator with arguments of these types, those named in `const` known while compiling.

    Raises ParseError for a text that is no schema, ArgumentError for a name in `const` that the schema lacks.
    """
    schema = parsed(text)
    strange = set(const) - {a.name for a in schema.arguments}
    if strange:
        raise ArgumentError(f"matches: {schema} has no argument {', '.join(sorted(strange))}")
    if (
        not _same_name(node, schema)
        or len(node.args) != len(schema.arguments)
        or len(node.outputs) != _count(schema, node)
    ):
        return False
    pairs = zip(schema.arguments, node.args, strict=True)
    if str(schema) == str(node.op.schema):  # its own, which may have a number where it says Tensor
        return all(not values_in(operand) for a, operand in pairs if a.name in const)
    if not all(_fits(a, operand, a.name in const) for a, operand in pairs):
        return False
    return schema.returns_list or all(
        v.type.is_subtype_of(type_of_argument(r)) for r, v in zip(schema.returns, node.outputs, strict=True)
    )


def _count(schema: Schema, node: Node) -> int:
    return len(node.outputs) if schema.returns_list else len(schema.returns)


def _same_name(node: Node, schema: Schema) -> bool:
    own = node.op.schema
    if own.base != schema.base or (schema.overload and schema.overload != own.overload):
        return False
    # Numbers have operators of the language here, and PyTorch's names in PyTorch's schemas.
    return own.namespace == schema.namespace or {own.namespace, schema.namespace} == {"aten", "prim"}


def _fits(argument: Argument, operand: Operand, constant: bool) -> bool:
    if constant and values_in(operand):
        return False
    wanted, actual = type_of_argument(argument), type_of_operand(operand)
    if argument.is_list and isinstance(operand, tuple) and not operand:
        return True
    return wanted is ANY or actual.is_subtype_of(wanted)


def schemas(op: str) -> list[str]:
    """The schemas of an operator's overloads: `schemas("aten::max")`. Raises ArgumentError if there is none."""
    overloads = PACKETS.get(op)
    if not overloads:
        raise ArgumentError(f"schemas: there is no operator {op!r}")
    return [str(o.schema) for o in overloads]


class Matching(Protocol):
    """What can be matched: a node of a graph."""

    def matches(self, schema: str) -> bool: ...


class OperatorSet:
    """Several schemas to match a node against."""

    def __init__(self, texts: Collection[str]) -> None:
        self.texts = tuple(texts)
        for text in self.texts:
            parsed(text)

    def find(self, node: Matching) -> str | None:
        """The first schema that the node matches, or None."""
        return next((text for text in self.texts if node.matches(text)), None)


def constant_of(operand: Operand) -> Operand:
    """The value of an operand that is known while compiling, lists as lists; None where it is not."""
    if isinstance(operand, Value) or values_in(operand):
        return None
    return [constant_of(part) for part in operand] if isinstance(operand, tuple) else operand

"""Arithmetic on numbers: what the plan asks native code to compute, native code computes, for every pointwise entry
and kind of number."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest

import weft.catalogue  # noqa: F401  # defines the operators
from weft.codegen.emit import F64, I64, Module
from weft.codegen.program.numbers import emit_number
from weft.ir.builder import type_of_operand
from weft.ir.graph import Node, Value
from weft.ops.op import OPS, Op
from weft.ops.rules import Pointwise
from weft.plan.numbers import is_native_number
from weft.support.errors import WeftError
from weft.types import dtype as dt
from weft.types.tensor_type import BOOL, FLOAT, INT

REQUIRED = {"int": 1, "ScalarType": dt.float64}
CHOICES = (Value(FLOAT, "x"), Value(INT, "n"), Value(BOOL, "b"), 2, 0.5, True, None)


def _nodes(op: Op) -> Iterator[Node]:
    """The entry on every combination of numbers that its type rule takes."""
    numbers = [i for i, a in enumerate(op.schema.arguments) if a.kind in ("Tensor", "Scalar")]
    for combination in itertools.product(CHOICES, repeat=min(len(numbers), 3)):
        args = [REQUIRED.get(a.kind) if a.default is None else a.default for a in op.schema.arguments]
        for i, value in zip(numbers, combination, strict=False):
            args[i] = value
        if not any(isinstance(a, Value) for a in args):
            continue
        try:
            types = tuple(type_of_operand(a) for a in args)
            result, _ = op.type(*types), op.type.compute_dtype(types)
        # a rule of tensors, or of other kinds
        except (WeftError, TypeError, AttributeError, LookupError, StopIteration):
            continue
        yield Node(op, tuple(args), (result,))


@pytest.mark.parametrize(
    "op", [op for op in OPS.values() if op.scalar is not None and isinstance(op.type, Pointwise)],
    ids=lambda op: op.name,
)
def test_what_is_native_is_emitted(op):
    for node in _nodes(op):
        if is_native_number(node):
            f = Module().function("number", F64 if node.output.type is FLOAT else I64, [(F64, "x"), (I64, "n")])
            double, integer = f.params
            result = emit_number(
                node, f, lambda v, d=double, n=integer: d if v.type is FLOAT else n, lambda d, n=integer: n
            )
            f.ret(result)
            assert f.text()


@pytest.mark.parametrize(
    ("name", "is_native"),
    [("aten::add.Tensor", True), ("aten::exp", True), ("aten::erfinv", False), ("aten::sigmoid", False)],
)
def test_some_are_native(name, is_native):
    nodes = [n for n in _nodes(OPS[name]) if all(a is CHOICES[0] for a in n.args[:1])]
    assert nodes and any(map(is_native_number, nodes)) == is_native

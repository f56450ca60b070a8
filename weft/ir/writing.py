"""Operators that write their result into their first argument (`aten::add_.Tensor`), derived from the entries
that allow it when first asked for.

Only scripted programs have them: they run on tensors, whose walk knows what a write means.
Captured graphs are functional.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from weft.ops import compute
from weft.ops.op import NOT_DIFFERENTIABLE, OPS, Op, define, defining
from weft.ops.schema import Argument, Schema

_WRITING: dict[Op, Op] = {}


def writing_op(op: Op) -> Op:
    """The operator that writes the result of `op` into its first argument, and gives that back."""
    writing = _WRITING.get(op)
    if writing is None:
        with defining:
            writing = _WRITING.get(op) or _define(op)
    return writing


def _define(op: Op) -> Op:
    written = _WRITING[op] = define(
        _written(op.schema),
        f"In-place {op.base}: the result is written to self.",
        type=lambda self, *rest: self,
        kernel=lambda target, *rest: _write(op, target, rest),
        vjp=NOT_DIFFERENTIABLE,
        effect="io",
        public=(),
        writes=op,
        numbers=op.numbers or (op.how == "scalar" and len(op.tensor_positions) > 1),
    )
    return written


def find_writing(name: str) -> Op | None:
    """The operator of this name (`aten::add_.Tensor`), or None if no entry has such a form."""
    base, dot, overload = name.partition(".")
    op = OPS.get(base[:-1] + dot + overload) if base.endswith("_") else None
    return writing_op(op) if op is not None and op.inplace else None


def _written(schema: Schema) -> Schema:
    first = schema.arguments[0]
    alias = Argument(first.name, first.kind, alias="a!")
    return Schema(
        schema.namespace, f"{schema.base}_", schema.overload, (alias, *schema.arguments[1:]),
        (Argument("", "Tensor", alias="a!"),),
    )


def _write(op: Op, target: np.ndarray[Any, Any], rest: tuple[Any, ...]) -> np.ndarray[Any, Any]:
    np.copyto(target, compute.evaluate(op, (target, *rest)), casting="unsafe")
    return target

"""Operators that the functionalizer itself calls, and the scatter of each view."""

from __future__ import annotations

from functools import cache

from weft.ops.op import OPS, Op
from weft.ops.packet import aten

VIEW, RESHAPE, PERMUTE = aten.view.default.op, aten.reshape.default.op, aten.permute.default.op
AS_STRIDED, SELECT, SLICE = aten.as_strided.default.op, aten.select.int.op, aten.slice.Tensor.op
UNBIND = aten.unbind.int.op
PAD = aten.constant_pad_nd.default.op
VIEW_BITS = aten.view_bits.default.op
VIEW_AS_REAL, VIEW_AS_COMPLEX = aten.view_as_real.default.op, aten.view_as_complex.default.op


@cache
def scatter_of(op: Op) -> Op:
    """The inverse of a view operator: the entry that puts a source where the view looks."""
    return _twin(op, "scatter")


@cache
def copy_of(op: Op) -> Op:
    """The operator that gives what a view shows as memory of its own."""
    return _twin(op, "copy")


def _twin(op: Op, name: str) -> Op:
    schema = op.schema
    overload = OPS.get(f"{schema.namespace}::{schema.base}_{name}.{schema.overload}")
    return overload if overload is not None else OPS[f"{schema.namespace}::{schema.base}_{name}"]

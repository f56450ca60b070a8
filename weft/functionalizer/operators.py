"""Operators that the functionalizer itself calls, and the scatter of each view."""

from __future__ import annotations

from functools import cache

from weft.ops.op import OPS, Op


def _named(name: str) -> Op:
    return OPS[f"aten::{name}"]


VIEW, RESHAPE, PERMUTE, AS_STRIDED = map(_named, ("view", "reshape", "permute", "as_strided"))
SELECT, VIEW_BITS = map(_named, ("select.int", "view_bits"))
VIEW_AS_REAL, VIEW_AS_COMPLEX = map(_named, ("view_as_real", "view_as_complex"))


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
    found = OPS.get(f"{schema.namespace}::{schema.base}_{name}.{schema.overload}")
    return found if found is not None else OPS[f"{schema.namespace}::{schema.base}_{name}"]

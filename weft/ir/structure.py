"""The prim:: entries that give graphs their structure: constants, If, Loop; and the type of a view from its geometry."""

from __future__ import annotations

from typing import Any

import numpy as np

from weft.ops.geometry import Geometry, contiguous
from weft.ops.op import NOT_DIFFERENTIABLE, Op, define
from weft.support.errors import StateError
from weft.types.dtype import DType
from weft.types.tensor_type import TensorType, Type, tensor_type


def view_type(op: Op, types: tuple[Any, ...]) -> Any:
    """The type of a view's result(s): the geometry rule applied to a contiguous source."""
    source = types[0]
    assert op.view is not None and isinstance(source, TensorType), (op, types)
    shape = op.view.geometry(contiguous(source.shape), *types[1:])
    if isinstance(shape, tuple):
        return tuple(_like(source, g) for g in shape)
    return _like(source, shape)


def _like(source: TensorType, g: Geometry) -> TensorType:
    return tensor_type(source.dtype, g.dims, source.device)


def _constant(values: tuple[Any, ...], dims: tuple[int, ...], dtype: DType) -> np.ndarray[Any, Any]:
    return np.array(values, dtype.numpy).reshape(dims)


CONSTANT = define(
    "prim::constant(Object values, int[] dims, ScalarType dtype) -> Tensor",
    "A tensor whose values (flat, row-major) stand in the program.",
    type=lambda values, dims, dtype: tensor_type(dtype, tuple(dims)),
    kernel=_constant,
    vjp=NOT_DIFFERENTIABLE,
    public=(),
)


def _needs_blocks(*args: Any) -> Any:
    raise StateError("prim::If and prim::Loop are run by an interpreter of graphs, not called")


def _types_are_given(*args: Any) -> tuple[Type, ...]:
    raise StateError("the result types of prim::If and prim::Loop come from their blocks; use the builder's emit_raw")


IF = define(
    "prim::If(Object condition) -> Object[]",
    "Runs its first block when the condition (a bool or a 0-dim bool tensor) holds, else its second; yields that block's results.",
    type=_types_are_given,
    kernel=_needs_blocks,
    vjp=NOT_DIFFERENTIABLE,
    public=(),
)

LOOP = define(
    "prim::Loop(Object trip, Object condition, Object[] carried, Object[] xs, bool reverse=False) -> Object[]",
    "Runs its block up to `trip` times while the condition holds. Block parameters: the index, the carried values, one slice of each xs. Block "
    "results: the next condition, the next carried values, one slice of each ys. Results: carried values, stacked ys.",
    type=_types_are_given,
    kernel=_needs_blocks,
    vjp=NOT_DIFFERENTIABLE,
    public=(),
)

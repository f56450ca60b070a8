"""The geometry that a view operator gives of another geometry, where sizes may be symbols."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from weft.ops.geometry import Geometry
from weft.ops.op import Op
from weft.support.errors import ShapeError
from weft.types import shape_env
from weft.types.dims import Dim, Expr
from weft.types.shape_env import ShapeEnv

CANNOT_VIEW = (
    "view size is not compatible with input tensor's size and stride (at least one dimension spans across two "
    "contiguous subspaces). Use .reshape(...) instead."
)


def after(op: Op, g: Geometry, rest: tuple[Any, ...], env: ShapeEnv | None) -> Any:
    """The geometry (or geometries) of a view that does not copy. Raises ShapeError where strides cannot express it."""
    assert op.view is not None
    try:
        shapes = op.view.geometry(g, *rest)
    except ShapeError:
        sized = g if env is None or not op.view.keeps_order else with_known_sizes(g, env)
        if sized is g or sized == g:
            raise
        return op.view.geometry(sized, *rest)
    if shapes is None and env is not None:
        shapes = op.view.geometry(with_known_sizes(g, env), *rest)
    if shapes is None:
        raise ShapeError(CANNOT_VIEW)
    return shapes


def with_known_sizes(g: Geometry, env: ShapeEnv) -> Geometry:
    """The geometry with 0 and 1 for every symbolic size that is so in the example: strides of a dim of one element, and
    those of a tensor without elements, are no obstacle.
    """
    return replace(g, dims=tuple([_known_size(d, env) for d in g.dims]))


def _known_size(d: Dim, env: ShapeEnv) -> Dim:
    if type(d) is not Expr or not env.examples.keys() >= d.symbols():
        return d
    size = env.hint(d)
    return size if size in (0, 1) and shape_env.equal(d, size) else d

"""The geometry that a view operator gives of another geometry, where sizes may be symbols."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from weft.ops.geometry import Geometry
from weft.ops.op import Op
from weft.support.errors import ShapeError
from weft.types import shape_env
from weft.types.dims import Expr
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
        known = g if env is None or not op.view.keeps_order else with_ones(g, env)
        if known is g or known == g:
            raise
        return op.view.geometry(known, *rest)
    if shapes is None and env is not None:
        shapes = op.view.geometry(with_ones(g, env), *rest)
    if shapes is None:
        raise ShapeError(CANNOT_VIEW)
    return shapes


def with_ones(g: Geometry, env: ShapeEnv) -> Geometry:
    """The geometry with 1 for every symbolic size that is 1 in the example: the stride of such a dim is no obstacle."""
    known = env.examples.keys()
    is_one = [type(d) is Expr and known >= d.symbols() and env.hint(d) == 1 and shape_env.equal(d, 1) for d in g.dims]
    return replace(g, dims=tuple(1 if one else d for d, one in zip(g.dims, is_one, strict=True)))

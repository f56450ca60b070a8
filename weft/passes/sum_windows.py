"""sum_windows: the gradient of `unfold`, whose windows overlap, as a sum of as many shifted pieces as windows overlap,
each a view or a padded copy that fuses with the others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from weft.ir.builder import Builder
from weft.ir.graph import Node, Operand, Value
from weft.ops.packet import aten
from weft.ops.rules import normalize_dim
from weft.passes.rebuild import Rewrites, results_of
from weft.types import shape_env
from weft.types.dims import Dim

Dims = Sequence[Dim]


sum_windows = Rewrites()


@sum_windows.of(aten.unfold_backward)
def _rewrite_unfold(builder: Builder, node: Node, args: tuple[Operand, ...]) -> tuple[Operand, ...] | None:
    first, sizes, dim, size, step = args
    if type(first) is not Value or not sizes or type(size) is not int or type(step) is not int:
        return None
    return results_of(
        builder, _unfold_back(builder.handle(first), sizes, normalize_dim("unfold", dim, len(sizes)), size, step)
    )


def _unfold_back(g: Any, sizes: Dims, at: int, size: int, step: int) -> Any:
    """Windows added up where they came from. Piece j holds elements j * step to (j + 1) * step of every window;
    pieces do not overlap in themselves."""
    env = shape_env.current_env()
    assert env is not None  # a rebuild answers from its graph
    last = g.ndim - 1
    g = aten.permute(g, (*range(at + 1), last, *range(at + 1, last)))
    count, whole = g.dims[at], sizes[at]
    total: Any = None
    for j in range(-(-size // step)):
        end = min((j + 1) * step, size)
        piece = aten.slice(g, at + 1, j * step, end, 1)
        if end - j * step < step:
            piece = aten.constant_pad_nd(piece, [*[0, 0] * (last - at - 1), 0, step - end + j * step])
        piece = aten.reshape(piece, (*sizes[:at], count * step, *sizes[at + 1 :]))
        if j or not env.proves_equal(count * step, whole):
            piece = aten.constant_pad_nd(piece, [*[0, 0] * (last - at - 1), j * step, whole - (j + count) * step])
        total = piece if total is None else total + piece
    return total if total is not None else aten.zeros(tuple(sizes), dtype=g.dtype)

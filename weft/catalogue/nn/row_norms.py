"""max_norm of embedding and embedding_bag: the rows of the table that are looked up are first scaled down, in place."""

from __future__ import annotations

from typing import Any

from weft.ops.packet import aten


def limit_rows(weight: Any, input: Any, max_norm: float, norm_type: float) -> None:
    """Scale the rows that `input` names down to norm max_norm, without history. A mask says which, so that their number
    need not be known."""
    table = weight.detach()
    norms = aten.linalg_vector_norm(table, norm_type, 1, True)
    rows = aten.arange(weight.dims[0])
    used = aten.any(aten.eq(aten.reshape(input.detach(), (1, -1)), aten.reshape(rows, (-1, 1))), 1, True)
    scale = aten.where(aten.logical_and(used, norms > max_norm), max_norm / (norms + 1e-7), 1.0)
    table.mul_(aten.to(scale, weight.dtype))

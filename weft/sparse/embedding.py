"""Rows of a table whose gradient is sparse: what `sparse=True` means to embeddings."""

from __future__ import annotations

from typing import Any

from weft.autograd.node import InputMetadata, Node
from weft.autograd.record import gradient_edge
from weft.ops.packet import aten
from weft.sparse.history import make
from weft.sparse.pattern import Pattern
from weft.tensor.history import AutogradState
from weft.tensor.modes import modes
from weft.tensor.tensor import Tensor
from weft.types import dims as dm
from weft.types import dtype as dt
from weft.types import formats


def rows_of(weight: Tensor, indices: Tensor, padding_idx: int, scale_grad_by_freq: bool) -> Tensor:
    """weight[indices], whose gradient is a COO tensor with a value for each index (those of padding_idx left out)."""
    edge = gradient_edge(weight) if modes.grad else None
    out: Tensor = aten.embedding(Tensor.detach(weight), indices, padding_idx, scale_grad_by_freq)
    if edge is None:
        return out
    out = Tensor.detach(out)
    node = SparseEmbeddingBackward(edge, weight, indices.detach(), padding_idx, scale_grad_by_freq, out)
    out._autograd = AutogradState(False, node, 0)
    return out


class SparseEmbeddingBackward(Node):
    """The history of rows picked from a table: their gradients, with their indices, are the table's."""

    def __init__(
        self, edge: Any, weight: Tensor, indices: Tensor, padding_idx: int, scale_grad_by_freq: bool, out: Tensor
    ) -> None:
        super().__init__((edge,))
        self.dims, self.indices, self.padding, self.scales = weight.dims, indices, padding_idx, scale_grad_by_freq
        self.metadata_of_inputs = (InputMetadata(out.dims, out.dtype),)

    def apply(self, grads: tuple[Any, ...], needs: tuple[bool, ...]) -> tuple[Any, ...]:
        gradient = grads[0]
        if gradient is None:
            return (None,)
        places = aten.reshape(self.indices, (dm.product(self.indices.dims),))
        places = places if places.dtype is dt.int64 else aten._to_copy(places, dt.int64)
        values = aten.reshape(gradient, (places.dims[0], self.dims[1]))
        if self.scales:
            counts = aten.index_add(
                aten.new_zeros(values, (self.dims[0],)), 0, places, aten.ones_like(places, dtype=values.dtype)
            )
            values = aten.div(values, aten.unsqueeze(aten.index_select(counts, 0, places), 1))
        if self.padding >= 0:
            kept = aten.select(aten.nonzero(aten.ne(places, self.padding)), 1, 0)
            places, values = aten.index_select(places, 0, kept), aten.index_select(values, 0, kept)
        pattern = Pattern(formats.sparse_coo, self.dims, aten.unsqueeze(places, 0), None, False)
        return (make(pattern, values),)

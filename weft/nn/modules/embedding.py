"""Embedding: rows of a table."""

from __future__ import annotations

from typing import Any

from weft.nn import functional as F
from weft.nn import init
from weft.nn.modules.module import Module
from weft.nn.parameter import Parameter
from weft.ops.packet import aten
from weft.support.errors import ShapeError, Unsupported, ValueProblem
from weft.tensor.modes import no_grad
from weft.tensor.tensor import Tensor


class Embedding(Module):
    """weight[input]. weight: [num_embeddings, embedding_dim], standard normal at first; the row padding_idx is zero and gets no gradient.

    max_norm: rows that are looked up and whose norm is greater are first scaled down to it, in place.
    """

    def __init__(
        self, num_embeddings: int, embedding_dim: int, padding_idx: int | None = None, max_norm: float | None = None, norm_type: float = 2.0,
        scale_grad_by_freq: bool = False, sparse: bool = False, _weight: Tensor | None = None, _freeze: bool = False, device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        if sparse:
            raise Unsupported("Embedding: sparse gradients are not offered; leave sparse=False")
        self.num_embeddings, self.embedding_dim = num_embeddings, embedding_dim
        if padding_idx is not None:
            if not -num_embeddings <= padding_idx < num_embeddings:
                raise ValueProblem("Padding_idx must be within num_embeddings")
            padding_idx %= num_embeddings
        self.padding_idx, self.max_norm, self.norm_type = padding_idx, max_norm, norm_type
        self.scale_grad_by_freq, self.sparse = scale_grad_by_freq, sparse
        if _weight is not None:
            if list(_weight.dims) != [num_embeddings, embedding_dim]:
                raise ShapeError("Shape of weight does not match num_embeddings and embedding_dim")
            self.weight = Parameter(_weight, requires_grad=not _freeze)
        else:
            self.weight = Parameter(aten.empty((num_embeddings, embedding_dim), dtype=dtype), requires_grad=not _freeze)
            self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the table anew."""
        init.normal_(self.weight)
        if self.padding_idx is not None:
            with no_grad():
                self.weight[self.padding_idx].fill_(0)

    def forward(self, input: Tensor) -> Tensor:
        if self.max_norm is not None:
            self._renormalize(input)
        return F.embedding(input, self.weight, self.padding_idx, None, self.norm_type, self.scale_grad_by_freq, self.sparse)

    def _renormalize(self, input: Tensor) -> None:
        """Scale down the rows that are looked up. A mask says which, so that the number of rows need not be known."""
        with no_grad():
            norms = aten.linalg_vector_norm(self.weight, self.norm_type, 1, True)
            rows = aten.arange(self.num_embeddings)
            used = aten.any(aten.eq(aten.reshape(input, (1, -1)), aten.reshape(rows, (-1, 1))), 1, True)
            scale = aten.where(aten.logical_and(used, norms > self.max_norm), self.max_norm / (norms + 1e-7), 1.0)
            self.weight.mul_(scale.to(self.weight.dtype))

    @classmethod
    def from_pretrained(
        cls, embeddings: Tensor, freeze: bool = True, padding_idx: int | None = None, max_norm: float | None = None, norm_type: float = 2.0,
        scale_grad_by_freq: bool = False, sparse: bool = False,
    ) -> Embedding:
        """An Embedding whose table is a given tensor [n, d]."""
        if embeddings.ndim != 2:
            raise ShapeError("Embeddings parameter is expected to be 2-dimensional")
        rows, columns = (int(d) for d in embeddings.shape)
        return cls(rows, columns, padding_idx, max_norm, norm_type, scale_grad_by_freq, sparse, _weight=embeddings, _freeze=freeze)

    def extra_repr(self) -> str:
        text = f"{self.num_embeddings}, {self.embedding_dim}"
        if self.padding_idx is not None:
            text += f", padding_idx={self.padding_idx}"
        if self.max_norm is not None:
            text += f", max_norm={self.max_norm}"
        if self.norm_type != 2:
            text += f", norm_type={self.norm_type}"
        return text if not self.scale_grad_by_freq else f"{text}, scale_grad_by_freq=True"

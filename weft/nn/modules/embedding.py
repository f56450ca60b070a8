"""Embedding: rows of a table, and EmbeddingBag: bags of them reduced."""

from __future__ import annotations

from typing import Any

import weft.nn.functional as F
import weft.nn.init as init
from weft.nn.modules.module import Module
from weft.nn.parameter import Parameter, empty
from weft.support.errors import ShapeError, ValueProblem
from weft.tensor.modes import no_grad
from weft.tensor.tensor import Tensor


class Embedding(Module):
    """weight[input]. weight: [num_embeddings, embedding_dim], standard normal at first;
    the row padding_idx is zero and gets no gradient.

    max_norm: rows that are looked up and whose norm is greater are first scaled down to it, in place.
    """

    def __init__(
        self, num_embeddings: int, embedding_dim: int, padding_idx: int | None = None, max_norm: float | None = None,
        norm_type: float = 2.0, scale_grad_by_freq: bool = False, sparse: bool = False, _weight: Tensor | None = None,
        _freeze: bool = False, device: Any = None, dtype: Any = None,
    ) -> None:
        super().__init__()
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
            self.weight = Parameter(
                empty((num_embeddings, embedding_dim), dtype=dtype, device=device), requires_grad=not _freeze
            )
            self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the table anew."""
        _draw_table(self.weight, self.padding_idx)

    def forward(self, input: Tensor) -> Tensor:
        return F.embedding(
            input, self.weight, self.padding_idx, self.max_norm, self.norm_type, self.scale_grad_by_freq, self.sparse
        )

    @classmethod
    def from_pretrained(
        cls, embeddings: Tensor, freeze: bool = True, padding_idx: int | None = None, max_norm: float | None = None,
        norm_type: float = 2.0, scale_grad_by_freq: bool = False, sparse: bool = False,
    ) -> Embedding:
        """An Embedding whose table is a given tensor [n, d]."""
        if embeddings.ndim != 2:
            raise ShapeError("Embeddings parameter is expected to be 2-dimensional")
        rows, columns = (int(d) for d in embeddings.shape)
        return cls(
            rows, columns, padding_idx, max_norm, norm_type, scale_grad_by_freq, sparse, _weight=embeddings,
            _freeze=freeze,
        )

    def extra_repr(self) -> str:
        text = f"{self.num_embeddings}, {self.embedding_dim}"
        if self.padding_idx is not None:
            text += f", padding_idx={self.padding_idx}"
        if self.max_norm is not None:
            text += f", max_norm={self.max_norm}"
        if self.norm_type != 2:
            text += f", norm_type={self.norm_type}"
        return text if not self.scale_grad_by_freq else f"{text}, scale_grad_by_freq=True"


class EmbeddingBag(Module):
    """The sum, mean or max of the rows of weight in each bag, without the rows themselves.
    weight: [num_embeddings, embedding_dim].

    input [b, k]: a bag in each row; input [m] with offsets [b]: bags from one offset to the next.
    The row padding_idx does not count.
    """

    def __init__(
        self, num_embeddings: int, embedding_dim: int, max_norm: float | None = None, norm_type: float = 2.0,
        scale_grad_by_freq: bool = False, mode: str = "mean", sparse: bool = False, _weight: Tensor | None = None,
        include_last_offset: bool = False, padding_idx: int | None = None, device: Any = None, dtype: Any = None,
    ) -> None:
        super().__init__()
        self.num_embeddings, self.embedding_dim = num_embeddings, embedding_dim
        if padding_idx is not None:
            if not -num_embeddings <= padding_idx < num_embeddings:
                raise ValueProblem("padding_idx must be within num_embeddings")
            padding_idx %= num_embeddings
        self.max_norm, self.norm_type, self.padding_idx = max_norm, norm_type, padding_idx
        self.scale_grad_by_freq, self.sparse, self.mode, self.include_last_offset = (
            scale_grad_by_freq, sparse, mode, include_last_offset
        )
        if _weight is not None:
            if list(_weight.dims) != [num_embeddings, embedding_dim]:
                raise ShapeError("Shape of weight does not match num_embeddings and embedding_dim")
            self.weight = Parameter(_weight)
        else:
            self.weight = Parameter(empty((num_embeddings, embedding_dim), dtype=dtype, device=device))
            self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the table anew."""
        _draw_table(self.weight, self.padding_idx)

    def forward(self, input: Tensor, offsets: Tensor | None = None, per_sample_weights: Tensor | None = None) -> Tensor:
        return F.embedding_bag(
            input, self.weight, offsets, self.max_norm, self.norm_type, self.scale_grad_by_freq, self.mode, self.sparse,
            per_sample_weights, self.include_last_offset, self.padding_idx)

    @classmethod
    def from_pretrained(
        cls, embeddings: Tensor, freeze: bool = True, max_norm: float | None = None, norm_type: float = 2.0,
        scale_grad_by_freq: bool = False, mode: str = "mean", sparse: bool = False, include_last_offset: bool = False,
        padding_idx: int | None = None,
    ) -> EmbeddingBag:
        """An EmbeddingBag whose table is a given tensor [n, d]."""
        if embeddings.ndim != 2:
            raise ShapeError("Embeddings parameter is expected to be 2-dimensional")
        rows, columns = (int(d) for d in embeddings.shape)
        bag = cls(
            rows, columns, max_norm, norm_type, scale_grad_by_freq, mode, sparse,
            embeddings, include_last_offset, padding_idx,
        )
        bag.weight.requires_grad = not freeze
        return bag

    def extra_repr(self) -> str:
        text = f"{self.num_embeddings}, {self.embedding_dim}"
        if self.max_norm is not None:
            text += f", max_norm={self.max_norm}"
        if self.norm_type != 2:
            text += f", norm_type={self.norm_type}"
        if self.scale_grad_by_freq:
            text += ", scale_grad_by_freq=True"
        text += f", mode={self.mode!r}"
        return text if self.padding_idx is None else f"{text}, padding_idx={self.padding_idx}"


def _draw_table(weight: Tensor, padding_idx: int | None) -> None:
    init.normal_(weight)
    if padding_idx is not None:
        with no_grad():
            weight[padding_idx].fill_(0)

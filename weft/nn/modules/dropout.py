"""Dropout."""

from __future__ import annotations

from weft.nn import functional as F
from weft.nn.modules.module import Module
from weft.tensor.tensor import Tensor


class Dropout(Module):
    """In training, sets elements to zero with probability p and scales the others by 1 / (1 - p)."""

    def __init__(self, p: float = 0.5, inplace: bool = False) -> None:
        super().__init__()
        if not 0 <= p <= 1:
            raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")
        self.p, self.inplace = p, inplace

    def forward(self, input: Tensor) -> Tensor:
        return F.dropout(input, self.p, self.training, self.inplace)

    def extra_repr(self) -> str:
        return f"p={self.p}, inplace={self.inplace}"

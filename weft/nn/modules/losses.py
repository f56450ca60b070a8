"""Losses as modules."""

from __future__ import annotations

from weft.nn import functional as F
from weft.nn.modules.module import Module
from weft.tensor.tensor import Tensor


class CrossEntropyLoss(Module):
    """Cross entropy of logits against class indices or probabilities."""

    def __init__(
        self, weight: Tensor | None = None, size_average: None = None, ignore_index: int = -100, reduce: None = None, reduction: str = "mean",
        label_smoothing: float = 0.0,
    ) -> None:
        super().__init__()
        self.register_buffer("weight", weight)
        self.ignore_index, self.reduction, self.label_smoothing = ignore_index, reduction, label_smoothing

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.cross_entropy(
            input, target, weight=self.weight, ignore_index=self.ignore_index, reduction=self.reduction, label_smoothing=self.label_smoothing
        )


class MSELoss(Module):
    """Mean (or sum) of squared differences."""

    def __init__(self, size_average: None = None, reduce: None = None, reduction: str = "mean") -> None:
        super().__init__()
        self.reduction = reduction

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.mse_loss(input, target, reduction=self.reduction)

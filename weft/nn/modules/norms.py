"""LayerNorm."""

from __future__ import annotations

from typing import Any

from weft.nn import functional as F
from weft.nn.modules.module import Module
from weft.nn.parameter import Parameter
from weft.ops.packet import aten
from weft.tensor.tensor import Tensor


class LayerNorm(Module):
    """Normalises over the last dims: (x - mean) / sqrt(var + eps) * weight + bias."""

    def __init__(
        self, normalized_shape: Any, eps: float = 1e-5, elementwise_affine: bool = True, bias: bool = True, device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__()
        self.normalized_shape = (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)
        self.eps, self.elementwise_affine = eps, elementwise_affine
        self.register_parameter("weight", Parameter(aten.ones(self.normalized_shape, dtype=dtype)) if elementwise_affine else None)
        self.register_parameter("bias", Parameter(aten.zeros(self.normalized_shape, dtype=dtype)) if elementwise_affine and bias else None)

    def forward(self, input: Tensor) -> Tensor:
        return F.layer_norm(input, self.normalized_shape, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        return f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}"

"""Where a model that could be quantized would begin and end: modules that pass their input on."""

from __future__ import annotations

from typing import Any

from weft.nn.modules.module import Module
from weft.support.absent import refuse
from weft.tensor.tensor import Tensor

__all__ = ["DeQuantStub", "QuantStub", "QuantWrapper"]


class QuantStub(Module):
    """The input, as PyTorch's gives it before a model is converted. qconfig: what PyTorch would convert by."""

    def __init__(self, qconfig: Any = None) -> None:
        super().__init__()
        if qconfig:
            self.qconfig = qconfig

    def forward(self, x: Tensor) -> Tensor:
        return x


class DeQuantStub(QuantStub):
    """The input, idem."""


class QuantWrapper(Module):
    """A module between the two."""

    def __init__(self, module: Module) -> None:
        super().__init__()
        self.quant, self.dequant = QuantStub(getattr(module, "qconfig", None)), DeQuantStub()
        self.module = module
        self.train(module.training)

    def forward(self, X: Tensor) -> Tensor:
        return self.dequant(self.module(self.quant(X)))  # type: ignore[no-any-return]


def __getattr__(name: str) -> Any:
    refuse("module 'weft.ao.quantization'", name)

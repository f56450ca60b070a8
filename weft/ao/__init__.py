"""weft.ao: PyTorch's folder of quantization. weft has no quantized tensors; the marks that models put into themselves
are there."""

from weft.ao import quantization

__all__ = ["quantization"]

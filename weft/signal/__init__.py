"""PyTorch's torch.signal: windows of signals."""

from weft.signal import windows

__all__ = ["windows"]

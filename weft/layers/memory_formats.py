"""Memory formats as the user asks for them: the tensor whose elements lie in that order."""

from __future__ import annotations

from typing import Any

from weft.ops.layout import order_of_format
from weft.ops.packet import aten
from weft.tensor.modes import modes
from weft.tensor.tensor import Tensor
from weft.tensor.views import forget_base


def in_format(tensor: Tensor, memory_format: Any) -> Tensor:
    """The tensor, or a copy whose elements lie as the memory format says: "contiguous_format", "channels_last",
    "channels_last_3d", None or "preserve_format"."""
    if memory_format in (None, "preserve_format") or tensor.is_contiguous(memory_format):
        if modes.capture is not None:
            modes.capture.outside.note_asked(tensor)
        return tensor
    if memory_format == "contiguous_format":
        return aten._contiguous_copy(tensor)
    order = order_of_format(memory_format, tensor.ndim)
    back = tuple(order.index(i) for i in range(tensor.ndim))
    return forget_base(aten.permute(aten._contiguous_copy(aten.permute(tensor, order)), back))

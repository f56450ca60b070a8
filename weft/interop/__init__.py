"""Interop: files (weft's own, safetensors, PyTorch's) and memory that other libraries share (DLPack).

`weft.save`, `weft.load` and `weft.from_dlpack` are found here; `weft.interop.safetensors` has
that library's function names.
"""

from __future__ import annotations

from weft.interop.dlpack import from_dlpack
from weft.interop.files import load, save

__all__ = ["from_dlpack", "load", "save"]

"""The names that programs for PyTorch take from its `types` module to annotate arguments. They stand in `weft.types`,
beside weft's own modules there."""

from __future__ import annotations

import builtins
import os
from collections.abc import Sequence
from typing import IO, Any

from weft.runtime.storage import Storage  # noqa: F401
from weft.tensor.device import Device as _device
from weft.tensor.size import Size
from weft.tensor.tensor import Tensor
from weft.types import formats as _formats
from weft.types.dtype import DType as _dtype  # noqa: F401

_int, _float, _bool, _complex, _str, _bytes = (
    builtins.int, builtins.float, builtins.bool, builtins.complex, builtins.str, builtins.bytes
)
_layout = _formats.layout
_size = Size | list[int] | tuple[int, ...]
_ratio = float | tuple[float, ...]
_symsize = _size  # where sizes are symbols, they pass for ints
_TensorOrTensors = Tensor | Sequence[Tensor]
_Number = (int, float, bool)  # for isinstance

Number = int | float | bool
Device = _device | str | int | None
FileLike = str | os.PathLike[str] | IO[bytes]
IntLikeType, FloatLikeType, BoolLikeType = int, float, bool

NAMES: dict[str, Any] = {name: value for name, value in list(globals().items()) if name in {
    "BoolLikeType", "Device", "FileLike", "FloatLikeType", "IntLikeType", "Number", "Size", "Storage", "Tensor",
    "_Number", "_TensorOrTensors", "_bool", "_bytes", "_complex", "_device", "_dtype", "_float", "_int", "_layout",
    "_size", "_str", "_symsize",
}}

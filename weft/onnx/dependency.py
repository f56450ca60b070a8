"""The package onnx, which weft needs for files of models only: the extra `weft[onnx]`."""

from __future__ import annotations

from typing import Any

try:
    import onnx as onnx
    from onnx import defs as _defs
    from onnx import helper as helper
    from onnx import numpy_helper as numpy_helper
    from onnx import shape_inference as shape_inference

    defs: Any = _defs  # its stubs lack the functions of schemas
except ImportError as problem:
    raise ImportError(
        f"weft.onnx reads and writes files with the package onnx, which is not installed ({problem}); "
        "pip install 'weft[onnx]'"
    ) from None

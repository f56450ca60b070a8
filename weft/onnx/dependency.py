"""The package onnx, which weft needs for files of models only: the extra `weft[onnx]`."""

from __future__ import annotations

try:
    import onnx as onnx
    from onnx import defs as defs
    from onnx import helper as helper
    from onnx import numpy_helper as numpy_helper
except ImportError as problem:
    raise ImportError(
        f"weft.onnx reads and writes files with the package onnx, which is not installed ({problem}); "
        "pip install 'weft[onnx]'"
    ) from None

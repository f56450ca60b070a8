"""ONNX's element types and weft's dtypes."""

from __future__ import annotations

from weft.onnx.dependency import onnx
from weft.support.errors import Unsupported
from weft.types import dtype as dt
from weft.types.dtype import DType

_ELEMENTS = {
    "BOOL": dt.bool_, "UINT8": dt.uint8, "INT8": dt.int8, "INT16": dt.int16, "INT32": dt.int32, "INT64": dt.int64,
    "FLOAT16": dt.float16, "BFLOAT16": dt.bfloat16, "FLOAT": dt.float32, "DOUBLE": dt.float64,
    "COMPLEX64": dt.complex64, "COMPLEX128": dt.complex128,
}
_FROM_ELEMENT = {getattr(onnx.TensorProto, name): dtype for name, dtype in _ELEMENTS.items()}
_TO_ELEMENT = {dtype: element for element, dtype in _FROM_ELEMENT.items()}


def dtype_of(element: int) -> DType:
    """weft's dtype of an element type. Raises Unsupported for one that weft has no like of."""
    dtype = _FROM_ELEMENT.get(element)
    if dtype is None:
        names = onnx.TensorProto.DataType
        name = names.Name(element) if element in names.values() else str(element)
        raise Unsupported(f"onnx: weft has no dtype for elements of type {name}; it has {', '.join(_ELEMENTS)}")
    return dtype


def element_of(dtype: DType) -> int:
    """ONNX's element type of a dtype."""
    return int(_TO_ELEMENT[dtype])

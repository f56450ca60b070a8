"""Operators of the domain ai.onnx.ml that work on numbers."""

from __future__ import annotations

from typing import Any

import numpy as np

import weft
from weft.onnx.dependency import numpy_helper
from weft.onnx.registry import LEARNING, operator
from weft.support.errors import Unsupported
from weft.tensor.tensor import Tensor


@operator("ArrayFeatureExtractor", LEARNING)
def array_feature_extractor(x: Tensor, places: Tensor) -> Tensor:
    return weft.index_select(x, x.ndim - 1, places.reshape(-1))


@operator("Binarizer", LEARNING)
def binarizer(x: Tensor, *, threshold: float = 0.0) -> Tensor:
    return (x > threshold).to(x.dtype)


@operator("Scaler", LEARNING)
def scaler(x: Tensor, *, offset: list[float] | None = None, scale: list[float] | None = None) -> Tensor:
    x = x.to(weft.float32)
    x = x if offset is None else x - weft.tensor(offset)
    return x if scale is None else x * weft.tensor(scale)


@operator("LabelEncoder", LEARNING)
def label_encoder(
    x: Tensor, *, keys_tensor: Any = None, values_tensor: Any = None, default_tensor: Any = None,
    keys_int64s: list[int] | None = None, values_int64s: list[int] | None = None,
    keys_floats: list[float] | None = None, values_floats: list[float] | None = None, default_int64: int = -1,
    default_float: float = -0.0, keys_strings: Any = None, values_strings: Any = None, default_string: Any = None,
) -> Tensor:
    keys = _table(keys_tensor, keys_int64s, keys_floats)
    values = _table(values_tensor, values_int64s, values_floats)
    if keys is None or values is None:
        raise Unsupported("onnx: LabelEncoder of texts: weft has no tensors of texts")
    default: Any = default_float if values.dtype.kind == "f" else default_int64
    if default_tensor is not None:
        default = numpy_helper.to_array(default_tensor).reshape(-1)[0].item()
    labels = weft.full(x.shape, default, dtype=weft.from_numpy(values[:1]).dtype)
    for key, value in zip(keys.tolist(), values.tolist(), strict=True):
        same = weft.isnan(x) if key != key else x == key
        labels = weft.where(same, weft.full((), value, dtype=labels.dtype), labels)
    return labels


def _table(stored: Any, whole: list[int] | None, floating: list[float] | None) -> np.ndarray[Any, Any] | None:
    if stored is not None:
        array = numpy_helper.to_array(stored)
        return None if array.dtype.kind in "OUS" else array
    if whole is not None:
        return np.array(whole, np.int64)
    return None if floating is None else np.array(floating, np.float32)

"""What flows between ONNX's nodes: tensors, and numbers that are known without running anything.

Shape, Size and constants give numbers; what is computed from them (Gather, Concat, Mul, ...) stays a number, so that
Reshape or Slice find ints, which are symbols while a program is captured.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import weft
from weft.record.blocks.front_ends import integers
from weft.support.errors import Unsupported
from weft.tensor.tensor import Tensor
from weft.types import dtype as dt
from weft.types.dtype import DType

SMALL = 1024  # elements that are worth keeping on the host


class Known:
    """An array of numbers that the host knows. Its elements may be sizes (dtype object in NumPy).

    folds: whether an operator on it may be computed on the host. A weight is known, and does not fold: who trains it
    changes it.
    """

    __slots__ = ("_tensor", "array", "dtype", "folds")

    def __init__(self, array: Any, dtype: DType, tensor: Tensor | None = None, folds: bool = True) -> None:
        self.array, self.dtype, self._tensor = array_of(array), dtype, tensor
        self.folds = folds and self.array.size <= SMALL

    def tensor(self) -> Tensor:
        """The same numbers as a tensor."""
        if self._tensor is not None:
            return self._tensor
        if self.array.dtype != object:
            return weft.from_numpy(self.array.astype(self.dtype.numpy))
        if self.array.size == 0:
            return weft.zeros(self.array.shape, dtype=self.dtype)
        parts = [weft.tensor(n, dtype=self.dtype) for n in self.array.reshape(-1)]
        return weft.stack(parts).reshape(self.array.shape)


def array_of(value: Any) -> np.ndarray[Any, Any]:
    """A NumPy array. A size that is a symbol stays one: it passes for an int, and NumPy would ask for its value."""
    if isinstance(value, (np.ndarray, np.generic)) or type(value) in (int, float, bool, complex):
        return np.asarray(value)
    return objects([value]).reshape(())


def objects(values: Sequence[Any]) -> np.ndarray[Any, Any]:
    """The values as they are in an array of one dim: assigned one by one, since NumPy would make arrays of them."""
    array = np.empty(len(values), object)
    for i, value in enumerate(values):
        array[i] = value
    return array


Host = Any  # the annotation of an input that a rule takes as it is, Known or a tensor, and reads as numbers
Either = Any  # and of one that it takes as it is, and hands on


def constant(array: Any) -> Known:
    """A NumPy array as a value. Raises ForeignDType for elements that weft has no dtype of."""
    elements = array_of(array)
    return Known(elements, dt.from_numpy(elements.dtype))


def as_tensor(value: Any) -> Any:
    """Tensors for numbers that are known, also within sequences; what is anything else stays."""
    if isinstance(value, Known):
        return value.tensor()
    return [as_tensor(v) for v in value] if isinstance(value, list) else value


def numbers(value: Host, what: str) -> list[Any]:
    """The elements as Python's numbers (sizes stay symbols). A tensor is read; under capture its integers are numbers
    of the program, and others are refused."""
    if isinstance(value, Tensor):
        unknown = integers(value)
        if unknown is not None:
            return list(unknown)
        listed = value.reshape(-1).tolist()
        return list(listed) if isinstance(listed, Sequence) else [listed]
    if not isinstance(value, Known):
        raise Unsupported(f"onnx: {what} should be a tensor of numbers, is {type(value).__name__}")
    flat = value.array.reshape(-1)
    return list(flat) if flat.dtype == object else list(flat.tolist())


def number(value: Host, what: str) -> Any:
    """The only element."""
    elements = numbers(value, what)
    if len(elements) != 1:
        raise Unsupported(f"onnx: {what} should be one number, has {len(elements)}")
    return elements[0]


def dtype_of_value(value: Any) -> DType:
    """The dtype of a tensor, of numbers, or of a sequence's elements."""
    if isinstance(value, list):
        return dtype_of_value(value[0]) if value else dt.float32
    return value.dtype  # type: ignore[no-any-return]


def sizes(shape: Sequence[Any]) -> Known:
    """Sizes as a value of int64."""
    if all(type(n) is int for n in shape):
        return Known(np.array(shape, np.int64), dt.int64)
    return Known(objects(shape), dt.int64)

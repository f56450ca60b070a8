"""Values of a user's operator on their way: bound arguments, arrays and tensors, and their types."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from weft.ops.schema import Argument
from weft.tensor.backend import tensors_in
from weft.tensor.device import Device
from weft.tensor.tensor import Tensor, tensor_around
from weft.types.tensor_type import TensorType


def as_given(argument: Argument, value: Any) -> Any:
    """A bound argument as an implementation gets it: lists are lists, devices devices."""
    if type(value) is tuple:
        return list(value)
    return Device(value) if argument.kind == "Device" and value is not None else value


def types_in(values: Iterable[Any]) -> list[TensorType]:
    """The types of tensors among values, those in lists included."""
    types: list[TensorType] = []
    for v in values:
        if isinstance(v, TensorType):
            types.append(v)
        elif isinstance(v, (tuple, list)):
            types.extend(types_in(v))
    return types


def types_of(value: Any) -> Any:
    """A value with types in place of tensors."""
    if isinstance(value, Tensor):
        return value.type_
    return tuple([types_of(v) for v in value]) if isinstance(value, (tuple, list)) else value


def as_tensors(value: Any, copies: bool) -> Any:
    """A value of a program with tensors in place of arrays."""
    if isinstance(value, np.ndarray):
        return tensor_around(value.copy() if copies or not value.flags.aligned else value)
    return tuple([as_tensors(v, copies) for v in value]) if isinstance(value, (tuple, list)) else value


def as_arrays(value: Any) -> Any:
    """A result as a program takes it."""
    if isinstance(value, Tensor):
        return np.ascontiguousarray(value._data).reshape(value._data.shape)
    return tuple([as_arrays(v) for v in value]) if isinstance(value, (tuple, list)) else value


def pairs(target: Any, value: Any) -> list[tuple[Any, Any]]:
    """Tensors that are written, with their new values."""
    if target is None:
        return []
    return list(zip(target, value, strict=True)) if isinstance(target, (tuple, list)) else [(target, value)]


def joined(results: Sequence[Any]) -> Any:
    """One result as it is, several as a tuple, none as None."""
    return tuple(results) if len(results) > 1 else results[0] if results else None


def separated(joint: Any) -> list[Any]:
    """The inverse of `joined`."""
    return list(joint) if isinstance(joint, tuple) else [] if joint is None else [joint]


def device_of(args: Iterable[Any]) -> str:
    """The type of the device that an operator's tensors are on."""
    tensors = tensors_in(args)
    return tensors[0].device.type if tensors else "cpu"


def fits(promised: Sequence[Any], sizes: Sequence[Any]) -> bool:
    """Whether sizes are as promised; one that was not known before may be any."""
    return len(promised) == len(sizes) and all(
        not isinstance(p, int) or p == n for p, n in zip(promised, sizes, strict=True)
    )

"""Sequences (lists of tensors) and optional values (None, or a value)."""

from __future__ import annotations

from typing import Any

import numpy as np

import weft
from weft.onnx.registry import operator
from weft.onnx.values import Either, Host, Known, as_tensor, number, numbers
from weft.support.errors import Unsupported
from weft.tensor.tensor import Tensor
from weft.types import dtype as dt


def _truth(value: bool) -> Known:
    return Known(np.array(value), dt.bool_)


@operator("SequenceConstruct")
def sequence_construct(*inputs: Tensor) -> Any:
    return ([*inputs],)


@operator("SequenceEmpty")
def sequence_empty(*, dtype: int = 1) -> Any:
    return ([],)


@operator("SequenceInsert")
def sequence_insert(sequence: Any, tensor: Tensor, position: Host = None) -> Any:
    at = len(sequence) if position is None else number(position, "position")
    at = at + len(sequence) if at < 0 else at
    return ([*sequence[:at], tensor, *sequence[at:]],)


@operator("SequenceErase")
def sequence_erase(sequence: Any, position: Host = None) -> Any:
    at = len(sequence) - 1 if position is None else number(position, "position") % len(sequence)
    return ([*sequence[:at], *sequence[at + 1 :]],)


@operator("SequenceAt")
def sequence_at(sequence: Any, position: Host) -> Any:
    at = number(position, "position")
    if not -len(sequence) <= at < len(sequence):
        raise Unsupported(f"onnx: SequenceAt: position {at} in a sequence of {len(sequence)}")
    return sequence[at]


@operator("SequenceLength")
def sequence_length(sequence: Any) -> Known:
    return Known(np.array(len(sequence)), dt.int64)


@operator("SplitToSequence")
def split_to_sequence(x: Tensor, split: Host = None, *, axis: int = 0, keepdims: int = 1) -> Any:
    if split is None:
        parts = list(weft.split(x, 1, axis))
        return ([p.squeeze(axis) for p in parts] if not keepdims else parts,)
    asked = numbers(split, "split")
    width: Any = asked if len(split.array.shape if isinstance(split, Known) else split.shape) else int(asked[0])
    return (list(weft.split(x, width, axis)),)


@operator("ConcatFromSequence")
def concat_from_sequence(sequence: Any, *, axis: int, new_axis: int = 0) -> Tensor:
    return weft.stack(sequence, axis) if new_axis else weft.cat(sequence, axis)


@operator("Optional")
def optional(value: Either = None, *, type: Any = None) -> Any:
    return (as_tensor(value),)


@operator("OptionalHasElement")
def optional_has_element(value: Either = None) -> Known:
    return _truth(value is not None)


@operator("OptionalGetElement")
def optional_get_element(value: Either) -> Any:
    if value is None:
        raise Unsupported("onnx: OptionalGetElement of an optional that is empty")
    return (value,)

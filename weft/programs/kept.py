"""What a program keeps for its backward, and the arrays that it takes and gives."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from weft.autograd.saved import SavedTensor, are_at_run_time, default_hooks
from weft.tensor.dense import is_dense
from weft.tensor.tensor import Tensor, tensor_around

ndarray = np.ndarray


def save(array: Any, shown: Any, is_output: bool = False) -> Any:
    """A value that a program saves: its array, and for one that others have too (`shown`) what tells whether it was
    written since. Where hooks on saved tensors are in force they get it."""
    if not isinstance(array, ndarray):
        return array
    if default_hooks.stack and are_at_run_time(default_hooks.stack[-1]):
        kept = tensor_around(array)
        kept.storage()  # what was packed is not kept besides
        return SavedTensor(kept), None
    return (SavedTensor(shown, is_output), array) if isinstance(shown, Tensor) else array


def is_hooked(saved: Any) -> bool:
    """Whether a hook on saved tensors has a value that was saved."""
    return type(saved) is tuple and saved[1] is None


def packed_of(saved: Any) -> SavedTensor | None:
    """What tells whether a saved value was written since; None for one that nobody else has."""
    return saved[0] if type(saved) is tuple else None


def has_bytes(value: Any) -> bool:
    """Whether a program can take a value: a number, or a tensor with bytes."""
    return not isinstance(value, Tensor) or is_dense(value)


def array_of(value: Any) -> Any:
    """A tensor's bytes in row-major order; numbers as they are."""
    if not isinstance(value, Tensor):
        return value
    return np.asarray(value._data, order="C")  # (ascontiguousarray makes a vector of a number)


def without_aliases(results: Sequence[Any], inputs: Sequence[Any]) -> list[Any]:
    """Results that are memory of an input or of an earlier result are copied: their readers may keep them."""
    taken = {id(x) for x in inputs}
    out = []
    for r in results:
        if isinstance(r, ndarray):
            r = r.copy() if id(r) in taken else r
            taken.add(id(r))
        out.append(r)
    return out

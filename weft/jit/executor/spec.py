"""What a plan is for: the arguments without their sizes and values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from weft.tensor.dense import is_dense
from weft.tensor.modes import modes
from weft.tensor.tensor import Tensor

Spec = tuple[Any, ...]


def spec_of(args: Sequence[Any]) -> Spec | None:
    """The key of a plan for these arguments; None where no plan serves them: tensors without bytes, and those of
    subclasses."""
    grad = bool(modes.grad)
    parts: list[Any] = [grad]
    for value in args:
        key = _key(value, grad)
        if key is _NONE:
            return None
        parts.append(key)
    return tuple(parts)


_NONE = object()
_PLAIN = {int, float, bool, str}


def _key(value: Any, grad: bool) -> Any:
    if isinstance(value, Tensor):
        if not is_dense(value) or (type(value) is not Tensor and not value._is_param):
            return _NONE  # without bytes, or of a class with a will of its own
        data = value._data
        return data.dtype, data.ndim, grad and value.requires_grad
    if type(value) is list and len(kinds := set(map(type, value))) == 1 and kinds <= _PLAIN:
        return list, kinds.pop()
    if isinstance(value, (list, tuple)):
        keys = [_key(v, grad) for v in value]
        if any(k is _NONE for k in keys):
            return _NONE
        return (list, keys[0] if keys else None) if isinstance(value, list) and len(set(keys)) < 2 else tuple(keys)
    return type(value)


def wants_gradients(spec: Spec) -> bool:
    """Whether any tensor requires grad."""
    return any(_wants(key) for key in spec[1:])


def _wants(key: Any) -> bool:
    if isinstance(key, tuple):
        return (len(key) == 3 and key[2] is True) or any(map(_wants, key))
    return False


def has_tensors(spec: Spec) -> bool:
    """Whether there is any tensor."""
    return any(isinstance(key, tuple) and str(key) != "()" and _is_tensor(key) for key in spec[1:])


def _is_tensor(key: Any) -> bool:
    if not isinstance(key, tuple):
        return False
    return (len(key) == 3 and isinstance(key[0], np.dtype)) or any(map(_is_tensor, key))

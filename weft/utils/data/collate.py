"""How samples become a batch: tensors are stacked, numbers become tensors, containers are joined field by field."""

from __future__ import annotations

import copy
from collections.abc import Mapping, MutableMapping, Sequence
from typing import Any

import numpy as np

from weft.ops.packet import aten
from weft.support.errors import ArgumentError, StateError
from weft.tensor.creation import from_numpy, tensor
from weft.tensor.tensor import Tensor
from weft.types import dtype as dt


def default_collate(batch: Sequence[Any]) -> Any:
    """A batch of samples of one kind. Raises ArgumentError for kinds that cannot be joined."""
    first = batch[0]
    if isinstance(first, Tensor):
        return aten.stack(tuple(batch), 0)
    if isinstance(first, np.ndarray):
        return from_numpy(np.stack(batch))
    if isinstance(first, np.generic):
        return from_numpy(np.array(batch))
    if isinstance(first, (bool, int)):
        return tensor(list(batch))
    if isinstance(first, float):
        return tensor(list(batch), dtype=dt.float64)
    if isinstance(first, (str, bytes)):
        return batch
    if isinstance(first, Mapping):
        return _of_kind(first, {key: default_collate([sample[key] for sample in batch]) for key in first})
    if isinstance(first, tuple) and hasattr(first, "_fields"):
        return type(first)(*(default_collate(field) for field in zip(*batch, strict=True)))
    if isinstance(first, Sequence):
        if any(len(sample) != len(first) for sample in batch):
            raise StateError("each element in list of batch should be of equal size")
        return [default_collate(field) for field in zip(*batch, strict=True)]
    raise ArgumentError(
        f"default_collate: batch must contain tensors, numpy arrays, numbers, dicts or lists; found {type(first)}"
    )


def _of_kind(first: Mapping[Any, Any], fields: dict[Any, Any]) -> Any:
    """The fields in a mapping like the first sample, where that can be made; else in a dict."""
    if type(first) is dict:
        return fields
    try:
        if not isinstance(first, MutableMapping):
            return type(first)(fields)  # type: ignore[call-arg]
        mapping = copy.copy(first)
        mapping.update(fields)
    except TypeError:  # its constructor or update takes something else
        return fields
    return mapping


def default_convert(data: Any) -> Any:
    """A single sample with its arrays as tensors."""
    if isinstance(data, np.ndarray):
        return from_numpy(data)
    if isinstance(data, np.generic):
        return from_numpy(np.array(data))
    if isinstance(data, Mapping):
        return _of_kind(data, {key: default_convert(value) for key, value in data.items()})
    if isinstance(data, tuple) and hasattr(data, "_fields"):
        return type(data)(*(default_convert(d) for d in data))
    if isinstance(data, (list, tuple)):
        return [default_convert(d) for d in data]
    return data

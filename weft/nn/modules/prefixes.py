"""Names in state_dicts, and sizes given as one number: what PyTorch keeps in nn.modules.utils."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any


def consume_prefix_in_state_dict_if_present(state_dict: dict[str, Any], prefix: str) -> None:
    """Take a prefix (such as "module.", which wrappers add) off the names that have it, in place, also in the metadata.
    The order stays."""
    for key in list(state_dict):
        state_dict[key.removeprefix(prefix)] = state_dict.pop(key)
    metadata: dict[str, Any] = getattr(state_dict, "_metadata", {})
    for key in list(metadata):
        if key and (key == prefix.rstrip(".") or key.startswith(prefix)):
            metadata[key[len(prefix) :]] = metadata.pop(key)


def _times(value: Any, count: int) -> tuple[Any, ...]:
    return tuple(value) if isinstance(value, Iterable) else (value,) * count


def _single(value: Any) -> tuple[Any, ...]:
    return _times(value, 1)


def _pair(value: Any) -> tuple[Any, ...]:
    return _times(value, 2)


def _triple(value: Any) -> tuple[Any, ...]:
    return _times(value, 3)


def _quadruple(value: Any) -> tuple[Any, ...]:
    return _times(value, 4)

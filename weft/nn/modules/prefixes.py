"""Names in state_dicts, and sizes given as one number: what PyTorch keeps in nn.modules.utils."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from weft.support.errors import ValueProblem


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


def _ntuple(n: int, name: str = "parse") -> Callable[[Any], tuple[Any, ...]]:
    def parse(value: Any) -> tuple[Any, ...]:
        return _times(value, n)

    parse.__name__ = name
    return parse


def _reverse_repeat_tuple(t: Sequence[Any], n: int) -> tuple[Any, ...]:
    return tuple(value for value in reversed(t) for _ in range(n))


def _list_with_default(out_size: Any, defaults: Sequence[int]) -> Any:
    if isinstance(out_size, int):
        return out_size
    if len(defaults) <= len(out_size):
        raise ValueProblem(f"Input dimension should be at least {len(out_size) + 1}")
    return [d if v is None else v for v, d in zip(out_size, defaults[-len(out_size) :], strict=False)]


def _single(value: Any) -> tuple[Any, ...]:
    return _times(value, 1)


def _pair(value: Any) -> tuple[Any, ...]:
    return _times(value, 2)


def _triple(value: Any) -> tuple[Any, ...]:
    return _times(value, 3)


def _quadruple(value: Any) -> tuple[Any, ...]:
    return _times(value, 4)

"""What a captured step depends on besides numbers and the bytes of tensors, as a value that can be compared at every call."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain
from typing import Any

import numpy as np

Facts = list[Any]


def group_facts(param_groups: list[dict[str, Any]]) -> Facts:
    """Identity and order of groups and parameters, options that are no numbers, and the types of those that are."""
    return [(id(group), list(map(id, group["params"])), [(key, _fact(value)) for key, value in group.items() if key != "params"])
            for group in param_groups]


def state_facts(state: Mapping[Any, dict[str, Any]]) -> Facts:
    """Identity of every state and of every tensor in it, in order. Cheap: it is compared at every call of a captured step."""
    return [list(map(id, state.values())), list(map(id, chain.from_iterable(map(dict.values, state.values()))))]


def _fact(value: Any) -> Any:
    kind = type(value)
    if kind is float or kind is int:
        return float
    if kind is bool or kind is str or value is None:
        return value
    if isinstance(value, (int, float, np.number)):
        return float  # an input of the program, whatever its value
    if kind is tuple or kind is list:
        return [_fact(v) for v in value]
    return id(value)

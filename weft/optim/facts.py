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


def group_change(name: str, known: list[dict[str, Any]], now: list[dict[str, Any]]) -> str:
    """How parameter groups differ from those that a captured step knows, in words."""
    if len(known) != len(now):
        return f"the number of parameter groups of {name} was {len(known)}, is now {len(now)}"
    for i, (old, new) in enumerate(zip(known, now, strict=True)):
        if list(map(id, old["params"])) != list(map(id, new["params"])):
            return f"param_groups[{i}]['params'] of {name} were {len(old['params'])} tensors, are now {len(new['params'])} others"
        for key in (*old, *new):
            if key != "params" and (key not in new or key not in old or _fact(old[key]) != _fact(new[key])):
                return f"param_groups[{i}][{key!r}] of {name} was {old.get(key, '(absent)')!r}, is now {new.get(key, '(absent)')!r}"
    return f"the dicts in {name}.param_groups were those of the capture, are now others"


def state_change(name: str, old: Facts, new: Facts, known: list[tuple[dict[str, Any], dict[str, Any]]], state: Mapping[Any, dict[str, Any]]) -> str:
    """How an optimizer's hooks or state differ from those that a captured step knows, in words."""
    for kind, before, after in zip(("global pre-step", "pre-step", "post-step", "global post-step"), old, new, strict=False):
        if before != after:
            return f"the number of {kind} hooks of {name} was {len(before)}, is now {len(after)}{'' if len(before) != len(after) else ' (others)'}"
    if len(known) != len(state):
        return f"the number of parameters that {name} has state of was {len(known)}, is now {len(state)}"
    for (_, before), (p, after) in zip(known, state.items(), strict=True):
        for key in (*before, *after):
            if before.get(key) is not after.get(key):
                return f"{key!r} in the state that {name} has of a parameter of shape {list(p.shape)} was one object, is now another"
    return f"the state of {name} was one dict for each parameter, is now others"

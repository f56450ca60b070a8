"""A size or a lifted number that is the key of a dict is an ordinary number once the call has returned: the dicts of
the user, and those that are returned, held symbols as their keys."""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from collections.abc import Callable
from typing import Any

import pytest

import weft
from tests.symbols_left import symbols_left

Step = Callable[[weft.Tensor, dict[Any, Any], list[int]], Any]


def sets_item(x: weft.Tensor, table: dict[Any, Any], count: list[int]) -> None:
    table[x.shape[0]] = x.sum()


def sets_tuple(x: weft.Tensor, table: dict[Any, Any], count: list[int]) -> None:
    table[x.shape[0], "of"] = x.shape[0]


def updates(x: weft.Tensor, table: dict[Any, Any], count: list[int]) -> None:
    table.update({x.shape[0] + 1: 2, x.shape[0] / 2: 3})


def sets_number(x: weft.Tensor, table: dict[Any, Any], count: list[int]) -> None:
    count[0] += 1
    table[count[0]] = x.mean()


def sets_dict(x: weft.Tensor, table: dict[Any, Any], count: list[int]) -> None:
    table["last"] = {x.shape[0]: x.mean()}


def returns(x: weft.Tensor, table: dict[Any, Any], count: list[int]) -> Any:
    return {x.shape[0]: x.sum(), "inner": [{(x.shape[0], 1): x}]}


def _with_state(step: Step, table: dict[Any, Any], count: list[int]) -> Callable[[weft.Tensor], Any]:
    return lambda x: step(x, table, count)


def keys_of(value: Any) -> list[Any]:
    """The keys of dicts at all depths, each with its type."""
    if isinstance(value, dict):
        return [entry for key, v in value.items() for entry in (_key(key), *keys_of(v))]
    return [entry for v in value for entry in keys_of(v)] if isinstance(value, (list, tuple)) else []


def _key(key: Any) -> Any:
    return tuple(map(_key, key)) if isinstance(key, tuple) else (type(key).__name__, key)


@pytest.mark.parametrize("split", [False, True])
@pytest.mark.parametrize("kind", [OrderedDict, lambda: defaultdict(int)], ids=["ordered", "default"])
@pytest.mark.parametrize("step", [sets_item, sets_tuple, updates, sets_number, sets_dict, returns])
def test_keys_are_numbers(step: Step, kind: Callable[[], dict[Any, Any]], split: bool) -> None:
    seen = []
    for is_compiled in (False, True):
        table, count = kind(), [0]
        call = _with_state(step, table, count)
        run = weft.compile(call, split=split) if is_compiled else call
        results = [run(weft.ones(n)) for n in (3, 4, 3)]
        assert not symbols_left(table, count, results)
        seen.append((keys_of(table), keys_of(results), count))
    assert seen[0] == seen[1]

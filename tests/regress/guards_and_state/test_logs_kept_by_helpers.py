"""A list that a step only adds to has one program, also where a helper adds, or a line that does not name the key; what
helpers read of a container is guarded all the same."""

from __future__ import annotations

import collections
from collections.abc import Callable
from typing import Any, cast

import pytest

import weft
from weft import Tensor


class _Log:
    def __init__(self) -> None:
        self.items: list[Any] = []
        self.groups: dict[str, list[Any]] = collections.defaultdict(list)
        self.numbers = {"a": [1.0, 2.0], "b": [3.0]}
        self.nested = {"a": {"x": [1.0]}}
        self.key, self.hidden = "a", cast(Any, None)
        self.functions: dict[str, Callable[[list[Any]], int]] = {"b": len, "a": _three}

    def add(self, value: Any) -> None:
        self.items.append(value)

    def put(self, key: str, value: Any) -> None:
        self.groups[key].append(value)

    def size(self, held: list[Any]) -> int:
        return len(held)


def _add(held: list[Any], value: Any) -> None:
    held.append(value)


def _add_all(groups: dict[str, list[Any]], **values: Any) -> None:
    for name, value in values.items():
        groups[name].append(value)


def _in_place(log: _Log, x: Tensor) -> None:
    log.items += [x, x.numel()]


def _size(held: list[Any]) -> int:
    return len(held)


def _nested_size(held: list[Any]) -> int:
    return _size(held)


def _first(held: list[float]) -> float:
    return held[0]


def _star(*held: list[Any]) -> int:
    return len(held[0])


def _size_or_none(held: list[Any] | None = None) -> int:
    if held is None:
        held = []
    return len(held)


def _sizes(held: list[Any], times: int = 2) -> int:
    total = 0
    while times:
        total, times, held = total + len(held), times - 1, held[:]
    return total


def _size_deleted(held: list[Any]) -> int:
    other = held
    del held
    return len(other)


def _all_sizes(*several: list[Any], **named: list[Any]) -> int:
    return sum(len(each) for each in (*several, *named.values()))


def _three(held: list[Any]) -> int:
    return 3


def _itself(held: list[Any]) -> list[Any]:
    return held


_WRITES: dict[str, Callable[[_Log, Tensor], Any]] = {
    "function": lambda log, x: _add(log.items, x), "method": lambda log, x: log.add(x),
    "method_by_key": lambda log, x: log.put("a", x), "key": lambda log, x: log.groups["a"].append(x),
    "number": lambda log, x: log.groups["n"].append(x.numel()),
    "all": lambda log, x: _add_all(log.groups, a=x, b=x.numel()),
    "unnamed_key": lambda log, x: log.numbers[log.key].append(x),
    "setdefault": lambda log, x: log.groups.setdefault("c", []).append(x),
    "get": lambda log, x: log.numbers.get("b").append(x),  # type: ignore[union-attr]
    "extend": lambda log, x: log.items.extend([x, x * 2]), "in_place": _in_place,
}  # fmt: skip


@pytest.mark.parametrize("name", _WRITES)
def test_logs_have_one_program(name: str) -> None:
    log, counterpart, write = _Log(), _Log(), _WRITES[name]

    def step(log: _Log, x: Tensor) -> Tensor:
        write(log, x.sum())
        return x * 2

    compiled = weft.compile(lambda x: step(log, x), backend="interpret")
    counts = []
    for i in range(40):
        x = weft.full((3,), float(i))
        before = weft.counters.captures
        compiled(x)
        counts.append(weft.counters.captures - before)
        step(counterpart, x)
    assert sum(counts) <= 2 and not any(counts[2:]), counts  # (the first one adds a key)
    assert _as_numbers(log) == _as_numbers(counterpart)


def test_a_log_beside_state_that_the_step_assigns() -> None:
    log, counts = _Log(), []

    def step(x: Tensor) -> Tensor:
        hidden = weft.zeros(3) if log.hidden is None else log.hidden.detach()
        log.hidden = (hidden + x).tanh()
        log.items.append(log.hidden.sum())
        return log.hidden * 2

    log.hidden = None
    compiled, expected = weft.compile(step, backend="interpret"), weft.zeros(3)
    for i in range(40):
        x, before = weft.full((3,), i / 40), weft.counters.captures
        expected = (expected + x).tanh()
        assert weft.allclose(compiled(x), expected * 2)
        counts.append(weft.counters.captures - before)
    assert sum(counts) <= 2 and len(log.items) == 40


def _as_numbers(log: _Log) -> list[Any]:
    held = [log.items, *log.groups.values(), *log.numbers.values()]
    return [list(log.groups), *([v.tolist() if isinstance(v, Tensor) else v for v in each] for each in held)]


def _size_behind(log: _Log) -> int:
    log.items += [1.0]
    return len(log.items)


_READS: dict[str, tuple[Callable[[_Log], float], Callable[[_Log], Any]]] = {
    "size": (lambda log: _size(log.items), lambda log: log.items.append(1.0)),
    "nested_size": (lambda log: _nested_size(log.items), lambda log: log.items.append(1.0)),
    "grown_and_read": (_size_behind, lambda log: log.items.append(1.0)),
    "of_a_method": (lambda log: log.size(log.items), lambda log: log.items.append(1.0)),
    "star": (lambda log: _star(log.items), lambda log: log.items.append(1.0)),
    "assigned_parameter": (lambda log: _size_or_none(log.items), lambda log: log.items.append(1.0)),
    "assigned_in_a_loop": (lambda log: _sizes(log.items), lambda log: log.items.append(1.0)),
    "deleted_parameter": (lambda log: _size_deleted(log.items), lambda log: log.items.append(1.0)),
    "packed": (lambda log: _all_sizes(log.items, log.items), lambda log: log.items.append(1.0)),
    "packed_by_name": (lambda log: _all_sizes(a=log.items), lambda log: log.items.append(1.0)),
    "one_of_several_functions": (
        lambda log: log.functions["ba"[len(log.key) - 1]](log.items), lambda log: log.items.append(1.0),
    ),
    "returned": (lambda log: len(_itself(log.items)), lambda log: log.items.append(1.0)),
    "first": (lambda log: _first(log.numbers["a"]), lambda log: log.numbers["a"].insert(0, len(log.numbers["a"]))),
    "unnamed": (lambda log: log.numbers[log.key][0], lambda log: log.numbers["a"].insert(0, len(log.numbers["a"]))),
    "unnamed_size": (lambda log: _size(log.numbers[log.key]), lambda log: log.numbers["a"].append(1.0)),
    "key": (lambda log: log.numbers[log.key][0], lambda log: setattr(log, "key", "ab"[log.key == "a"])),
    "get": (lambda log: len(log.numbers.get("a", ())), lambda log: log.numbers["a"].append(1.0)),
    "setdefault": (lambda log: len(log.numbers.setdefault("a", [])), lambda log: log.numbers["a"].append(1.0)),
    "missing": (lambda log: len(log.numbers.get("c", ())), lambda log: log.numbers.update(c=[1.0] * len(log.items))),
    "nested": (lambda log: log.nested[log.key]["x"][0], lambda log: log.nested["a"]["x"].insert(0, 7.5)),
    "sum": (lambda log: sum(log.nested.get(log.key, {})["x"]), lambda log: log.nested["a"]["x"].append(1.5)),
    "comprehension": (lambda log: sum(log.numbers[k][0] for k in "ab"), lambda log: log.numbers["b"].insert(0, 4.5)),
    "replaced": (lambda log: len(log.groups[log.key]), lambda log: log.groups.update(a=[1.0] * (len(log.items) + 2))),
}  # fmt: skip


@pytest.mark.parametrize("name", _READS)
@pytest.mark.parametrize("split", [False, True])
def test_what_helpers_read_is_guarded(name: str, split: bool) -> None:
    log, counterpart, (read, change) = _Log(), _Log(), _READS[name]
    compiled = weft.compile(lambda x: x * read(log), backend="interpret", split=split)
    for _ in range(4):
        assert compiled(weft.ones(2)).tolist() == [read(counterpart)] * 2
        change(log)
        change(counterpart)

"""Counts of what the lazy device did: `weft.lazy.metrics`.

`lazy::<op>` for each call that was traced, `aten::<op>` for each that was computed at once, `UncachedCompile` and
`CachedCompile` for programs that were made and found, `RunCallByCall` for steps that are not worth one (tiers.py),
`MarkStep`, and `SyncedTensorsWithIR` for tensors whose values were asked for before they were there.
"""

from __future__ import annotations

import threading
from collections import Counter, deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

from weft.functionalizer.operators import copy_of
from weft.ops.op import Op
from weft.support import limits
from weft.support.errors import StateError

_CALLS = "lazy::"  # what names of traced calls begin with
_counts: Counter[str] = Counter()
calls: Counter[Op] = Counter()  # by operator: named when somebody asks
rules: Counter[Any] = Counter()  # recorded rules, each of many calls
_causes: deque[str] = deque(maxlen=limits.CAUSES)  # of syncs and compiles, the latest last


class _Refusals(threading.local):
    syncs = 0
    compiles = 0


_refusals = _Refusals()


# ---- counting
def count(name: str, by: int = 1) -> None:
    """So many more of them."""
    _counts[name] += by


def count_call(op: Op) -> None:
    """One more traced call of an operator."""
    calls[op] += 1


def count_rule(rule: Any) -> None:
    """One more time that a recorded rule's calls are traced."""
    rules[rule] += 1
    if len(rules) > limits.COUNTED_RULES:
        totals = _all_calls()
        rules.clear()
        calls.clear()
        calls.update(totals)


def _all_calls() -> Counter[Op]:
    totals = Counter(calls)
    for rule, number in list(rules.items()):
        for op in rule.counted:
            totals[op] += number
    return totals


@cache
def traced_name(op: Op) -> str:
    """What a call of an operator is in a functional program: a view's is its copy's."""
    return copy_of(op).base if op.view is not None else op.base


def synced(cause: str, tensors: int) -> None:
    """Values were asked for. Raises StateError within no_sync()."""
    if _refusals.syncs:
        raise StateError(f"no_sync(): {cause} asks for values that are not computed yet")
    _counts["SyncedTensorsWithIR"] += tensors
    _note(f"sync: {cause}")


def compiling(cause: Callable[[], str]) -> None:
    """A program is made. Raises StateError within no_recompile()."""
    if _refusals.compiles:
        raise StateError(f"no_recompile(): {cause()}")
    _counts["UncachedCompile"] += 1
    _note(f"compile: {cause()}")


def may_wait() -> bool:
    """Whether a step without a program may do without one: not within no_recompile(), which names it."""
    return not _refusals.compiles


def _note(text: str) -> None:
    _causes.append(text)


@contextmanager
def no_sync() -> Iterator[None]:
    """Within the block, a read of a value that is not computed yet raises StateError, with the line that reads it."""
    _refusals.syncs += 1
    try:
        yield
    finally:
        _refusals.syncs -= 1


@contextmanager
def no_recompile() -> Iterator[None]:
    """Within the block, a step for which there is no program yet raises StateError; its values are there nevertheless.
    """
    _refusals.compiles += 1
    try:
        yield
    finally:
        _refusals.compiles -= 1


# ---- what users ask
def _named() -> dict[str, int]:
    named = Counter(_counts)
    for op, number in _all_calls().items():
        named[_CALLS + traced_name(op)] += number
    return {name: number for name, number in sorted(named.items()) if number}


def counter_names() -> list[str]:
    """The names of what was counted since the last reset."""
    return list(_named())


def counter_value(name: str) -> int | None:
    """How often something happened since the last reset; None if it did not."""
    return (_named() if name.startswith(_CALLS) else _counts).get(name) or None


def reset() -> None:
    """Count from zero."""
    _counts.clear()
    calls.clear()
    rules.clear()
    _causes.clear()


def causes() -> list[str]:
    """What caused the latest syncs and compiles, each with the user's line, the oldest first."""
    return list(_causes)


def traced() -> int:
    """How many calls were traced since the last reset."""
    return sum(_all_calls().values())


def report() -> str:
    """All counts and causes as text."""
    lines = [f"{name}: {number}" for name, number in _named().items()]
    return "\n".join(["counters", *(f"  {line}" for line in lines), "causes", *(f"  {c}" for c in _causes)])

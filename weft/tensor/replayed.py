"""Eager calls and gradient formulas by replay (ops/replay.py): tensors in, tensors out, no history."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from weft.ops.op import Op
from weft.ops.replay import NOT_REPLAYED as NOT_REPLAYED
from weft.ops.replay import Traced, replay
from weft.tensor.tensor import Tensor

ndarray = np.ndarray
_RULES: dict[Op, Callable[..., Any]] = {}


def run(op: Op, args: tuple[Any, ...]) -> Any:
    """The operator's value, or NOT_REPLAYED."""
    rule = _RULES.get(op)
    if rule is None:
        rule = _RULES[op] = _rule_of(op)
    return run_rule(op, rule, args)


def _rule_of(op: Op) -> Callable[..., Any]:
    def rule(*args: Any) -> Any:
        return Traced.__weft_route__(op, args)

    return rule


def run_rule(owner: Any, rule: Callable[..., Any], args: tuple[Any, ...]) -> Any:
    """`rule(*args)` on tensors, or NOT_REPLAYED. Where the rule gives an argument back, so does this."""
    tensors: list[Tensor] = []
    try:
        values = [_array(a, tensors) if isinstance(a, Tensor) or type(a) is tuple else a for a in args]
    except _NotDense:
        return NOT_REPLAYED
    found = replay(owner, rule, values)
    return found if found is NOT_REPLAYED else _results(found[0], found[1], tensors)


class _NotDense(Exception):
    """A tensor without bytes here."""


def _array(value: Any, tensors: list[Tensor]) -> Any:
    if isinstance(value, Tensor):
        if type(value._data) is not ndarray:
            raise _NotDense
        tensors.append(value)
        return value._data
    return tuple([_array(v, tensors) for v in value]) if type(value) is tuple else value


def _results(outputs: Any, registers: list[Any], tensors: list[Tensor]) -> Any:
    if outputs is None:
        return None
    if type(outputs) is int:
        return tensors[outputs] if outputs < len(tensors) else Tensor(registers[outputs])
    return type(outputs)([_results(o, registers, tensors) for o in outputs])

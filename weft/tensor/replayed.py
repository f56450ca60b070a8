"""Eager calls and gradient formulas by replay (ops/replay.py): tensors in, tensors out, no history."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from weft.ops.op import Op
from weft.ops.replay import NOT_REPLAYED as NOT_REPLAYED
from weft.ops.replay import Traced, replay
from weft.tensor.tensor import Tensor

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
    found = replay(owner, rule, args)
    return found if found is NOT_REPLAYED else _results(*found)


def _results(outputs: Any, registers: list[Any], tensors: list[Any]) -> Any:
    if outputs is None:
        return None
    if type(outputs) is int:
        return tensors[outputs] if outputs < len(tensors) else Tensor(registers[outputs])
    return type(outputs)([_results(o, registers, tensors) for o in outputs])

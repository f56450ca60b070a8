"""Clocks: the step counters that bias corrections are computed from. Parameters that are always updated together share
one tensor."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from weft.ops.packet import aten
from weft.tensor.modes import modes
from weft.tensor.tensor import Tensor
from weft.types import dtype as dt


def scalar_dtype() -> dt.DType:
    """The dtype of counters and other scalars that an optimizer keeps: double precision where that is the default."""
    return dt.float64 if dt.get_default() is dt.float64 else dt.float32


class Clock:
    """The number of updates that some parameters have had, this one included: a Python number, or a float64 tensor
    in a captured step.

    What is computed from it stays in double precision until it meets the parameters, as in PyTorch.
    """

    def __init__(self, step: Tensor, params: list[Tensor]) -> None:
        self.params = params
        self.count: Any = aten._to_copy(step, dt.float64) if modes.capture is not None else step.item()

    def power(self, base: Any) -> Any:
        """base ** count."""
        return base**self.count if modes.capture is None else aten.pow(base, self.count)

    def correction(self, beta: Any) -> Any:
        """1 - beta ** count."""
        return 1 - self.power(beta)


def as_number(value: Any, other: Any) -> Any:
    """What a clock gives, for arithmetic with another value: one that is a tensor takes it in its own dtype,
    as it takes a Python number."""
    return aten._to_copy(value, other.dtype) if isinstance(value, Tensor) and isinstance(other, Tensor) else value


def advance(states: Mapping[Tensor, dict[str, Any]], active: list[Tensor], group: list[Tensor]) -> list[Clock]:
    """Raise the "step" of the active parameters by one. A counter shared with parameters that rest is split first."""
    at_rest = (
        {id(states[p]["step"]) for p in group if p in states and "step" in states[p]} if len(active) < len(group)
        else set()
    )
    if at_rest:
        at_rest = _of_those_at_rest(states, active, group)
    by_step: dict[int, tuple[Tensor, list[Tensor]]] = {}
    for p in active:
        step = states[p]["step"]
        by_step.setdefault(id(step), (step, []))[1].append(p)
    clocks = []
    for step, params in by_step.values():
        mine = _split(states, step, params) if id(step) in at_rest else step
        mine.add_(1)
        clocks.append(Clock(mine, params))
    return clocks


def _of_those_at_rest(states: Mapping[Tensor, dict[str, Any]], active: list[Tensor], group: list[Tensor]) -> set[int]:
    moving = {id(p) for p in active}
    return {id(states[p]["step"]) for p in group if id(p) not in moving and p in states and "step" in states[p]}


def _split(states: Mapping[Tensor, dict[str, Any]], step: Tensor, params: list[Tensor]) -> Tensor:
    """A counter of their own for parameters that leave the others behind."""
    capture = modes.capture
    if capture is None:
        mine = step.clone()
    else:
        if capture.outside.has_written(step.storage()):
            raise capture.refuse(
                "two steps of one optimizer update parameters that had one step counter; take the first steps outside "
                "weft.compile"
            )
        with capture.paused():
            mine = step.clone()
        capture.on_roll_back(lambda: _give(states, params, step))
    _give(states, params, mine)
    return mine


def _give(states: Mapping[Tensor, dict[str, Any]], params: list[Tensor], step: Tensor) -> None:
    for p in params:
        states[p]["step"] = step

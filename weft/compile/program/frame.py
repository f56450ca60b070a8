"""The frame of one call of a program with calls of Python, and how another program takes it over."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from weft.autograd.function_context import FunctionCtx
from weft.compile.program.call_plan import Grads, Symbols


@dataclass(eq=False)
class Frame:
    """What a call has come to. slots: values between two parts; hooks: those that were there when it began. results,
    arguments: what the latest call of Python gave, and was given. contexts: of Functions whose forward was called."""

    leaves: list[Any]
    inputs: list[Any]
    symbols: Symbols
    grads: Grads
    slots: list[Any]
    hooks: list[Any]
    results: list[Any] = field(default_factory=list)
    arguments: Any = ()
    contexts: dict[int, FunctionCtx] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class FrameMapping:
    """Where a program has what another one has computed up to a call of Python.

    inputs, symbols: pairs of its own place and the other's. slots: its own, and those of the other's one of which has
    the value.
    """

    inputs: Sequence[tuple[int, int]]
    symbols: Sequence[tuple[str, str]]
    slots: Sequence[tuple[int, Sequence[int]]]

    def symbols_of(self, frame: Frame) -> Symbols:
        """The symbols that are as they were when the call began: where generators stood, and lifted numbers."""
        return {own: frame.symbols[other] for own, other in self.symbols if other in frame.symbols}

    def slots_of(self, frame: Frame, count: int) -> list[Any] | None:
        """The slots; None where the call has not all of it: what was taken over before is what was read later."""
        slots: list[Any] = [None] * count
        for own, others in self.slots:
            value = next((v for other in others if (v := frame.slots[other]) is not None), None)
            if value is None:
                return None
            slots[own] = value
        return slots

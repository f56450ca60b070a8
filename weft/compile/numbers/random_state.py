"""Generators as inputs and outputs of a program: whichever a function draws from, their keys and offsets are symbols
while it is captured."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from weft.runtime.generator import Generator, Stream, captured, default_generator
from weft.types import dims
from weft.types.dims import Dim

if TYPE_CHECKING:
    from weft.compile.capture.capture import Capture


class RandomState:
    """One generator: the symbols of its key and offset, and the stream that the function moves on."""

    def __init__(self, generator: Generator, capture: Capture) -> None:
        self.generator = generator
        now = generator.stream
        assert isinstance(now.key, int) and isinstance(now.offset, int)
        key, offset = capture.env.fresh("i", now.key), capture.env.fresh("i", now.offset)
        self.key, self.offset, self.stream = str(key), str(offset), Stream(now.seed, key, offset)

    def bind(self, symbols: dict[str, int]) -> None:
        """The values of a call's symbols."""
        stream = self.generator.stream
        symbols[self.key], symbols[self.offset] = stream.key, stream.offset  # type: ignore[assignment]

    def go_along(self, symbols: dict[str, int]) -> None:
        """Others may have drawn from the generator, or seeded it, since it was settled: draws that follow go on from
        there."""
        stream = self.generator.stream
        assert isinstance(stream.key, int) and isinstance(stream.offset, int)
        symbols[self.offset] += stream.offset - dims.evaluate(self.stream.offset, symbols)
        symbols[self.key] = stream.key

    def copy(self) -> RandomState:
        """The state as it is now, whatever the function draws later."""
        made = copy.copy(self)
        made.stream = copy.copy(self.stream)
        return made

    def is_moved(self) -> bool:
        """Whether the function draws from the generator, or seeds it."""
        return str(self.stream.offset) != self.offset or str(self.stream.key) != self.key

    def settle(self, symbols: dict[str, int]) -> None:
        """Leave the generator where the function leaves it."""
        after, stream = self.stream, self.generator.stream
        if isinstance(after.key, int):  # seeded by the function
            stream.key, stream.seed = after.key, after.seed
        stream.offset = dims.evaluate(after.offset, symbols)


@contextmanager
def symbolic_generators(capture: Capture) -> Iterator[list[RandomState]]:
    """While a function is captured on this thread: the states of the generators that it draws from,
    the default one always."""
    found: dict[int, RandomState] = {}

    def stream(generator: Generator) -> Stream:
        state = found.get(id(generator))
        if state is None:
            state = found[id(generator)] = RandomState(generator, capture)
            states.append(state)
        return state.stream

    states: list[RandomState] = []
    stream(default_generator)
    before, captured.stream = captured.stream, stream
    capture.random = states
    try:
        yield states
    finally:
        captured.stream = before


def places(states: list[RandomState]) -> dict[int, Dim]:
    """Where the generators stand that the function has moved."""
    return {id(s): s.stream.offset for s in states if s.is_moved()}


def go_to(states: list[RandomState], known: dict[int, Dim]) -> None:
    """Go back to known places; generators that were met since, to where the call finds them."""
    for s in states:
        s.stream.offset = known.get(id(s), dims.symbol(s.offset))

"""Generators as inputs and outputs of a program: whichever a function draws from, their keys and offsets are symbols
while it is captured.

Within a branch or a loop body, how much is drawn is known when the program runs. There, and from there on, the offset
is a tensor outside of the blocks that each draw writes: the blocks carry it out as they carry other writes.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from weft.ops.packet import aten
from weft.record.recorder import refusal
from weft.record.tensors import SymbolicTensors
from weft.runtime.generator import Generator, Place, Stream, captured_by, default_generator
from weft.tensor.tensor import Tensor
from weft.types import dims
from weft.types import dtype as dt
from weft.types.dims import Dim, Expr


class CapturedStream(Stream):
    """Where a generator stands while a function is captured.

    counter: its offset, as long as it is a symbol; place: the 0-dim tensor that holds it, once a block has drawn.
    """

    __slots__ = ("_key", "_seed", "counter", "generator", "place", "seed_symbol", "tensors")

    def __init__(
        self, generator: Generator, tensors: SymbolicTensors, key: Dim, offset: Dim, seed: Dim | None = None
    ) -> None:
        self.generator, self.tensors = generator, tensors
        self.place: Tensor | None = None
        self.seed_symbol: Expr | None = None
        self._seed = seed  # None: the generator's, and nobody has asked for it
        self._key, self.counter = key, offset

    # ---- what generators ask
    @property
    def seed(self) -> Dim:  # type: ignore[override]
        """A number, or the symbol of the seed that the generator has when the call begins."""
        if self._seed is None:
            self._seed = self.seed_symbol = self.tensors.recorder.env.fresh("i", self.generator.stream.seed)
        return self._seed

    @property
    def key(self) -> Dim:  # type: ignore[override]
        return self._key

    @property
    def offset(self) -> Any:  # type: ignore[override]
        """A symbol, or a tensor that holds what it is now."""
        place = self._where()
        return self.counter if place is None else self.tensors.fresh(self._value(place))

    def take(self, numel: Dim) -> Any:
        place = self._where()
        if place is None:
            first, self.counter = self.counter, self.counter + numel
            return first
        first = self._value(place)
        self._put(place, self.tensors.recorder.builder.emit(aten.add.Tensor.op, (first, numel, 1)).output)
        return self.tensors.fresh(first)

    def go_to(self, seed: Dim, key: Dim, offset: Any) -> None:
        if self.tensors.recorder.depth and key != self._key:
            raise refusal(
                "a branch or loop body seeds a generator, or puts it into a state of another seed: do so outside of it"
            )
        self._seed, self._key = seed, key
        if isinstance(offset, Tensor):
            value = self.tensors.operand(offset)
            self._put(self._begin(0) if self.place is None else self.place, value)
        elif self.tensors.recorder.depth:
            full = self.tensors.recorder.builder.emit(aten.full.default.op, ((), offset, dt.int64, None))
            self._put(self._begin(0) if self.place is None else self.place, full.output)
        else:
            self.place, self.counter = None, offset

    def state(self) -> Place:
        return self.seed, self._key, self.offset

    def marks(self) -> tuple[Any, ...]:
        """What changes where it is moved."""
        return None if self.place is None else self._value(self.place), self.counter, self._key

    def copy(self) -> CapturedStream:
        """Where it stands now, as long as that is a symbol."""
        stream = CapturedStream(self.generator, self.tensors, self._key, self.counter, self._seed)
        stream.seed_symbol = self.seed_symbol
        return stream

    # ---- the tensor
    def _where(self) -> Tensor | None:
        if self.place is None and self.tensors.recorder.depth:
            return self._begin(self.counter)
        return self.place

    def _begin(self, offset: Dim) -> Tensor:
        """The tensor, made outside of all blocks."""
        root = self.tensors.recorder.root
        place = self.tensors.fresh(root.emit(aten.full.default.op, ((), offset, dt.int64, None)).output)
        storage: Any = place._storage
        storage.builder, storage.depth, storage.goes_on = root, 0, True
        self.place = place
        return place

    def _value(self, place: Tensor) -> Any:
        return self.tensors.operand(place)

    def _put(self, place: Tensor, value: Any) -> None:
        self.tensors.store(place, self.tensors.payload_of(place), value)

    def left(self) -> Dim:
        """The offset as a symbol again: of a tensor's value one that comes out with the results."""
        if self.place is not None:
            symbol = self.tensors.recorder.env.fresh("u")
            self.tensors.recorder.run_time[str(symbol)] = self._value(self.place)
            self.place, self.counter = None, symbol
        return self.counter


class RandomState:
    """One generator: the symbols of its key and offset, and the stream that the function moves on."""

    def __init__(self, generator: Generator, tensors: SymbolicTensors) -> None:
        self.generator = generator
        now = generator.stream
        assert isinstance(now.key, int) and isinstance(now.offset, int)
        key, offset = tensors.recorder.env.fresh("i", now.key), tensors.recorder.env.fresh("i", now.offset)
        self.key, self.offset = str(key), str(offset)
        self.stream = CapturedStream(generator, tensors, key, offset)

    def bind(self, symbols: dict[str, int]) -> None:
        """The values of a call's symbols."""
        stream = self.generator.stream
        symbols[self.key], symbols[self.offset] = stream.key, stream.offset  # type: ignore[assignment]
        if self.stream.seed_symbol is not None:
            symbols[str(self.stream.seed_symbol)] = stream.seed

    def go_along(self, symbols: dict[str, int]) -> None:
        """Others may have drawn from the generator, or seeded it, since it was moved: draws that follow go on from
        there."""
        stream = self.generator.stream
        assert isinstance(stream.key, int) and isinstance(stream.offset, int)
        symbols[self.offset] += stream.offset - dims.evaluate(self.stream.counter, symbols)
        symbols[self.key] = stream.key

    def copy(self) -> RandomState:
        """The state as it is now, whatever the function draws later. Raises CaptureError where that is known when the
        program has run."""
        if self.stream.place is not None:
            raise refusal(
                "Python is called when the program runs, behind a branch or a loop that draws random numbers: how many "
                "is known at the end of the program. Draw them before it and pass them in, or compile with split=True"
            )
        state = copy.copy(self)
        state.stream = self.stream.copy()
        return state

    def is_moved(self) -> bool:
        """Whether the function draws from the generator, or seeds it."""
        return str(self.stream.left()) != self.offset or str(self.stream.key) != self.key

    def move_generator(self, symbols: dict[str, int]) -> None:
        """Leave the generator where the function leaves it."""
        after, stream = self.stream, self.generator.stream
        if str(after.key) != self.key:  # seeded by the function
            stream.key, stream.seed = dims.evaluate(after.key, symbols), dims.evaluate(after.seed, symbols)
        stream.offset = dims.evaluate(after.counter, symbols)


@contextmanager
def symbolic_generators(
    tensors: SymbolicTensors, states: list[RandomState], refuse: Callable[[str], Exception],
    place_of: Callable[[Any], Place],
) -> Iterator[None]:
    """While a function is captured on this thread: `states` gains those of the generators that it draws from,
    the default one always. refuse: the error for what a function may not do; place_of: where a generator is put that is
    to go to a state."""
    streams: dict[Generator, CapturedStream] = {}

    def stream(generator: Generator) -> Stream:
        if generator not in streams:
            if generator.is_inner:
                seed, key, offset = generator.stream.state()
                streams[generator] = CapturedStream(generator, tensors, key, offset, seed)
            else:
                states.append(RandomState(generator, tensors))
                streams[generator] = states[-1].stream
        return streams[generator]

    stream(default_generator)
    with captured_by(stream, refuse, place_of):
        yield


def marks(states: Sequence[RandomState]) -> list[Any]:
    """What changes where a function draws, or seeds a generator."""
    return [state.stream.marks() for state in states]

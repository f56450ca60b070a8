"""Random numbers in a trace: what a generator gives is another number at every call, and the programs' input."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from weft.lazy.calls import Drawn
from weft.runtime.generator import DEVICES, Generator, Stream, captured
from weft.types.dims import Dim

DEVICES.add("lazy")


@contextmanager
def drawn_numbers() -> Iterator[None]:
    """Within the block, generators give numbers that programs take as inputs. They move on as they always do."""
    before = captured.stream
    if type(before) is _Marked:  # within a block within
        yield
        return
    marked = captured.stream = _Marked()
    try:
        yield
    finally:
        captured.stream = before
        for generator, stream in marked.met.values():
            assert isinstance(stream.offset, int)
            generator.stream.offset = int(stream.offset)


class _Marked:
    """The streams of generators, whose numbers are known to be drawn."""

    def __init__(self) -> None:
        self.met: dict[int, tuple[Generator, Stream]] = {}

    def __call__(self, generator: Generator) -> Stream:
        found = self.met.get(id(generator))
        if found is None:
            now = generator.stream
            found = self.met[id(generator)] = (generator, Stream(now.seed, _drawn(now.key), _drawn(now.offset)))
        return found[1]


def _drawn(number: Dim) -> Drawn:
    assert isinstance(number, int), "a generator outside of captures stands at a number"
    return Drawn(number)

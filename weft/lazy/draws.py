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
    met: dict[int, tuple[Generator, Stream]] = {}
    before = captured.stream

    def marked(generator: Generator) -> Stream:
        found = met.get(id(generator))
        if found is None:
            now = generator.stream
            found = met[id(generator)] = (generator, Stream(now.seed, _drawn(now.key), _drawn(now.offset)))
        return found[1]

    captured.stream = marked
    try:
        yield
    finally:
        captured.stream = before
        for generator, stream in met.values():
            assert isinstance(stream.offset, int)
            generator.stream.offset = int(stream.offset)


def _drawn(number: Dim) -> Drawn:
    assert isinstance(number, int), "a generator outside of captures stands at a number"
    return Drawn(number)

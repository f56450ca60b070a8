"""Random numbers in a trace: what a generator gives is another number at every call, and the programs' input."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from weft.lazy.calls import Drawn
from weft.runtime.generator import Generator, Stream, captured
from weft.types.dims import Dim


@contextmanager
def drawn_numbers() -> Iterator[None]:
    """Within the block, generators give numbers that programs take as inputs. They move on as they always do."""
    before = captured.stream
    if type(before) is _Marked:  # within a block within
        yield
        return
    marked = captured.stream = _Marked(before)
    try:
        yield
    finally:
        captured.stream = before
        for real, stream in marked.met.values():
            assert isinstance(stream.offset, int)
            real.offset = int(stream.offset)


class _Marked:
    """The streams of generators, whose numbers are known to be drawn. before: what generators had for streams."""

    def __init__(self, before: Callable[[Generator], Stream] | None) -> None:
        self.before = before
        self.met: dict[int, tuple[Stream, Stream]] = {}

    def __call__(self, generator: Generator) -> Stream:
        pair = self.met.get(id(generator))
        if pair is None:
            now = generator.stream if self.before is None else self.before(generator)
            pair = self.met[id(generator)] = (now, Stream(now.seed, _drawn(now.key), _drawn(now.offset)))
        return pair[1]


def _drawn(number: Dim) -> Drawn:
    assert isinstance(number, int), "a generator outside of captures stands at a number"
    return Drawn(number)

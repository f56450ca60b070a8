"""Random numbers in a trace: what a generator gives is another number at every call, and the programs' input."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from weft.lazy.calls import Drawn
from weft.runtime.generator import Generator, Stream, captured
from weft.types.dims import Dim


@contextmanager
def drawn_numbers() -> Iterator[None]:
    """Within the block, generators give numbers that programs take as inputs. They move on as they always do, also by
    what draws in between (a finalizer)."""
    before = captured.stream
    if type(before) is _Marked:  # within a block within
        yield
        return
    captured.stream = _Marked(before)
    try:
        yield
    finally:
        captured.stream = before


class _Marked:
    """The streams of generators, whose numbers are known to be drawn. before: what generators had for streams."""

    def __init__(self, before: Callable[[Generator], Stream] | None) -> None:
        self.before = before

    def __call__(self, generator: Generator) -> Stream:
        return _MarkedStream(generator.stream if self.before is None else self.before(generator))


class _MarkedStream(Stream):
    """A stream that gives marked numbers; it stands where another one does."""

    __slots__ = ("_stream",)

    def __init__(self, stream: Stream) -> None:
        self._stream = stream

    @property
    def seed(self) -> Any:  # type: ignore[override]
        return self._stream.seed

    @property
    def key(self) -> Drawn:  # type: ignore[override]
        return _drawn(self._stream.key)

    @property
    def offset(self) -> Drawn:  # type: ignore[override]
        return _drawn(self._stream.offset)

    def take(self, numel: Dim) -> Drawn:
        return _drawn(self._stream.take(numel))

    def go_to(self, seed: Any, key: Dim, offset: Any) -> None:
        self._stream.go_to(seed, _bare(key), _bare(offset))


def _drawn(number: Dim) -> Drawn:
    assert isinstance(number, int), "a generator outside of captures stands at a number"
    return Drawn(number)


def _bare(number: Dim) -> Dim:
    return int(number) if type(number) is Drawn else number

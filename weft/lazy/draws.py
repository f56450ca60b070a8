"""Random numbers in a trace: what a generator gives is another number at every call, and the programs' input."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from weft.lazy.trace import Drawn
from weft.runtime.generator import DEVICES, Generator, Stream, captured

DEVICES.add("lazy")


class _Marked(Stream):
    """A generator's stream, whose key and offset say of themselves that they change."""

    __slots__ = ("stream",)

    def __init__(self, stream: Stream) -> None:
        self.stream = stream

    @property
    def seed(self) -> Any:  # type: ignore[override]
        return self.stream.seed

    @property
    def key(self) -> Any:  # type: ignore[override]
        return Drawn(self.stream.key)  # type: ignore[call-overload]

    @property
    def offset(self) -> Any:  # type: ignore[override]
        return Drawn(self.stream.offset)  # type: ignore[call-overload]

    @offset.setter
    def offset(self, offset: int) -> None:
        self.stream.offset = int(offset)


@contextmanager
def drawn_numbers() -> Iterator[None]:
    """Within the block, generators give numbers that programs take as inputs."""
    before = captured.stream

    def marked(generator: Generator) -> Stream:
        return _Marked(generator.stream)

    captured.stream = marked
    try:
        yield
    finally:
        captured.stream = before

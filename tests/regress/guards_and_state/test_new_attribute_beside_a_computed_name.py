"""A step that makes a new attribute, and reads others by names that it computes, was refused: the names that the object
had were taken behind the new one, so that the program did not fit its own arguments."""

from __future__ import annotations

from types import SimpleNamespace

import weft


def test_names_are_those_before_the_call() -> None:
    held = SimpleNamespace(scale=2.0)

    def read(name: str) -> float:
        value: float = getattr(held, name)
        return value

    def step(x: weft.Tensor) -> weft.Tensor:
        held.latest = x * 3
        return x * read("sca" + "le")

    compiled = weft.compile(step, backend="interpret")
    for scale in (2.0, 2.0, 5.0):
        held.scale = scale
        assert compiled(weft.ones(2)).tolist() == [scale, scale] and held.latest.tolist() == [3.0, 3.0]

"""A text stream in memory that a step writes to is as it was when the capture that wrote is refused: split=True runs
the step as Python then, and it was written twice."""

from __future__ import annotations

import io
from typing import Any

import pytest

import weft


@pytest.mark.parametrize("stream", [io.StringIO, io.BytesIO])
def test_each_call_writes_once(stream: Any) -> None:
    kept = stream()

    def step(x: Any) -> Any:
        kept.write(kept.getvalue()[:0] + ("a" if stream is io.StringIO else b"a"))
        return x * len(kept.getvalue())

    compiled = weft.compile(step, split=True)
    for call in range(1, 5):
        assert compiled(weft.ones(2)).tolist() == [float(call)] * 2
    assert len(kept.getvalue()) == kept.tell() == 4


def test_a_refusal_leaves_it() -> None:
    kept = io.StringIO("before")
    kept.seek(2)

    @weft.compile
    def step(x: Any) -> Any:
        kept.write("something longer")
        return x

    with pytest.raises(weft.WeftError, match="changes a StringIO"):
        step(weft.ones(2))
    assert (kept.getvalue(), kept.tell()) == ("before", 2)

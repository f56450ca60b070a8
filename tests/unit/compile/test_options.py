"""The options of weft.compile: those of PyTorch's programs are accepted, those that do not exist
are refused by name."""

from __future__ import annotations

from typing import Any

import pytest

import weft


@pytest.mark.parametrize("options", [
    {"fullgraph": True}, {"fullgraph": False}, {"dynamic": True}, {"dynamic": False}, {"mode": "reduce-overhead"},
    {"mode": "default", "options": {}},
])
def test_programs_written_for_pytorch_run(options: dict[str, Any]) -> None:
    step = weft.compile(lambda x: x * 2, **options)
    assert step(weft.ones(2)).tolist() == [2.0, 2.0]

    @weft.compile(**options)
    def other(x: weft.Tensor) -> weft.Tensor:
        return x + 1

    weft.counters.reset()
    assert other(weft.ones(2)).tolist() == [2.0, 2.0] and weft.counters.captures == 1


def test_disabled_is_the_function_itself() -> None:
    def step(x: weft.Tensor) -> weft.Tensor:
        return x

    assert weft.compile(step, disable=True) is step and weft.compile(disable=True)(step) is step


@pytest.mark.parametrize(("options", "words"), [
    ({"backend": "inductor"}, "no backend 'inductor'; there are llvm"), ({"mode": "fast"}, "no mode 'fast'"),
    ({"options": {"trace.enabled": True}}, "trace.enabled"),
])
def test_what_does_not_exist_is_refused(options: dict[str, Any], words: str) -> None:
    with pytest.raises(TypeError, match=words):
        weft.compile(lambda x: x, **options)

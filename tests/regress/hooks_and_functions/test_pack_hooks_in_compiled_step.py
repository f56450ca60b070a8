"""What a pack hook does and reads is the step's: done at each call, and guarded."""

from __future__ import annotations

from typing import Any

import pytest

import weft

SCALE = [2.0]


def test_what_it_adds_to_a_list_is_added_at_each_call() -> None:
    log: list[str] = []

    def pack(t: weft.Tensor) -> weft.Tensor:
        log.append("pack")
        return t

    def unpack(t: weft.Tensor) -> weft.Tensor:
        log.append("unpack")
        return t

    @weft.compile
    def step(x: weft.Tensor) -> Any:
        with weft.autograd.graph.saved_tensors_hooks(pack, unpack):
            y = x * x
        y.sum().backward()
        return x.grad

    for n in (2, 3, 4):
        log.clear()
        assert weft.equal(step(weft.ones(n, requires_grad=True)), weft.full((n,), 2.0))
        assert log == ["pack", "pack", "unpack", "unpack"]


def test_what_it_prints_is_printed_at_each_call(capsys: pytest.CaptureFixture[str]) -> None:
    def pack(t: weft.Tensor) -> weft.Tensor:
        print("pack")
        return t

    @weft.compile
    def step(x: weft.Tensor) -> Any:
        with weft.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
            y = x.exp()
        y.sum().backward()
        return x.grad

    for n in (2, 3):
        step(weft.ones(n, requires_grad=True))
        assert capsys.readouterr().out == "pack\n"


def test_what_it_reads_is_guarded() -> None:
    def pack(t: weft.Tensor) -> weft.Tensor:
        return t * SCALE[0]

    @weft.compile
    def step(x: weft.Tensor) -> Any:
        with weft.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
            y = x * x
        y.sum().backward()
        return x.grad

    for scale in (2.0, 3.0, 5.0):
        SCALE[0] = scale
        assert weft.equal(step(weft.ones(2, requires_grad=True)), weft.full((2,), 2.0 * scale))

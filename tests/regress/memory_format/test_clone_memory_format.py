"""clone(memory_format=) as a function and as a method."""

from __future__ import annotations

import pytest

import weft


@pytest.mark.parametrize("device", ["cpu", "lazy", "meta"])
@pytest.mark.parametrize("clone", [weft.clone, weft.Tensor.clone])
def test_the_format_is_kept(clone, device: str) -> None:
    x = weft.rand(4, 3, device=device).t()
    assert clone(x).stride() == clone(x, memory_format=weft.preserve_format).stride() == (1, 3)
    assert clone(x, memory_format=weft.contiguous_format).stride() == (4, 1)


def test_the_function_is_traced() -> None:
    def f(x: weft.Tensor) -> weft.Tensor:
        return weft.clone(x) + weft.clone(input=x)

    x = weft.ones(3)
    assert weft.compile(f)(x).tolist() == f(x).tolist() == [2, 2, 2]

    @weft.jit.script
    def g(x: weft.Tensor) -> weft.Tensor:
        return weft.clone(x) + 1

    assert g(x).tolist() == [2, 2, 2] and "aten::clone" in str(g.graph)

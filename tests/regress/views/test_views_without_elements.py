"""Views that show no element, where that hangs on a size: they are written though strides repeat, and have any dims."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import weft
from weft.func import functionalize

MODES: dict[str, Callable[[Any], Any]] = {
    "functionalize": functionalize,
    "compile": lambda f: weft.compile(f, backend="interpret"),
    "native": weft.compile,
    "split": lambda f: weft.compile(f, split=True),
}


def expanded(x: weft.Tensor) -> Any:
    v = x.expand(2, *x.shape)
    w = x.broadcast_to((2, *x.shape))[..., None]
    w[..., 0] = 1
    w.unfold(0, 1, 1).add_(1)
    return v.add_(1).copy_(v), w


def grid(x: weft.Tensor) -> Any:
    rows = x.sum(1)
    g = weft.meshgrid(rows, rows, indexing="ij")[0]
    g[g == 0] = 1
    return g.tril_(), rows


def other_dims(x: weft.Tensor) -> Any:
    return x.t().view(-1), x[None].transpose(0, 2).view(1, -1), x.t().reshape(-1)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("sizes", [(0, 3), (0, 1), (0, 0)])
@pytest.mark.parametrize("function", [expanded, grid, other_dims])
def test_what_eager_allows(function: Any, sizes: tuple[int, ...], mode: str) -> None:
    x = weft.ones(sizes)
    for found, wanted in zip(MODES[mode](function)(x), function(x), strict=True):
        assert found.shape == wanted.shape and found.is_contiguous() == wanted.is_contiguous()


@pytest.mark.parametrize("mode", MODES)
def test_what_eager_refuses(mode: str) -> None:
    run = MODES[mode](expanded), MODES[mode](other_dims)
    run[0](weft.ones(0, 3))
    run[1](weft.ones(0, 3))
    with pytest.raises(RuntimeError, match="refers to a single memory location"):
        run[0](weft.ones(2, 3))
    with pytest.raises(RuntimeError, match="view size is not compatible"):
        run[1](weft.ones(2, 3))


def test_smaller_elements_in_a_split_function() -> None:
    def program() -> weft.Tensor:
        x = weft.zeros(3, 0, dtype=weft.int32)
        weft.ones(()).item()
        x.t()[1:] = 2
        return x.view(weft.int16)

    assert weft.compile(program, split=True)().shape == program().shape == (3, 0)

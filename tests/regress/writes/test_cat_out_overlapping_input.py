"""cat and stack into a block of memory that an input shows are refused, and beside it they are not: in every mode."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import weft
from weft.support.errors import StateError

Function = Callable[[weft.Tensor], weft.Tensor]


def joined(x: weft.Tensor) -> weft.Tensor:
    x = x.clone()
    weft.cat([x[:1], x[1:2]], out=x[1:3])
    return x


def stacked(x: weft.Tensor) -> weft.Tensor:
    x = x.clone()
    weft.stack([x[0], x[1]], out=x[1:3])
    return x


def of_an_argument(x: weft.Tensor) -> weft.Tensor:
    weft.cat([x[:1], x[1:2]], out=x[1:3])
    return x


def itself(x: weft.Tensor) -> weft.Tensor:
    x = x.clone()
    weft.hstack([x], out=x)
    return x


def beside(x: weft.Tensor) -> weft.Tensor:
    x = x.clone()
    weft.cat([x[:1], x[:1]], out=x[1:3])
    weft.stack([x[0], x[0]], out=x[1:3])
    return x


def columns(x: weft.Tensor) -> weft.Tensor:
    x = x.clone()
    weft.cat([x[:, :1]], 1, out=x[:, 1:])  # a view with gaps: not found out, computed as if it were apart
    return x


def lazily(f: Function) -> Function:
    return lambda x: f(x.to("lazy")).to("cpu")


def split(f: Function) -> Function:
    return weft.compile(f, split=True)


WAYS: dict[str, Callable[[Function], Function]] = {
    "eager": lambda f: f, "compiled": weft.compile, "split": split, "lazy": lazily,
    "functionalized": weft.func.functionalize, "vmap": lambda f: lambda x: weft.vmap(f)(x[None])[0],
    "traced": lambda f: lambda x: weft.jit.trace(f, (x.clone(),))(x),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("program", [joined, stacked, of_an_argument, itself])
def test_what_overlaps_is_refused(way: str, program: Any) -> None:
    run = WAYS[way](program)
    for size in (3, 4, 3, 5):
        with pytest.raises(StateError, match="single memory location"):
            run(weft.arange(2.0 * size).view(size, 2))


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("program", [beside, columns])
def test_what_lies_beside_is_written(way: str, program: Any) -> None:
    run = WAYS[way](program)
    for size in (3, 4, 3, 5):
        x = weft.arange(2.0 * size).view(size, 2)
        want = x.clone()
        if program is beside:
            want[1:3] = x[0]
        else:
            want[:, 1] = x[:, 0]
        assert run(x).tolist() == want.tolist()

"""What eager calls refuse for their arguments alone is refused on every path: on device meta, which runs nothing, in
functionalized and compiled functions, and at the call of a lazy tensor."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import weft
import weft.nn.functional as F

Program = Callable[[weft.Tensor], Any]
CALLS: dict[str, tuple[Program, tuple[int, ...], str]] = {
    "tril": (weft.tril, (3,), "at least 2 dim"),
    "triu": (weft.triu, (3,), "at least 2 dim"),
    "roll": (lambda x: x.roll(1, 0), (), "no dimensions"),
    "gelu": (lambda x: F.gelu(x, approximate="cube"), (3,), "none or tanh"),
    "softshrink": (lambda x: F.softshrink(x, -0.5), (3,), "greater or equal to 0"),
    "isclose, rtol": (lambda x: weft.isclose(x, x, rtol=-0.5), (3,), "greater than or equal to zero"),
    "isclose, atol": (lambda x: weft.isclose(x, x, atol=-0.5), (3,), "greater than or equal to zero"),
    "soft_margin_loss": (lambda x: F.soft_margin_loss(x, x, reduction="most"), (3,), "not a valid value"),
    "max_pool1d": (lambda x: F.max_pool1d(x, 2, dilation=0), (1, 4, 4), "dilation"),
    "max_pool2d": (lambda x: F.max_pool2d(x, 2, dilation=(1, 0)), (1, 4, 4), "dilation"),
}
WAYS: dict[str, Callable[[Program, weft.Tensor], Any]] = {
    "eager": lambda f, x: f(x),
    "meta": lambda f, x: f(x.to("meta")),
    "functionalized": lambda f, x: weft.func.functionalize(f)(x),
    "lazy": lambda f, x: f(x.to("lazy")),
    "compiled": lambda f, x: weft.compile(f)(x),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", CALLS)
def test_refused(name: str, way: str) -> None:
    call, dims, text = CALLS[name]
    with pytest.raises((RuntimeError, ValueError, IndexError), match=text):
        WAYS[way](call, weft.ones(dims))


@pytest.mark.parametrize("name", ["index_select", "gather"])
def test_outputs_that_show_elements_twice_are_refused_before_they_are_resized(name: str) -> None:
    out = weft.zeros(6).expand(2, 6)
    index = weft.tensor([0, 1]) if name == "index_select" else weft.tensor([[0, 1]] * 3)
    with pytest.raises(RuntimeError, match="more than one element"):
        getattr(weft, name)(weft.ones(3, 6), 1, index, out=out)

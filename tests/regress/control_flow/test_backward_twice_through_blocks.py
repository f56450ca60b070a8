"""A second backward through a branch or a loop of a compiled step went on where eager mode raises, and what the step
had gone backward through counted as whole."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import weft

BLOCKS: dict[str, Callable[[Any], Any]] = {
    "cond": lambda x: weft.cond(x.sum() > 0, lambda v: v.sin(), lambda v: v * v, (x,)),
    "scan": lambda x: weft.scan(lambda c, t: (c.sin() + t * t, c), x * 0, weft.stack([x, x]))[0],
    "while_loop": lambda x: weft.while_loop(lambda i, v: i < 2, lambda i, v: (i + 1, v.sin()), (0, x))[1],
    "saves nothing": lambda x: weft.cond(x.sum() > 0, lambda v: v + 1, lambda v: -v, (x,)),
}


@pytest.mark.parametrize("name", BLOCKS)
@pytest.mark.parametrize("keeps", [False, True])
def test_second_backward(name: str, keeps: bool) -> None:
    def step(x: Any) -> Any:
        y = BLOCKS[name](x)
        y.sum().backward(retain_graph=keeps)
        y.sum().backward()
        return x.grad

    x = weft.ones(3, requires_grad=True)
    if keeps or name == "saves nothing":
        expected = step(x)
        x.grad = None
        assert weft.allclose(weft.compile(step, backend="interpret")(x), expected)
        return
    for run in (step, weft.compile(step, backend="interpret")):
        with pytest.raises(RuntimeError, match="second time"):
            run(x)

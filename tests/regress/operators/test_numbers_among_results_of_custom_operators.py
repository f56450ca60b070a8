"""A custom operator that answers a number beside its tensors: vmap gives the number that all examples have, and a
capture refuses by a message what only the run knows."""

from __future__ import annotations

from typing import Any

import pytest

import weft
from weft import Tensor, library
from weft.support.errors import CaptureError


@pytest.fixture
def operators() -> Any:
    defined = library.Library("numbered", "DEF")
    defined.define("scaled(Tensor x) -> (Tensor, float)")
    defined.impl("scaled", lambda x: (x * 2, 0.5), "CompositeExplicitAutograd")
    library.register_fake("numbered::scaled")(lambda x: (weft.empty_like(x), 0.5))
    defined.define("summed(Tensor x) -> (Tensor, float)")
    defined.impl("summed", lambda x: (x * 2, float(x.sum())), "CompositeExplicitAutograd")
    yield weft.ops.numbered
    defined._destroy()


def test_vmap(operators: Any) -> None:
    x = weft.arange(6.0).view(2, 3)
    assert weft.equal(weft.func.vmap(lambda row: operators.scaled(row)[0] * operators.scaled(row)[1])(x), x)
    with pytest.raises(NotImplementedError, match="answers some examples"):
        weft.func.vmap(lambda row: operators.summed(row)[0])(x)


def test_captures_refuse_the_number(operators: Any) -> None:
    def forward(x: Tensor) -> Tensor:
        y, factor = operators.scaled(x)
        return y * factor

    with pytest.raises(CaptureError, match="answers Python with"):
        weft.compile(forward)(weft.ones(2))
    assert weft.compile(forward, split=True)(weft.ones(2)).tolist() == [1.0, 1.0]

"""vmap of custom operators and Functions in compiled functions, where how many examples there are is a symbol: a rule
of the user's saw a bare expression in `info.batch_size`, and an operator without a rule ended in a TypeError."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import weft
from weft.library import custom_op


@pytest.fixture(scope="module")
def operators() -> dict[str, Callable[[Any], Any]]:
    @custom_op("tests_batches::ruleless", mutates_args=())
    def ruleless(x: weft.Tensor) -> weft.Tensor:
        return x * 3

    ruleless.register_fake(lambda x: weft.empty_like(x))

    @custom_op("tests_batches::with_rule", mutates_args=())
    def with_rule(x: weft.Tensor) -> weft.Tensor:
        return x.cumsum(0)

    with_rule.register_fake(lambda x: weft.empty_like(x))

    @with_rule.register_vmap
    def _(info: Any, in_dims: Any, x: Any) -> Any:
        whole = x.movedim(in_dims[0], 0).reshape(info.batch_size * x.shape[1])
        return whole.view(info.batch_size, x.shape[1]).cumsum(1) + info.batch_size, 0

    class Doubled(weft.autograd.Function):
        @staticmethod
        def forward(x: Any) -> Any:
            return x * 2

        @staticmethod
        def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
            pass

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g * 2

        @staticmethod
        def vmap(info: Any, in_dims: Any, x: Any) -> Any:
            return weft.stack([x.select(in_dims[0], i) * 2 for i in range(info.batch_size)]), 0

    @custom_op("tests_batches::listed", mutates_args=())
    def listed(x: weft.Tensor, others: Sequence[weft.Tensor]) -> list[weft.Tensor]:
        return [x + o for o in others]

    listed.register_fake(lambda x, others: [weft.empty_like(x) for _ in others])
    return {"listed": listed, "ruleless": ruleless, "with_rule": with_rule, "Function": Doubled.apply}


@pytest.mark.parametrize("name", ["ruleless", "with_rule", "Function"])
def test_the_rule_is_told_a_size_of_python(operators: dict[str, Callable[[Any], Any]], name: str) -> None:
    mapped = weft.vmap(operators[name])
    compiled = weft.compile(lambda x: mapped(x) + 1, backend="interpret")
    for rows in (3, 5, 2):
        x = weft.arange(float(4 * rows)).reshape(rows, 4)
        np.testing.assert_array_equal(compiled(x).numpy(), (mapped(x) + 1).numpy())


def test_lists_and_no_examples(operators: dict[str, Callable[[Any], Any]]) -> None:
    x, y = weft.arange(6.0).reshape(3, 2), weft.ones(2, 3)
    first, second = weft.vmap(operators["listed"], in_dims=(0, (None, 1)))(x, (weft.ones(2), y))
    np.testing.assert_array_equal(first.numpy(), x.numpy() + 1)
    np.testing.assert_array_equal(second.numpy(), x.numpy() + 1)
    assert weft.vmap(operators["ruleless"])(weft.zeros(0, 4)).shape == (0, 4)

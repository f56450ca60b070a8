"""The short ways of eager calls (layers/fast.py, in-place ufuncs, reshapes kept by shape) give what the walk gives,
errors included."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import weft
from weft.ops.methods import OperatorMethods

DTYPES = [weft.float32, weft.float64, weft.float16, weft.bfloat16, weft.int32, weft.bool]
NUMBERS = [2, -3, 0.1, 1e300, float("nan"), 10**40, True]
SYNTAX = ["__add__", "__sub__", "__mul__", "__truediv__"]
DRAW = np.random.default_rng(int(os.environ["WEFT_TEST_SEED"]))


def drawn(dtype: Any, *dims: int) -> weft.Tensor:
    return weft.tensor(DRAW.standard_normal(dims) * 3).to(dtype)


def outcome(call: Callable[[], Any]) -> Any:
    """The value's dtype and elements, or the error's type and text."""
    try:
        value = call()
    except Exception as error:  # which one is what is compared
        return type(error), str(error)
    return value.dtype, tuple(value.shape), np.array(value.tolist()).tobytes()


@pytest.mark.parametrize("syntax", SYNTAX)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_syntax_with_numbers_is_that_of_the_operator(syntax: str, dtype: Any) -> None:
    for dims in ((), (3,), (2, 0)):
        x = drawn(dtype, *dims)
        for number in NUMBERS:
            short = outcome(lambda: getattr(x, syntax)(number))  # noqa: B023
            assert short == outcome(lambda: getattr(OperatorMethods, syntax)(x, number)), (dims, number)  # noqa: B023


@pytest.mark.parametrize("syntax", SYNTAX)
def test_gradients_flow_through_syntax_with_numbers(syntax: str) -> None:
    x = drawn(weft.float64, 3).requires_grad_()
    for leaf in (x, x.view(3)):
        (found,) = weft.autograd.grad(getattr(leaf, syntax)(0.5).sum(), [x])
        (wanted,) = weft.autograd.grad(getattr(OperatorMethods, syntax)(leaf, 0.5).sum(), [x])
        assert found.tolist() == wanted.tolist()


@pytest.mark.parametrize("name", ["add_", "sub_", "mul_", "div_", "exp_", "gt_", "copy_", "pow_", "neg_", "clamp_"])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_in_place_is_the_functional_value_written_back(name: str, dtype: Any) -> None:
    other = drawn(dtype, 3)
    arguments: list[tuple[Any, ...]] = (
        [()] if name in ("exp_", "neg_") else [(0.3,), (2,)] if name == "clamp_"
        else [(other,), (other[:1],), (0.3,), (2,)]
    )
    for given in [a for a in arguments if name != "copy_" or isinstance(a[0], weft.Tensor)]:
        x = drawn(dtype, 2, 3)
        before = x._version

        def functional(x: weft.Tensor = x, given: tuple[Any, ...] = given) -> weft.Tensor:
            value = given[0].expand(2, 3) if name == "copy_" else getattr(x, name[:-1])(*given)
            return value if name != "gt_" else value.to(x.dtype)

        wanted = outcome(functional)
        found = outcome(lambda: getattr(x, name)(*given))  # noqa: B023
        if isinstance(found[0], type):
            assert x._version == before
        else:
            assert found == wanted
            assert x._version == before + 1


def test_in_place_operands_that_overlap_are_read_before_they_are_written() -> None:
    x = weft.arange(6).to(weft.float32)
    x[1:].add_(x[:-1])
    assert x.tolist() == [0, 1, 3, 5, 7, 9]


def test_in_place_keeps_the_shape_of_self() -> None:
    x = weft.ones(3)
    with pytest.raises(Exception, match="broadcast"):
        x.add_(weft.ones(2, 3))
    assert x.tolist() == [1, 1, 1]


def test_integers_index_as_any_index_does() -> None:
    x = drawn(weft.float32, 3, 2)
    for i in range(-3, 3):
        assert x[i].tolist() == x[(i,)].tolist() == x.numpy()[i].tolist()
        assert x[i]._base is x
    for i in (3, -4, True, np.int64(1)):
        assert outcome(lambda: x[i]) == outcome(lambda: x[(i,)])  # noqa: B023
    assert outcome(lambda: weft.tensor(1.0)[0]) == outcome(lambda: weft.tensor(1.0)[(0,)])


def test_views_of_one_shape_and_other_strides() -> None:
    for _ in range(2):
        for x in (drawn(weft.float32, 2, 6), drawn(weft.float32, 6, 2).t(), drawn(weft.float32, 2, 12)[:, ::2], drawn(
            weft.float32, 2, 6
        )):
            for call in (
                lambda t: t.unsqueeze(1), lambda t: t.unflatten(1, (2, 3)), lambda t: t.squeeze(0),
                lambda t: t.expand(3, 2, 6), lambda t: t.diagonal(), lambda t: t.reshape(12),
                lambda t: t.unsqueeze(True),
            ):
                assert outcome(lambda: call(x)) == outcome(lambda: call(x.contiguous()))  # noqa: B023
            assert (outcome(lambda: x.view(12))[0] is weft.float32) == (x.stride(0) == 6 * x.stride(1))  # noqa: B023
            assert x.unsqueeze(0)._base is not None
            x.unsqueeze(0).fill_(1.0)
            assert x.sum().item() == 12


def test_factories_give_no_views() -> None:
    for made in (
        (weft.randn(3), weft.rand(3), weft.zeros(3), weft.ones(3), weft.arange(3), weft.full((3,), 1.0), weft.empty(3))
    ):
        assert not made._is_view()

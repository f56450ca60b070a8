"""A tensor that a traced function sees as another class: refused, for it was a constant with the example's values."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import weft


class Scaled(weft.Tensor):
    """A subclass that every operator keeps."""


WAYS: dict[str, Callable[[weft.Tensor], weft.Tensor]] = {
    "as_subclass": lambda x: x.as_subclass(Scaled) * 2,
    "the class": lambda x: Scaled(x) * 2,
    "_make_subclass": lambda x: weft.Tensor._make_subclass(Scaled, x) * 2,
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("requires_grad", [False, True])
def test_another_class_is_refused(way: str, requires_grad: bool) -> None:
    with pytest.raises(weft.WeftError, match=r"test_tensor_subclass_in_trace_refused\.py:\d+: a tensor seen as Scaled"):
        weft.jit.trace(WAYS[way], (weft.ones(3, requires_grad=requires_grad),), check_trace=False)


def test_a_plain_tensor_stays_one() -> None:
    traced = weft.jit.trace(lambda x: x.as_subclass(weft.Tensor) * 2, (weft.ones(3),))
    assert traced(weft.arange(4.0)).tolist() == [0.0, 2.0, 4.0, 6.0]


def test_arguments_and_results_of_a_trace_are_plain() -> None:
    traced = weft.jit.trace(lambda x: x * 2, (Scaled([1.0, 2.0]),), check_trace=False)
    assert traced(weft.arange(3.0)).tolist() == [0.0, 2.0, 4.0]
    assert weft.compile(lambda x: (x.as_subclass(Scaled) * 2).as_subclass(weft.Tensor))(weft.ones(2)).tolist() == [2, 2]

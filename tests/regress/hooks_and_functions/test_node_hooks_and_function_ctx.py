"""Nodes: what hooks on them may return, what is gone after a backward call, and contexts of custom Functions."""

from typing import Any

import numpy as np
import pytest

import weft
from weft import Tensor


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("number", [3, 0.5])
def test_a_number_that_was_multiplied_by_is_freed_like_a_tensor(number: float, compiled: bool) -> None:
    """`x * 2` saves its 2, as `x * y` saves y."""

    def run() -> None:
        for function in (lambda x: x * number, lambda x: number * x, lambda x: x / number):
            loss = function(weft.ones(3, requires_grad=True)).sum()
            loss.backward(retain_graph=True)
            loss.backward()
            with pytest.raises(RuntimeError, match="second time"):
                loss.backward()
        for function in (lambda x: x + number, lambda x: x - number, lambda x: number - x, lambda x: -x):
            loss = function(weft.ones(3, requires_grad=True)).sum()
            loss.backward()
            loss.backward()

    if compiled:
        with weft.compiled_autograd.enable():
            run()
    else:
        run()


@pytest.mark.parametrize("compiled", [False, True])
def test_hooks_on_nodes_return_tuples(compiled: bool) -> None:
    def run(register: str, hook: Any) -> None:
        y = weft.ones(2, requires_grad=True) * 3
        getattr(y.grad_fn, register)(hook)
        with pytest.raises(TypeError, match="expected tuple, but hook returned"):
            y.sum().backward()

    for register, hook in (
        ("register_hook", lambda given, _: given[0]),
        ("register_hook", lambda given, _: 3),
        ("register_prehook", lambda given: given[0]),
        ("register_prehook", lambda given: [given[0]]),
    ):
        if compiled:
            with weft.compiled_autograd.enable():
                run(register, hook)
        else:
            run(register, hook)


class Halved(weft.autograd.Function):
    """Writes through NumPy, which counts nothing."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        memory = np.asarray(x.detach().numpy())
        memory /= 2
        ctx.mark_dirty(x)
        return x

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        return gradient / 2


def test_what_is_marked_as_written_counts_as_written() -> None:
    leaf = weft.ones(3, requires_grad=True)
    x = leaf * 1
    square = x * x
    Halved.apply(x)
    assert x._version == 1
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        square.sum().backward()


def test_a_leaf_may_not_be_written_by_a_function() -> None:
    with pytest.raises(RuntimeError, match="a leaf Variable that requires grad"):
        Halved.apply(weft.ones(3, requires_grad=True))


def test_one_of_several_views_may_not_be_written_by_a_function() -> None:
    x = weft.ones(2, 3, requires_grad=True)
    for pieces in ((x * 1).unbind(0), (x * 1).split(1), (x * 1).chunk(2)):
        with pytest.raises(RuntimeError, match="is a view and is being modified inplace"):
            Halved.apply(pieces[0])
    Halved.apply((x * 1)[0])
    Halved.apply(weft.ones(2, 3).unbind(0)[0])


def test_attributes_of_contexts_are_read_from_nodes_whatever_they_are_called() -> None:
    class Counted(weft.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            ctx.count, ctx.positions = 0, "here"
            return x * 1

        @staticmethod
        def backward(ctx: Any, gradient: Tensor) -> Tensor:
            ctx.count += 1
            return gradient * ctx.count

    x = weft.ones(2, requires_grad=True)
    y = Counted.apply(x)
    for _ in range(3):
        y.sum().backward(retain_graph=True)
    assert y.grad_fn.count == 3 and y.grad_fn.positions == "here"
    y.grad_fn.count = 10
    y.sum().backward()
    assert x.grad.tolist() == [1 + 2 + 3 + 11] * 2


def test_a_functional_form_without_gradients_computes_nothing() -> None:
    node = weft.ones(2, requires_grad=True).sin().grad_fn
    assert weft.compiled_autograd.ops[node.name()]((None,), (True,), node.packed()) == (None,)

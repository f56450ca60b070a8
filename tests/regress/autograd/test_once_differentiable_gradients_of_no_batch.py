"""A backward marked with @once_differentiable, asked for a batch of seeds, may give gradients that are the same for
every seed: they have no batch dim, and none may be taken for one."""

import pytest

import weft
from weft.autograd import Function
from weft.autograd.function import once_differentiable


class Pair(Function):
    """(a * b, a): the second output says nothing of b."""

    @staticmethod
    def forward(ctx, a, b):
        ctx.save_for_backward(a, b)
        return a * b, a.clone()

    @staticmethod
    @once_differentiable
    def backward(ctx, first, second):
        a, b = ctx.saved_tensors
        return first * b + second, first * a


class Constant(Function):
    """Its gradient depends on no seed."""

    @staticmethod
    def forward(ctx, a):
        return a * 3

    @staticmethod
    @once_differentiable
    def backward(ctx, seed):
        return weft.full((4,), 3.0, dtype=weft.float64)


def points(*sizes):
    return [weft.rand(n, dtype=weft.float64, requires_grad=True) for n in sizes]


@pytest.mark.parametrize("create_graph", [False, True])
def test_a_gradient_of_zeros_keeps_its_shape(create_graph):
    a, b = points(4, 4)
    second = Pair.apply(a, b)[1]
    grads = weft.autograd.grad(
        second, (a, b), weft.eye(4, dtype=weft.float64).requires_grad_(create_graph), is_grads_batched=True,
        create_graph=create_graph,
    )
    assert grads[0].tolist() == weft.eye(4).tolist()
    assert grads[1].tolist() == [[0.0] * 4] * 4


@pytest.mark.parametrize("create_graph", [False, True])
@pytest.mark.parametrize("batch", [1, 2, 4])
def test_a_gradient_that_depends_on_no_seed(create_graph, batch):
    (a,) = points(4)
    seeds = weft.rand(batch, 4, dtype=weft.float64, requires_grad=create_graph)
    (grad,) = weft.autograd.grad(
        Constant.apply(a), a, seeds, is_grads_batched=True, create_graph=create_graph
    )
    assert grad.tolist() == [[3.0] * 4] * batch


def test_gradcheck_of_batches():
    assert weft.autograd.gradcheck(Pair.apply, points(3, 3), check_batched_grad=True)

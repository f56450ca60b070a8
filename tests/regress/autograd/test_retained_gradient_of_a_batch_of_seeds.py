"""A tensor that retains its gradient keeps none of a batch of gradients, which are no tensors of its own: what runs
later adds to what it keeps."""

import pytest

import weft


@pytest.mark.parametrize("seeds_want", [False, True])
def test_backward_after_a_batch_of_seeds(seeds_want):
    x = weft.rand(3, dtype=weft.float64, requires_grad=True)
    y = x * 2
    y.retain_grad()
    z = y * y
    seeds = weft.eye(3, dtype=weft.float64).requires_grad_(seeds_want)
    (rows,) = weft.autograd.grad(z, x, seeds, is_grads_batched=True, retain_graph=True)
    assert rows.tolist() == weft.diag(8 * x.detach()).tolist()
    assert y.grad is None
    for count in (1, 2):
        z.sum().backward(retain_graph=True)
        assert weft.allclose(y.grad, count * 2 * y)


@pytest.mark.parametrize("options", [{}, {"vectorize": True}])
def test_jacobian_of_a_function_that_retains(options):
    def f(x):
        y = x.sin()
        y.retain_grad()
        return y * y

    x = weft.rand(4, dtype=weft.float64)
    assert weft.allclose(weft.autograd.functional.jacobian(f, x, **options), weft.diag(2 * x.sin() * x.cos()))


def test_gradcheck_of_a_tensor_that_retains():
    x = weft.rand(3, dtype=weft.float64, requires_grad=True)
    y = x.exp()
    y.retain_grad()
    assert weft.autograd.gradcheck(lambda t: t.sin(), y, check_batched_grad=True)
    assert weft.autograd.gradgradcheck(lambda t: t.sin(), y)

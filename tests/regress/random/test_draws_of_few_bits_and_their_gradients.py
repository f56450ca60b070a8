"""Numbers of few bits come from draws of more: the tail of an exponential is as long as ever. And the parameters of
`normal` have the gradient zero: the numbers are drawn, and are no function of them."""

import numpy as np
import pytest

import weft
from weft.nn import functional as F

COUNT = 200_000


@pytest.mark.parametrize("dtype", [weft.float16, weft.bfloat16, weft.float32, weft.float64])
@pytest.mark.parametrize("ways", ["eager", "compiled", "lazy"])
def test_tail_of_the_exponential(dtype, ways):
    weft.manual_seed(3)
    draw = lambda x: x.exponential_(0.5)  # noqa: E731
    x = weft.empty(COUNT, dtype=dtype)
    drawn = (weft.compile(draw) if ways == "compiled" else draw)(x.to("lazy") if ways == "lazy" else x).cpu()
    values = drawn.double().numpy()
    assert drawn.dtype == dtype
    assert abs(values.mean() - 2) < 0.05 and abs(values.std() - 2) < 0.05
    assert values.max() > 16  # exp(-8) of them are above
    # as many as there should be in each of ten parts
    parts = np.histogram(values, -np.log1p(-np.arange(10) / 10) * 2)[0]
    assert np.abs(parts / COUNT - 0.1).max() < 0.01


@pytest.mark.parametrize("dtype", [weft.int64, weft.bool, weft.complex64])
def test_exponentials_are_floating_point_numbers(dtype):
    with pytest.raises(RuntimeError, match="exponential"):
        weft.empty(3, dtype=dtype).exponential_()


@pytest.mark.parametrize("dtype", [weft.bfloat16, weft.float32])
def test_gumbel_of_few_bits(dtype):
    weft.manual_seed(0)
    logits = weft.tensor([0.0, 5.0], dtype=dtype).expand(COUNT, 2)
    share = F.gumbel_softmax(logits, hard=True)[:, 0].double().mean()
    assert abs(share - 1 / (1 + np.exp(5))) < 1e-3


CASES = {
    "two tensors": (lambda m, s: weft.normal(m, s), (3, 1), (4,)),
    "a mean": (lambda m, s: weft.normal(m, 2.0), (3,), (3,)),
    "a deviation": (lambda m, s: weft.normal(1.0, s), (3,), (3,)),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("ways", ["eager", "compiled"])
@pytest.mark.parametrize("dtype", [weft.float32, weft.float64])
def test_gradients_of_normal_are_zero(case, ways, dtype):
    function, mean_dims, std_dims = CASES[case]
    mean, std = weft.rand(mean_dims, dtype=dtype, requires_grad=True), weft.rand(std_dims, dtype=dtype).add_(1)
    std.requires_grad_()

    def step(mean, std):
        out = function(mean, std)
        out.sum().backward()
        return out.detach()

    out = (weft.compile(step) if ways == "compiled" else step)(mean, std)
    assert out.std() > 0
    for tensor, is_used in ((mean, case != "a deviation"), (std, case != "a mean")):
        assert (tensor.grad is not None) == is_used
        assert not is_used or (tensor.grad.shape == tensor.shape and not tensor.grad.any())


def test_tangent_of_normal_is_zero():
    out, tangent = weft.func.jvp(lambda m: weft.normal(m, 1.0), (weft.zeros(3),), (weft.ones(3),))
    assert out.any() and not tangent.any()


def test_dtype_and_moments_of_normal():
    weft.manual_seed(1)
    out = weft.normal(weft.full((COUNT, 1), 3.0, dtype=weft.float64), weft.tensor([0.5, 2.0]))
    assert out.dtype == weft.float64 and out.shape == (COUNT, 2)
    assert weft.allclose(out.mean(0), weft.tensor([3.0, 3.0], dtype=weft.float64), atol=0.03)
    assert weft.allclose(out.std(0), weft.tensor([0.5, 2.0], dtype=weft.float64), atol=0.03)

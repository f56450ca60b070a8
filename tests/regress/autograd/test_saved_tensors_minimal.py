"""What is saved, and what is not: second runs and writes that PyTorch allows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import weft
from weft.nn import functional as F


def drawn(rng: np.random.Generator, *dims: int) -> weft.Tensor:
    return weft.from_numpy(rng.uniform(0.1, 0.9, dims)).requires_grad_()


def test_a_lerp_by_a_number_saves_nothing(rng: np.random.Generator) -> None:
    x, end = drawn(rng, 4), drawn(rng, 4)
    out = weft.lerp(x, end, 0.25).sum()
    out.backward()
    out.backward()
    assert x.grad is not None and np.allclose(x.grad.numpy(), 1.5)
    out = weft.lerp(x, end, weft.full((4,), 0.25, dtype=weft.float64)).sum()
    out.backward()
    with pytest.raises(RuntimeError, match="second time"):
        out.backward()


@pytest.mark.parametrize("decompose", [
    lambda a: weft.linalg.svd(a, full_matrices=False)[1], lambda a: weft.linalg.svd(a, full_matrices=False)[0].abs(),
    weft.linalg.svdvals, lambda a: weft.linalg.qr(a)[1],
])
def test_factors_are_saved_not_the_matrix(decompose: Any, rng: np.random.Generator) -> None:
    def gradient(writes: bool) -> Any:
        x = weft.from_numpy(matrix).requires_grad_()
        a = x * 1
        out = decompose(a)
        if writes:
            with weft.no_grad():
                a.mul_(3)
        out.sum().backward()
        assert x.grad is not None
        return x.grad.numpy()

    matrix = rng.standard_normal((4, 3))
    np.testing.assert_array_equal(gradient(True), gradient(False))


def test_results_that_may_be_written(rng: np.random.Generator) -> None:
    x = drawn(rng, 5)
    out = weft.erfinv(x)
    with weft.no_grad():
        out.zero_()
    out.sum().backward()
    expected = np.sqrt(np.pi) / 2 * np.exp(weft.erfinv(x).detach().numpy() ** 2)
    assert x.grad is not None and np.allclose(x.grad.numpy(), expected)


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_averages_over_windows_of_one_element_have_memory_of_their_own(rank: int, rng: np.random.Generator) -> None:
    x = weft.from_numpy(rng.standard_normal((2, 3, *[4] * rank)))
    before = x.numpy().copy()
    pooled = getattr(F, f"adaptive_avg_pool{rank}d")(x, (4,) * rank)
    pooled.mul_(2)
    np.testing.assert_array_equal(x.numpy(), before)


def test_an_expanded_gradient_of_a_strided_write(rng: np.random.Generator) -> None:
    x, src = drawn(rng, 3, 3), drawn(rng, 2, 2)
    weft.as_strided_scatter(x, src, (2, 2), (1, 2)).sum().backward()
    assert x.grad is not None and src.grad is not None
    np.testing.assert_array_equal(x.grad.numpy().reshape(-1), [0] * 4 + [1] * 5)
    np.testing.assert_array_equal(src.grad.numpy(), np.ones((2, 2)))


def test_draws_have_gradients_of_zero(rng: np.random.Generator) -> None:
    p = drawn(rng, 6)
    out = weft.bernoulli(p)
    assert out.grad_fn is not None and out.grad_fn.name() == "BernoulliBackward0"
    out.sum().backward()
    assert p.grad is not None and not p.grad.numpy().any()


@pytest.mark.parametrize(("loss", "name"), [
    (F.mse_loss, "MseLossBackward0"), (F.smooth_l1_loss, "SmoothL1LossBackward0"),
    (F.huber_loss, "HuberLossBackward0"), (F.binary_cross_entropy, "BinaryCrossEntropyBackward0"),
    (F.binary_cross_entropy_with_logits, "BinaryCrossEntropyWithLogitsBackward0"),
    (lambda x, y: F.nll_loss(x, y.long()[:, 0]), "NllLossBackward0"),
    (lambda x, y: weft.addmm(y.t() @ y, x.t(), x, beta=0.5, alpha=2), "AddmmBackward0"),
    (lambda x, y: weft.mv(x, y[0]), "MvBackward0"), (lambda x, y: weft.dot(x[0], y[0]), "DotBackward0"),
    (lambda x, y: F.conv1d(x[None], y[:, None, :2].expand(-1, 4, -1), y[:, 0]), "ConvolutionBackward0"),
    (lambda x, y: F.batch_norm(x, None, None, y[0], y[1], True), "NativeBatchNormBackward0"),
    (lambda x, y: F.prelu(x, y[0]), "PreluKernelBackward0"), (lambda x, y: F.celu(x), "CeluBackward0"),
    (lambda x, y: x.repeat(2, 1, 3), "RepeatBackward0"), (lambda x, y: x.tile(2), "RepeatBackward0"),
    (lambda x, y: x.trace(), "TraceBackward0"), (lambda x, y: x.nansum(0), "NansumBackward0"),
    (lambda x, y: F.conv_transpose1d(x[None], y[:, None, :2], y[:1, 0]), "ConvolutionBackward0"),
])
def test_one_node_where_pytorch_has_one(loss: Any, name: str, rng: np.random.Generator) -> None:
    out = loss(drawn(rng, 4, 4), drawn(rng, 4, 4))
    assert out.grad_fn.name() == name and out.grad_fn.next_functions[0][0] is not None

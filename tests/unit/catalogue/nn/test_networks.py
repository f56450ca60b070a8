"""What neural networks are made of, against closed forms in NumPy."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

import weft
from weft.nn import functional as F


def tensor(x, grad=False):
    return weft.tensor(x, dtype=weft.float64, requires_grad=grad)


def softmax(x, axis=-1):
    e = np.exp(x - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


def close(got, expected, tol=1e-10):
    np.testing.assert_allclose(got.detach().numpy(), expected, rtol=tol, atol=tol)


# ---- attention


def test_attention_masks(rng):
    length, width = int(rng.integers(2, 7)), int(rng.integers(2, 6))
    q, k, v = rng.normal(size=(3, 2, length, width))
    scores = q @ k.swapaxes(1, 2) / math.sqrt(width)
    close(F.scaled_dot_product_attention(tensor(q), tensor(k), tensor(v)), softmax(scores) @ v)
    hidden = np.triu(np.full((length, length), -np.inf), 1)
    close(F.scaled_dot_product_attention(tensor(q), tensor(k), tensor(v), is_causal=True), softmax(scores + hidden) @ v)
    bias = rng.normal(size=(length, length))
    close(F.scaled_dot_product_attention(tensor(q), tensor(k), tensor(v), tensor(bias), scale=0.3),
          softmax(scores * math.sqrt(width) * 0.3 + bias) @ v)


def test_attention_to_nothing_is_zero(rng):
    q, k, v = (tensor(a, True) for a in rng.normal(size=(3, 4, 3)))
    mask = np.ones((4, 4), bool)
    mask[1] = False
    out = F.scaled_dot_product_attention(q, k, v, weft.tensor(mask))
    assert (out[1] == 0).all() and np.isfinite(out.detach().numpy()).all()
    out.sum().backward()
    assert np.isfinite(q.grad.numpy()).all() and (q.grad[1] == 0).all()


# ---- losses


@pytest.mark.parametrize("reduction", ["none", "sum", "mean"])
@pytest.mark.parametrize("smoothing", [0.0, 0.2])
@pytest.mark.parametrize("weighted", [False, True])
def test_cross_entropy_of_classes(rng, reduction, smoothing, weighted):
    n, c, m = 5, 4, 3
    x, t = rng.normal(size=(n, c, m)), rng.integers(0, c, (n, m))
    t[0, 0] = ignored = 2
    w = rng.uniform(0.5, 2, c) if weighted else np.ones(c)
    logs = np.log(softmax(x, 1))
    keep = t != ignored
    picked = np.take_along_axis(logs, t[:, None], 1)[:, 0]
    loss = (1 - smoothing) * -picked * w[t] + smoothing / c * -(logs * w[None, :, None]).sum(1)
    loss = np.where(keep, loss, 0)
    expected = {"none": loss, "sum": loss.sum(), "mean": loss.sum() / (w[t] * keep).sum()}[reduction]
    got = F.cross_entropy(
        tensor(x), weft.tensor(t), tensor(w) if weighted else None, ignore_index=ignored, reduction=reduction,
        label_smoothing=smoothing,
    )
    close(got, expected)


def test_cross_entropy_of_probabilities(rng):
    x, p = rng.normal(size=(5, 4)), softmax(rng.normal(size=(5, 4)))
    close(F.cross_entropy(tensor(x), tensor(p)), -(np.log(softmax(x)) * p).sum(1).mean())


def test_a_class_out_of_bounds_is_an_index_error():
    with pytest.raises(IndexError, match="index 4 is out of bounds for dimension 1 with size 4"):
        F.cross_entropy(weft.zeros(2, 4), weft.tensor([0, 4]))
    with pytest.raises(ValueError, match=r"Expected input batch_size \(2\) to match target batch_size \(3\)"):
        F.cross_entropy(weft.zeros(2, 4), weft.tensor([0, 1, 2]))


def test_losses_of_differences(rng):
    x, y = rng.normal(size=(2, 3, 4)) * 2
    d = np.abs(x - y)
    close(F.mse_loss(tensor(x), tensor(y)), (d**2).mean())
    close(F.l1_loss(tensor(x), tensor(y), reduction="sum"), d.sum())
    close(F.smooth_l1_loss(tensor(x), tensor(y), beta=0.5), np.where(d < 0.5, d * d, d - 0.25).mean())
    close(F.huber_loss(tensor(x), tensor(y), delta=0.7), np.where(d <= 0.7, d * d / 2, 0.7 * (d - 0.35)).mean())
    p, t = 1 / (1 + np.exp(-x)), rng.uniform(size=x.shape)
    expected = -(t * np.log(p) + (1 - t) * np.log(1 - p)).mean()
    close(F.binary_cross_entropy(tensor(p), tensor(t)), expected)
    close(F.binary_cross_entropy_with_logits(tensor(x), tensor(t)), expected)
    assert F.binary_cross_entropy_with_logits(tensor([1000.0, -1000.0]), tensor([1.0, 0.0])).item() == 0


# ---- norms


def test_layer_norm_and_its_second_derivative(rng):
    x, w, b = rng.normal(size=(4, 5)), rng.normal(size=5), rng.normal(size=5)

    def reference(t):
        mean = t.mean(-1, keepdim=True)
        centred = t - mean
        return centred * ((centred * centred).mean(-1, keepdim=True) + 1e-5).rsqrt() * tensor(w) + tensor(b)

    def second(f):
        t = tensor(x, True)
        (g,) = weft.autograd.grad((f(t) ** 3).sum(), [t], create_graph=True)
        (h,) = weft.autograd.grad((g * g).sum(), [t])
        return g, h

    for got, expected in (
        zip(second(lambda t: F.layer_norm(t, (5,), tensor(w), tensor(b))), second(reference), strict=True)
    ):
        close(got, expected.detach().numpy(), 1e-8)


def test_batch_norm_moves_its_statistics(rng):
    x = rng.normal(size=(6, 3, 2))
    mean, var = weft.zeros(3, dtype=weft.float64), weft.ones(3, dtype=weft.float64)
    out = F.batch_norm(tensor(x, True), mean, var, training=True, momentum=0.25)
    m, v = x.mean((0, 2), keepdims=True), x.var((0, 2), keepdims=True)
    close(out, (x - m) / np.sqrt(v + 1e-5))
    close(mean, 0.25 * m.reshape(3))
    close(var, 0.75 + 0.25 * x.var((0, 2), ddof=1))
    assert not mean.requires_grad
    close(
        F.batch_norm(tensor(x), mean, var),
        (x - mean.numpy()[None, :, None]) / np.sqrt(var.numpy()[None, :, None] + 1e-5),
    )


def test_half_precision_is_computed_in_float32(rng):
    x = weft.tensor(rng.normal(size=(3, 4000)), dtype=weft.float32)
    for f in (
        (lambda t: weft.softmax(t, 1), lambda t: F.layer_norm(t, (4000,)), lambda t: F.gelu(t), lambda t: t @ t.t())
    ):
        half = f(x.half())
        assert half.dtype is weft.float16
        np.testing.assert_allclose(
            half.float().numpy(), f(x.half().float()).half().float().numpy(), rtol=2e-3, atol=1e-6
        )


# ---- windows


def test_convolution_against_loops(rng):
    n, groups, h, k, s, p, d = 2, 2, 7, 3, int(rng.integers(1, 3)), int(rng.integers(0, 3)), int(rng.integers(1, 3))
    x, w, b = rng.normal(size=(n, 4, h, h)), rng.normal(size=(6, 2, k, 2)), rng.normal(size=6)
    padded = np.pad(x, [(0, 0), (0, 0), (p, p), (p, p)])
    rows = (h + 2 * p - d * (k - 1) - 1) // s + 1
    columns = (h + 2 * p - d - 1) // s + 1
    expected = np.zeros((n, 6, rows, columns))
    for o, i, j in itertools.product(range(6), range(rows), range(columns)):
        group = slice(2, 4) if o >= 3 else slice(0, 2)
        window = padded[:, group, i * s : i * s + d * (k - 1) + 1 : d, j * s : j * s + d + 1 : d]
        expected[:, o, i, j] = (window * w[o]).sum((1, 2, 3)) + b[o]
    close(F.conv2d(tensor(x), tensor(w), tensor(b), s, p, d, groups), expected)
    y = rng.normal(size=expected.shape)
    back = F.conv_transpose2d(tensor(y), tensor(w), None, s, p, (0, 0), groups, d).numpy()
    whole = (y * (expected - b[None, :, None, None])).sum()
    np.testing.assert_allclose(
        (back * x[:, :, : back.shape[2], : back.shape[3]]).sum() if back.shape == x.shape else whole, whole
    )


def test_pooling(rng):
    x = rng.normal(size=(2, 3, 7))
    windows = np.lib.stride_tricks.sliding_window_view(x, 3, 2)[:, :, ::2]
    close(F.max_pool1d(tensor(x), 3, 2), windows.max(-1))
    close(F.avg_pool1d(tensor(x), 3, 2), windows.mean(-1))
    values, places = F.max_pool1d(tensor(x), 3, 2, return_indices=True)
    np.testing.assert_array_equal(np.take_along_axis(x, places.numpy(), 2), values.numpy())
    close(F.adaptive_avg_pool1d(tensor(x), 2), np.stack([x[..., :4].mean(-1), x[..., 3:].mean(-1)], -1))


def test_padding_modes(rng):
    x = rng.normal(size=(2, 3, 5))
    for mode, name in (("reflect", "reflect"), ("replicate", "edge"), ("circular", "wrap")):
        np.testing.assert_array_equal(F.pad(tensor(x), (2, 1), mode).numpy(), np.pad(x, [(0, 0), (0, 0), (2, 1)], name))
    np.testing.assert_array_equal(
        F.pad(tensor(x), (1, -2, 0, 1), value=3.0).numpy(),
        np.pad(x[..., :-2], [(0, 0), (0, 1), (1, 0)], constant_values=3.0),
    )


def test_linear_interpolation_hits_the_corners(rng):
    x = rng.normal(size=(1, 1, 4))
    got = F.interpolate(tensor(x), size=7, mode="linear", align_corners=True).numpy()[0, 0]
    np.testing.assert_allclose(got, np.interp(np.linspace(0, 3, 7), np.arange(4), x[0, 0]))
    np.testing.assert_array_equal(F.interpolate(tensor(x), scale_factor=2).numpy(), np.repeat(x, 2, 2))


# ---- linear algebra


def test_matmul_of_any_ranks(rng):
    shapes = [
        ((3,), (3,)), ((2, 3), (3,)), ((3,), (3, 2)), ((2, 3), (3, 4)), ((5, 2, 3), (3, 4)), ((5, 2, 3), (3,)),
        ((3,), (5, 3, 2)), ((2, 3), (5, 3, 4)), ((5, 1, 2, 3), (4, 3, 2)), ((0, 2, 3), (3, 2)), ((2, 0), (0, 3)),
    ]
    for a, b in shapes:
        x, y = rng.normal(size=a), rng.normal(size=b)
        close(tensor(x) @ tensor(y), x @ y)
    with pytest.raises(RuntimeError, match=r"mat1 and mat2 shapes cannot be multiplied \(2x3 and 4x2\)"):
        weft.zeros(2, 3) @ weft.zeros(4, 2)


def test_cholesky_gradient_is_symmetric_and_right(rng):
    root = rng.normal(size=(3, 3))
    a, step, weights = root @ root.T + 2 * np.eye(3), rng.normal(size=(3, 3)), np.tril(rng.normal(size=(3, 3)))
    step = step + step.T
    t = tensor(a, True)
    (weft.linalg.cholesky(t) * tensor(weights)).sum().backward()
    up, down = (np.linalg.cholesky(a + s * 1e-6 * step) for s in (1, -1))
    np.testing.assert_allclose((t.grad.numpy() * step).sum(), ((up - down) * weights).sum() / 2e-6, rtol=1e-5)
    np.testing.assert_allclose(t.grad.numpy(), t.grad.numpy().T)
    with pytest.raises(RuntimeError, match="not positive-definite"):
        weft.linalg.cholesky(tensor(-a))


def test_embedding_padding_gets_no_gradient(rng):
    table = tensor(rng.normal(size=(5, 3)), True)
    F.embedding(weft.tensor([1, 2, 1, 4]), table, padding_idx=-4).sum().backward()
    assert table.grad.sum(1).tolist() == [0, 0, 3, 0, 3]
    with pytest.raises(IndexError, match="index out of range in self"):
        F.embedding(weft.tensor([5]), table)


def test_products_are_tensors_of_their_own():
    x, w = weft.ones(2, 3, 4, requires_grad=True), weft.ones(5, 4, requires_grad=True)
    for made in (F.linear(x, w), x @ w.t(), x @ w[0], w[0] @ x.transpose(1, 2), x[0].mv(w[0]), w[0].dot(w[1])):
        assert made._base is None
        made.mul_(2).sum().backward()

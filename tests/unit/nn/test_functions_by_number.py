"""PyTorch's own operators under `weft`: nn.functional's functions with numbers for words, in other orders."""

from __future__ import annotations

import numpy as np
import pytest

import weft
import weft.nn.functional as F

Rng = np.random.Generator
WORDS = ("none", "mean", "sum")


def draw(rng: Rng, *dims: int) -> weft.Tensor:
    return weft.from_numpy(rng.normal(size=dims))


@pytest.mark.parametrize("number", range(3))
def test_losses(number: int, rng: Rng) -> None:
    a, b, c, word = draw(rng, 3, 4), draw(rng, 3, 4), draw(rng, 3, 4), WORDS[number]
    sign = weft.tensor([1.0, -1.0, 1.0], dtype=weft.float64)
    lengths, log_probs = weft.tensor([5, 4]), draw(rng, 5, 2, 4).log_softmax(2)
    targets, target_lengths = weft.tensor([[1, 2], [3, 1]]), weft.tensor([2, 1])
    for got, expected in (
        (
            weft.binary_cross_entropy_with_logits(a, b.sigmoid(), None, c.exp(), number),
            F.binary_cross_entropy_with_logits(a, b.sigmoid(), pos_weight=c.exp(), reduction=word),
        ),
        (weft.cosine_embedding_loss(a, b, sign, 0.1, number), F.cosine_embedding_loss(a, b, sign, 0.1, reduction=word)),
        (weft.hinge_embedding_loss(a[0, :3], sign, 1, number), F.hinge_embedding_loss(a[0, :3], sign, reduction=word)),
        (weft.kl_div(a, b, number, log_target=True), F.kl_div(a, b, reduction=word, log_target=True)),
        (weft.triplet_margin_loss(a, b, c, reduction=number), F.triplet_margin_loss(a, b, c, reduction=word)),
        (
            weft.poisson_nll_loss(a, b.exp(), True, True, 1e-8, number),
            F.poisson_nll_loss(a, b.exp(), full=True, reduction=word),
        ),
        (
            weft.ctc_loss(log_probs, targets, lengths, target_lengths, 0, number),
            F.ctc_loss(log_probs, targets, lengths, target_lengths, reduction=word),
        ),
    ):
        np.testing.assert_array_equal(got.numpy(), expected.numpy())
    with pytest.raises(ValueError, match="from 0 to 2"):
        weft.kl_div(a, b, 3)


def test_layers(rng: Rng) -> None:
    x, weight, bias = draw(rng, 7, 2, 3), draw(rng, 3, 3, 5), draw(rng, 5)
    out = weft.conv_tbc(x, weight, bias, 1).numpy()
    padded = np.pad(x.numpy(), ((1, 1), (0, 0), (0, 0)))
    expected = sum(padded[k : k + 7] @ weight.numpy()[k] for k in range(3)) + bias.numpy()
    np.testing.assert_allclose(out, expected, rtol=1e-12)
    image, kernel = draw(rng, 2, 4, 7, 5), draw(rng, 4, 2, 3, 3)
    np.testing.assert_array_equal(
        weft.convolution(image, kernel, None, [2, 2], [1, 1], [1, 1], True, [1, 0], 2).numpy(),
        F.conv_transpose2d(image, kernel, None, 2, 1, (1, 0), 2).numpy(),
    )
    out, mean, rstd = weft.native_batch_norm(image, None, None, None, None, True, 0.1, 1e-5)
    values = image.numpy()
    np.testing.assert_allclose(mean.numpy(), values.mean((0, 2, 3)))
    np.testing.assert_allclose(rstd.numpy(), 1 / np.sqrt(values.var((0, 2, 3)) + 1e-5))
    centred = values - values.mean((0, 2, 3), keepdims=True)
    np.testing.assert_allclose(out.numpy(), centred * rstd.numpy()[:, None, None])
    values = values.reshape(2, 2, -1)
    _, mean, rstd = weft.native_group_norm(image, None, None, 2, 4, 35, 2, 1e-5)
    np.testing.assert_allclose(rstd.numpy(), 1 / np.sqrt(values.var(-1) + 1e-5))
    np.testing.assert_allclose(mean.numpy(), values.mean(-1))
    np.testing.assert_allclose(weft.norm_except_dim(x, 2, 1).numpy().ravel(), np.sqrt((x.numpy() ** 2).sum((0, 2))))


def test_bags(rng: Rng) -> None:
    table = draw(rng, 5, 3)
    indices, offsets = weft.tensor([0, 1, 4, 2]), weft.tensor([0, 3])
    out, bag, sizes, rows = weft.embedding_bag(table, indices, offsets, mode=2)
    assert bag.tolist() == [0, 0, 0, 1] and sizes.tolist() == [3, 1]
    np.testing.assert_array_equal(out.numpy()[0], table.numpy()[[0, 1, 4]].max(0))
    np.testing.assert_array_equal(out.numpy(), np.take_along_axis(table.numpy(), rows.numpy(), 0))
    weft.embedding_renorm_(table, weft.tensor([1, 1]), 0.1, 2.0)
    norms = table.norm(dim=1).numpy()
    assert norms[1] == pytest.approx(0.1, rel=1e-4) and (np.delete(norms, 1) > 0.1).all()


def test_dropped_in_place() -> None:
    for name in ("alpha_dropout_", "feature_dropout_", "feature_alpha_dropout_", "dropout_"):
        x = weft.ones(6, 40, 3)
        assert getattr(weft, name)(x, 0.5, True) is x and (x != 1).any()
    x = weft.feature_dropout(weft.ones(6, 40, 3), 0.5, True)
    assert (x == x[:, :, :1]).all() and set(x.unique().tolist()) == {0, 2}
    out, kept = weft.native_dropout(weft.ones(100), 0.5, True)
    assert kept.dtype is weft.bool and (out == kept * 2).all()


def test_linear_cross_entropy(rng: Rng) -> None:
    """The loss of each place by NumPy, from logits with a dim of places behind the classes."""
    x, weight, target = rng.normal(size=(4, 5)), rng.normal(size=(6, 2, 5)), rng.integers(0, 6, (4, 2))
    target[0, 0] = -100
    logits = np.einsum("ni,cki->nck", x, weight)
    shifted = logits - np.log(np.exp(logits).sum(1, keepdims=True))
    losses = -np.take_along_axis(shifted, np.maximum(target, 0)[:, None], 1)[:, 0]
    expected = losses[target >= 0].mean()
    args = [weft.from_numpy(v) for v in (x, weight, target)]
    for function in (F.linear_cross_entropy, weft.compile(F.linear_cross_entropy)):
        assert function(*args).item() == pytest.approx(expected, rel=1e-12)
    module = weft.nn.LinearCrossEntropyLoss(5, 6, out_features=(2,), bias=True, dtype=weft.float64)
    module.linear.weight.data = weft.from_numpy(weight.reshape(12, 5))
    module.linear.bias.data = weft.zeros(12, dtype=weft.float64)
    assert module(args[0], args[2]).item() == pytest.approx(expected, rel=1e-12)
    with pytest.raises(RuntimeError, match="last dimensions"):
        F.linear_cross_entropy(args[0][:, :3], args[1], args[2])


def test_names_of_older_programs() -> None:
    with pytest.warns(FutureWarning):
        assert list(weft.nn.Container(a=weft.nn.ReLU())._modules) == ["a"]
    with pytest.warns(FutureWarning):
        assert isinstance(weft.nn.NLLLoss2d(), weft.nn.NLLLoss)
    assert weft.nn.factory_kwargs({"dtype": weft.float64, "factory_kwargs": {"device": "cpu"}}) == {
        "dtype": weft.float64, "device": "cpu"
    }
    with pytest.raises(TypeError, match="unexpected kwargs"):
        weft.nn.factory_kwargs({"size": 3})
    net = weft.nn.Sequential(weft.nn.Conv2d(2, 3, 3))
    weft.nn.utils.convert_conv2d_weight_memory_format(net, weft.channels_last)
    assert net[0].weight.is_contiguous(memory_format=weft.channels_last)
    with pytest.warns(UserWarning):
        assert weft.range(1, 4).tolist() == [1, 2, 3, 4] and weft.range(1, 4).dtype is weft.float32
    for function in (weft.solve, weft.lstsq, weft.Tensor.solve):
        with pytest.raises(RuntimeError, match="is now removed"):
            function(weft.eye(2), weft.eye(2))
    x = weft.tensor([1.0, 2.0])
    assert x.map2_(x, weft.tensor([3.0, 4.0]), lambda a, b, c: a + b * c).tolist() == [4, 10]


def test_numbers_that_may_be_symbols() -> None:
    assert weft.sym_int(-2.7) == -2 and weft.sym_max(2, 1.0) == 2.0 and type(weft.sym_max(2, 1.0)) is float
    assert weft.sym_sum([1, 2, 3]) == 6 and weft.sym_ite(False, 1, 2) == 2 and weft.sym_not(False)

    @weft.compile
    def step(x: weft.Tensor) -> weft.Tensor:
        return x * weft.sym_sum([x.shape[0], 1]) + weft.sym_float(x.shape[0]) / 2

    for n in (3, 5):
        assert step(weft.ones(n)).tolist() == [n + 1 + n / 2] * n


def test_a_list_among_lazy_results(rng: Rng) -> None:
    """Calls of one form are learnt after the first: results that hold a list of tensors stay as they are."""
    points = rng.uniform(0, 1, (9, 2))
    edges = np.linspace(0, 1, 4)
    expected = np.histogramdd(points, (edges, edges))[0]
    for _ in range(5):
        lazy = [weft.from_numpy(v).to("lazy") for v in (points, edges)]
        hist, shown = weft.histogramdd(lazy[0], (lazy[1], lazy[1]))
        assert hist.cpu().tolist() == expected.tolist() and len(shown) == 2

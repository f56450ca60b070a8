"""vmap: dims in and out, pytrees, randomness, chunks, writes, and what is refused."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import weft
from weft.func import grad, jvp, vmap


def point(rng, *shape):
    return weft.from_numpy(rng.uniform(0.5, 1.5, shape))


def test_dims_in_and_out(rng):
    x, y = point(rng, 4, 3), point(rng, 3)
    np.testing.assert_allclose(vmap(lambda a, b: a * b, in_dims=(0, None))(x, y).numpy(), x.numpy() * y.numpy())
    np.testing.assert_allclose(vmap(lambda a: a.sum(), in_dims=-1)(x).numpy(), x.numpy().sum(0))
    np.testing.assert_allclose(vmap(lambda a: (a, a * 2), out_dims=(1, -1))(x)[1].numpy(), 2 * x.numpy().T)
    tree = vmap(lambda p: {"s": p["x"] + p["y"][0], "n": weft.ones(2)}, in_dims=({"x": 0, "y": [None]},))(
        {"x": x, "y": [y]}
    )
    np.testing.assert_allclose(tree["s"].numpy(), x.numpy() + y.numpy())
    assert tree["n"].shape == (4, 2)
    shared = vmap(lambda a: (a, y), out_dims=(0, None))(x)[1]
    assert shared is y
    assert weft.vmap(lambda a, *, k: a * k)(x, k=x).shape == (4, 4, 3)  # what is passed by name is not mapped over
    assert weft.vmap is vmap


def test_no_examples(rng):
    assert (
        vmap(lambda a: (a @ weft.ones(3, 2, dtype=weft.float64)).exp())(weft.zeros(0, 5, 3, dtype=weft.float64)).shape
        == (0, 5, 2)
    )
    assert vmap(lambda a: a.reshape(-1).cumsum(0))(weft.zeros(0, 5, 3)).shape == (0, 15)


def test_dtypes_follow_the_examples(rng):
    """A 0-dim example does not widen, though its batch has a dim."""
    x32, s64 = weft.ones(4, 3), weft.ones(4, dtype=weft.float64)
    assert vmap(lambda a, s: a * s)(x32, s64).dtype is weft.float32
    assert vmap(lambda s: s * 2.5)(weft.arange(4)).dtype is weft.float32
    assert (
        vmap(lambda s, t: s + t, in_dims=(0, None))(weft.ones(4), weft.tensor(1.0, dtype=weft.float64)).dtype
        is weft.float64
    )


def test_randomness(rng):
    x = point(rng, 5, 3)
    with pytest.raises(RuntimeError, match="randomness error mode"):
        vmap(lambda a: a + weft.randn(3))(x)
    same = vmap(lambda a: weft.randn(3), randomness="same")(x)
    assert (same == same[0]).all()
    different = vmap(lambda a: weft.rand(3), randomness="different")(x)
    assert len(np.unique(different.numpy())) == 15
    kept = vmap(lambda a: weft.nn.functional.dropout(a, 0.5), randomness="different")(weft.ones(64, 64))
    assert 0.3 < float((kept == 0).float().mean()) < 0.7 and len(np.unique((kept == 0).numpy(), axis=0)) > 32
    masked = vmap(lambda a: weft.nn.functional.dropout(a, 0.5), randomness="same")(weft.ones(8, 64))
    assert (masked == masked[0]).all()
    inside = vmap(lambda a: a.clone().normal_(), randomness="different")(x)
    assert len(np.unique(inside.numpy())) == 15
    nested = vmap(vmap(lambda a: weft.rand(()), randomness="different"), randomness="different")(x)
    assert len(np.unique(nested.numpy())) == 15
    through = vmap(grad(lambda a: (a * weft.rand(3, dtype=weft.float64)).sum()), randomness="different")(x)
    assert len(np.unique(through.numpy())) == 15
    weft.manual_seed(7)
    first = vmap(lambda a: weft.rand(3), randomness="different")(x)
    weft.manual_seed(7)
    assert (vmap(lambda a: weft.rand(3), randomness="different")(x) == first).all()


@pytest.mark.parametrize("size", [1, 2, 3, 7, 9])
def test_chunks(size, rng):
    x, y = point(rng, 7, 3), point(rng, 3)
    found = vmap(lambda a, b: (a * b, a.sum()), in_dims=(0, None), out_dims=(1, 0), chunk_size=size)(x, y)
    np.testing.assert_allclose(found[0].numpy(), (x.numpy() * y.numpy()).T)
    np.testing.assert_allclose(found[1].numpy(), x.numpy().sum(1))


def test_writes_go_through_views(rng):
    x = point(rng, 4, 3)
    base = x.clone()
    vmap(lambda a: a[1:].mul_(2))(base)
    expected = x.numpy().copy()
    expected[:, 1:] *= 2
    np.testing.assert_allclose(base.numpy(), expected)

    def f(a: Any, i: Any) -> Any:
        b = a.clone()
        b[i] = 0
        b[weft.tensor([0, 1])] += 1
        b.t() if b.ndim > 1 else b.clamp_(max=1.2)
        return b

    index = weft.tensor([0, 2, 1, 0])
    looped = weft.stack([f(x[k], index[k]) for k in range(4)])
    np.testing.assert_allclose(vmap(f)(x, index).numpy(), looped.numpy())


def test_ordinary_gradients_through_a_write(rng):
    x = point(rng, 4, 3).requires_grad_()
    vmap(lambda a: a.clone().mul_(a).sum())(x).sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), 2 * x.detach().numpy())


def test_a_loop_is_counted_and_warned_of(rng):
    from weft.layers.transforms import fallback

    m = point(rng, 3, 4)
    fallback._warned.clear()
    weft.counters.reset()
    with pytest.warns(UserWarning, match="aten::histc"):
        found = vmap(lambda a: weft.histc(a, 5, 0, 2))(m)
    np.testing.assert_array_equal(found.numpy(), np.stack([np.histogram(row, 5, (0, 2))[0] for row in m.numpy()]))
    assert weft.counters.vmap_loops == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        vmap(lambda a: weft.histc(a, 5, 0, 2))(m)


def test_common_layers_need_no_loop(rng):
    functional = weft.nn.functional
    x, labels = weft.randn(6, 2, 3, 8, 8), weft.randint(0, 3, (6, 2))
    weight, table, sequence = weft.randn(5, 3, 3, 3), weft.randn(9, 4), weft.randn(6, 2, 5, 4)

    def image(x: Any, y: Any, w: Any) -> Any:
        h = functional.max_pool2d(functional.relu(functional.conv2d(x, w, padding=1)), 2)
        h = functional.group_norm(h, 5).flatten(1)
        return functional.cross_entropy(h[:, :3], y)

    def text(s: Any, i: Any) -> Any:
        h = functional.layer_norm(s + functional.embedding(i, table), (4,))
        return functional.scaled_dot_product_attention(h, h, h).softmax(-1).log().logsumexp((0, 1)).sum()

    weft.counters.reset()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = vmap(grad(image, argnums=(0, 2)), in_dims=(0, 0, None))(x, labels, weight)
        tokens = weft.randint(0, 9, (6, 2, 5))
        of_text = vmap(grad(text))(sequence, tokens)
    assert weft.counters.vmap_loops == 0
    for k in range(6):
        one = grad(image, argnums=(0, 2))(x[k], labels[k], weight)
        np.testing.assert_allclose(found[0][k].numpy(), one[0].numpy(), rtol=1e-3, atol=1e-5)
        np.testing.assert_allclose(found[1][k].numpy(), one[1].numpy(), rtol=1e-3, atol=1e-5)
        np.testing.assert_allclose(of_text[k].numpy(), grad(text)(sequence[k], tokens[k]).numpy(), rtol=1e-3, atol=1e-5)


def test_what_is_refused(rng):
    x = point(rng, 3)
    m = point(rng, 3, 3)
    cases = [
        (lambda: vmap(lambda a: a.item())(x), "calling .item"),
        (lambda: vmap(lambda a: a if a > 0 else -a)(x), "weft.where"),
        (lambda: vmap(lambda a: a.numpy())(x), "numpy"),
        (lambda: vmap(lambda a: a * a.data_ptr())(x), "data_ptr.. asks a tensor for its value"),
        (lambda: vmap(lambda a: a.nonzero())(m), "dynamic shape"),
        (lambda: vmap(lambda a: a[a > 1])(m), "mask"),
        (lambda: vmap(lambda a: weft.zeros(()).add_(a))(x), "being vmapped over but `self` not"),
        (lambda: vmap(lambda a: a, in_dims=(0, 0))(x), "in_dims is not compatible with the structure of `inputs`"),
        (lambda: vmap(lambda a: a, in_dims=None)(x), "expected `in_dims` to be int"),
        (
            lambda: vmap(lambda a: a, in_dims=3)(x),
            "Got in_dim=3 for some input, but that input is a Tensor of dimensionality 1",
        ),
        (lambda: vmap(lambda a: a)(2.0), "We cannot vmap over non-Tensor arguments"),
        (lambda: vmap(lambda a, b: a)(x, point(rng, 4)), "to have the same size in the mapped dimension"),
        (lambda: vmap(lambda: x)(), "got no inputs"),
        (lambda: vmap(lambda a: 2.0)(x), "must only return Tensors, got type <class 'float'>"),
        (lambda: vmap(lambda a: a, out_dims=(0, 0))(x), "out_dims is not compatible with the structure of `outputs`"),
        (lambda: vmap(lambda a: a, out_dims=None)(x), "can not return a BatchedTensor when out_dim is None"),
        (lambda: vmap(lambda a: a, out_dims=3)(x), "Dimension out of range"),
        (lambda: vmap(lambda a: a, randomness="some"), "Only allowed values for randomness"),
        (lambda: vmap(lambda a: a, chunk_size=0), "chunk_size should be None or greater than 0"),
        (lambda: vmap(lambda a: a @ a[:2])(m), "expected tensor"),
        (lambda: vmap(lambda a: a.sum(1))(m), "Dimension out of range"),
    ]
    for call, text in cases:
        with pytest.raises((RuntimeError, ValueError, IndexError), match=text):
            call()


def test_a_kept_example_cannot_be_used_later(rng):
    kept: list[Any] = []
    vmap(lambda a: (kept.append(a), a)[1])(point(rng, 3))
    with pytest.raises(RuntimeError, match="used after it has returned"):
        kept[0] + 1


def test_what_an_example_looks_like(rng):
    seen: list[Any] = []
    vmap(lambda a: (seen.extend([a.shape, a.ndim, a.numel(), a.stride(), a.dtype, repr(a)]), a)[1], in_dims=1)(
        weft.arange(6.0).reshape(3, 2)
    )
    assert seen[:5] == [(3,), 1, 3, (2,), weft.float32]
    assert seen[5] == "BatchedTensor(lvl=1, bdim=0, value=\n    tensor([[0., 2., 4.],\n            [1., 3., 5.]])\n)"


def test_per_example_jvp_directions(rng):
    x, v = point(rng, 3), point(rng, 5, 3)
    pushed = vmap(lambda t: jvp(weft.sin, (x,), (t,))[1])(v)
    np.testing.assert_allclose(pushed.numpy(), np.cos(x.numpy()) * v.numpy())


@pytest.mark.parametrize("other", [weft.float64, weft.float16, weft.int64])
def test_writes_keep_the_dtype_of_what_is_written(other, rng):
    a, s = weft.from_numpy(rng.uniform(1, 2, 4).astype(np.float32)), weft.ones(4).to(other) * 2
    shared = weft.ones(()).to(other) * 3
    for f in (
        (lambda a, s: a.clone().add_(s), lambda a, s: a.clone().mul_(shared).add_(s), lambda a, s: a.clone().copy_(s))
    ):
        looped = weft.stack([f(x, y) for x, y in zip(a, s, strict=True)])
        found = vmap(f)(a, s)
        assert found.dtype is weft.float32
        np.testing.assert_allclose(found.numpy(), looped.numpy())
    rows = weft.ones(4, 2, 3, dtype=weft.int64)
    np.testing.assert_array_equal(
        vmap(lambda r, s: r.clone().add_(s), in_dims=(0, 0))(rows, weft.arange(4)).numpy()[:, 0, 0], 1 + np.arange(4)
    )

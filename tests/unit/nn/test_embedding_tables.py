"""Embedding and EmbeddingBag: bags by offsets, weights of samples, max_norm in functional form,
frozen tables, refusals."""

from __future__ import annotations

import numpy as np
import pytest

import weft
from weft import nn
from weft.nn import functional as F


def test_bags_from_offsets(rng: np.random.Generator) -> None:
    table = rng.normal(size=(7, 3))
    places, offsets = rng.integers(0, 7, 9), np.array([0, 2, 2, 5])
    share = rng.normal(size=9)
    bags = np.split(np.arange(9), offsets[1:])
    for mode, reduce in (
        (("sum", lambda rows: rows.sum(0)), ("mean", lambda rows: rows.mean(0)), ("max", lambda rows: rows.max(0)))
    ):
        layer = nn.EmbeddingBag(7, 3, mode=mode, _weight=weft.from_numpy(table.copy()))
        found = layer(weft.from_numpy(places), weft.from_numpy(offsets.astype(np.int32)))  # the two may differ in dtype
        want = [reduce(table[places[bag]]) if len(bag) else np.zeros(3) for bag in bags]
        np.testing.assert_allclose(found.detach().numpy(), want, rtol=1e-12)
    last = nn.EmbeddingBag(7, 3, mode="sum", include_last_offset=True, _weight=weft.from_numpy(table.copy()))
    weights = weft.from_numpy(share).requires_grad_()
    out = last(weft.from_numpy(places), weft.from_numpy(np.append(offsets, 9)), weights)
    np.testing.assert_allclose(
        out.detach().numpy(), [(table[places[b]] * share[b, None]).sum(0) for b in bags], rtol=1e-12, atol=1e-12
    )
    out.sum().backward()
    np.testing.assert_allclose(weights.grad.numpy(), table[places].sum(1), rtol=1e-12)


def test_max_norm_limits_the_rows_that_are_used(rng: np.random.Generator) -> None:
    table = rng.normal(size=(5, 4)) * 3
    places = np.array([[0, 3], [3, 1]])
    norms = np.abs(table).sum(1)
    want = table.copy()
    for row in (0, 1, 3):
        want[row] *= min(1.0, 2.0 / norms[row])
    calls = (
        lambda w: F.embedding(weft.from_numpy(places), w, max_norm=2.0, norm_type=1.0),
        lambda w: F.embedding_bag(weft.from_numpy(places), w, max_norm=2.0, norm_type=1.0, mode="sum"),
    )
    for call in calls:
        weight = weft.from_numpy(table.copy()).requires_grad_()
        out = call(weight)
        np.testing.assert_allclose(weight.detach().numpy(), want, rtol=1e-6)
        np.testing.assert_allclose(
            out.detach().numpy(), want[places] if out.ndim == 3 else want[places].sum(1), rtol=1e-6
        )
        out.sum().backward()
        np.testing.assert_array_equal(weight.grad.numpy()[:, 0], [1, 1, 0, 2, 0])


def test_a_compiled_step_limits_the_rows_too(rng: np.random.Generator) -> None:
    table = rng.normal(size=(5, 4)) * 3
    layer = nn.Embedding(5, 4, max_norm=1.0, _weight=weft.from_numpy(table.copy()))
    plain = nn.Embedding(5, 4, max_norm=1.0, _weight=weft.from_numpy(table.copy()))
    step = weft.compile(lambda i: layer(i).sum())
    for _ in range(2):
        places = weft.from_numpy(rng.integers(0, 5, (2, 2)))
        assert step(places).item() == pytest.approx(plain(places).sum().item(), rel=1e-6)
        np.testing.assert_allclose(layer.weight.detach().numpy(), plain.weight.detach().numpy(), rtol=1e-6)


def test_tables_given_and_refusals() -> None:
    bag = nn.EmbeddingBag.from_pretrained(weft.ones(4, 2), padding_idx=-1)
    assert (
        not bag.weight.requires_grad and bag.padding_idx == 3
        and repr(bag) == "EmbeddingBag(4, 2, mode='mean', padding_idx=3)"
    )
    assert bag(weft.tensor([[3, 3]])).tolist() == [[0.0, 0.0]]
    with pytest.raises(RuntimeError, match="padding_idx must be within"):
        F.embedding_bag(weft.tensor([[1]]), weft.ones(4, 2), padding_idx=4)
    with pytest.raises(ValueError, match="padding_idx must be within"):
        nn.EmbeddingBag(4, 2, padding_idx=-5)
    with pytest.raises(ValueError, match="offsets"):
        bag(weft.tensor([1, 2]))

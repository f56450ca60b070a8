"""Norms over a batch whose size only the run finds, and which may be empty: as eager mode, running statistics too."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import weft
from weft import Tensor, nn

_LAYERS: dict[str, Callable[[], nn.Module]] = {
    "batch": lambda: nn.BatchNorm1d(3), "batch_momentum_none": lambda: nn.BatchNorm1d(3, momentum=None),
    "batch_plain": lambda: nn.BatchNorm1d(3, affine=False),
    "layer": lambda: nn.LayerNorm(2), "instance": lambda: nn.InstanceNorm1d(3, affine=True),
}


def _call(step: Callable[[Tensor, Tensor], Tensor], layer: nn.Module, x: np.ndarray, mask: np.ndarray) -> list[Any]:
    leaf = weft.tensor(x, requires_grad=True)
    layer.zero_grad()
    try:
        out = step(leaf, weft.tensor(mask))
    except (ValueError, RuntimeError) as error:
        return [isinstance(error, ValueError), *[b.tolist() for b in layer.buffers()]]
    (out * out).sum().backward()
    grads = [p.grad for p in layer.parameters()]
    return [out.shape, *[None if t is None else t.detach().numpy() for t in (out, leaf.grad, *grads, *layer.buffers())]]


@pytest.mark.parametrize("name", sorted(_LAYERS))
def test_calls_with_full_and_empty_batches(name: str, rng: np.random.Generator) -> None:
    weft.manual_seed(0)
    eager, mirrored = _LAYERS[name]().double(), _LAYERS[name]().double()
    compiled = weft.compile(lambda x, mask: mirrored(x[mask]))
    for count in (*(int(c) for c in rng.permutation([0, 2, 5])), 0, 3):
        x, mask = rng.normal(size=(6, 3, 2)), np.arange(6) < count
        found = _call(compiled, mirrored, x, mask)
        wanted = _call(lambda x, mask: eager(x[mask]), eager, x, mask)
        assert len(found) == len(wanted) and found[0] == wanted[0]
        for a, b in zip(found[1:], wanted[1:], strict=True):
            assert (a is None) == (b is None)
            if a is not None:
                np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12)


def test_one_row_is_refused_and_leaves_statistics_alone(rng: np.random.Generator) -> None:
    layer = nn.BatchNorm1d(3)
    compiled = weft.compile(lambda x, mask: layer(x[mask]))
    compiled(weft.tensor(rng.normal(size=(4, 3))).float(), weft.tensor([True] * 4))
    before = [b.tolist() for b in layer.buffers()]
    with pytest.raises(ValueError, match="more than 1 value per channel"):
        compiled(weft.tensor(rng.normal(size=(4, 3))).float(), weft.tensor([True, False, False, False]))
    assert [b.tolist() for b in layer.buffers()] == before

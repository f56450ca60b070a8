"""A checkpointed region that saves what a mask picks was refused on lazy tensors and in split functions: its second run
has another name for the size that only the run knows, which counted as another size."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import weft
from weft.utils.checkpoint import CheckpointError, checkpoint


def step(x: weft.Tensor) -> weft.Tensor:
    def region(v: weft.Tensor) -> weft.Tensor:
        return v * 2 + weft.sort(v[v.detach() > 0])[0].exp().sum()

    return checkpoint(region, x, use_reentrant=False)  # type: ignore[no-any-return]


WAYS: dict[str, tuple[str, Callable[..., Any]]] = {
    "lazy": ("lazy", step), "split": ("cpu", weft.compile(step, split=True)), "compile": ("cpu", weft.compile(step)),
}


@pytest.mark.parametrize("way", WAYS)
def test_the_second_run_gives_the_gradient(way: str) -> None:
    device, function = WAYS[way]
    for n in (5, 6, 5):
        gradients = []
        for where, f in (("cpu", step), (device, function)):
            x = weft.linspace(-0.9, 1.1, n, dtype=weft.float64, device=where).requires_grad_()
            f(x).sum().backward()
            assert x.grad is not None
            gradients.append(x.grad.cpu())
        assert weft.allclose(*gradients)


def test_another_size_is_still_refused() -> None:
    counts = iter((2, 3))

    def region(v: weft.Tensor) -> weft.Tensor:
        return v[: next(counts)].exp().sum() + v

    x = weft.ones(4, requires_grad=True)
    out = checkpoint(region, x, use_reentrant=False)
    with pytest.raises(CheckpointError, match="different metadata"):
        out.sum().backward()

"""A call has the default dtype that held when it was made, whenever its program runs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import weft
from tests.deferred import deferred

DTYPES = [weft.float32, weft.float64, weft.float32, weft.float64]


@pytest.fixture(autouse=True)
def _default_again() -> Iterator[None]:
    yield
    weft.set_default_dtype(weft.float32)


def made(i: weft.Tensor) -> list[weft.Tensor]:
    """What takes the default dtype: factories, and functions and quotients of integers."""
    like = {"device": i.device}
    return [
        weft.zeros(2, **like) + 1.5, i.sin(), i / 3, i * 0.1, weft.arange(0, 1, 0.3, **like),
        weft.full((2,), 0.1, **like),
        weft.eye(2, **like), weft.linspace(0, 1, 3, **like), weft.where(i > 0, 0.1, 0.7), (i + 1).logsumexp(0),
        weft.fft.fft(i),
    ]  # fmt: skip


def shown(found: list[weft.Tensor]) -> list[Any]:
    return [(t.dtype, t.cpu().tolist()) for t in found]


def close(found: list[Any], wanted: list[Any]) -> bool:
    return all(
        a[0] is b[0] and weft.allclose(weft.tensor(a[1], dtype=a[0]), weft.tensor(b[1], dtype=b[0]), rtol=1e-6)
        for a, b in zip(found, wanted, strict=True)
    )


@pytest.mark.parametrize("leaves", [False, True])
def test_of_the_lazy_device(leaves: bool) -> None:
    for dtype in DTYPES:
        weft.set_default_dtype(dtype)
        wanted = shown(made(weft.arange(3)))
        found = made(weft.arange(3).to("lazy"))
        if leaves:
            weft.set_default_dtype(weft.float64 if dtype is weft.float32 else weft.float32)
        assert close(shown(found), wanted)


def test_in_a_split_function() -> None:
    def both(i: weft.Tensor) -> list[weft.Tensor]:
        found = made(i)
        weft.set_default_dtype(weft.float64)
        found += made(i)
        weft.set_default_dtype(weft.float32)
        return found + made(i)

    split = deferred(both)
    for _ in range(3):
        assert close(shown(split(weft.arange(3))), shown(both(weft.arange(3))))


def test_gradients_behind_another_default() -> None:
    grads = []
    for device in ("cpu", "lazy"):
        weft.set_default_dtype(weft.float64)
        a = weft.zeros(2, device=device).requires_grad_()
        x = weft.arange(6, device=device).reshape(3, 2) / 7
        weft.set_default_dtype(weft.float32)
        loss = (x / a.exp()).square().sum().sqrt()
        loss.backward()
        assert loss.dtype is weft.float64
        grads.append([loss.item(), *a.grad.tolist()])
    assert grads[1] == pytest.approx(grads[0], rel=1e-12)


def test_the_same_default_again_cuts_nothing() -> None:
    weft.set_default_dtype(weft.float32)
    x = weft.ones(2, device="lazy") + 0.3
    before = weft.lazy.debug.dump_ir([x])
    weft.set_default_dtype(weft.float32)
    assert weft.lazy.debug.dump_ir([x]) == before

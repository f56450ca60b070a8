"""x[rows, columns] of two masks, and of a mask beside numbers, was refused in programs and ran at once on lazy devices:
how the places meet is seen by the run.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import weft
from weft import lazy
from weft.support.knobs import knobs

MODES: dict[str, Callable[[Any], Any]] = {
    "compile": lambda f: weft.compile(f, backend="interpret"),
    "native": weft.compile,
    "split": lambda f: weft.compile(f, split=True),
    "lazy": lambda f: lambda *given: f(*[t.to("lazy") for t in given]),
}


def mask(*flags: int) -> weft.Tensor:
    return weft.tensor(flags).bool()


def picked(x: weft.Tensor, rows: weft.Tensor, columns: weft.Tensor) -> Any:
    part = x[rows, columns]
    return (part * 3).sum() + part.shape[0] * 100


@pytest.mark.parametrize("mode", MODES)
def test_values(mode: str) -> None:
    x, run = weft.arange(9.0).view(3, 3), MODES[mode](picked)
    pairs = [
        (mask(1, 0, 1), mask(1, 1, 0)), (mask(1, 1, 1), mask(1, 1, 1)), (mask(0, 0, 0), mask(0, 0, 0)),
        (mask(1, 1, 0), mask(0, 1, 0)),
    ]
    for rows, columns in pairs:
        assert run(x, rows, columns).item() == picked(x, rows, columns).item()
    with pytest.raises(IndexError, match="could not be broadcast together with shapes"):
        run(x, mask(1, 1, 0), mask(1, 1, 1)).item()


@pytest.mark.parametrize("mode", MODES)
def test_a_mask_beside_numbers(mode: str) -> None:
    x, run = weft.arange(9.0).view(3, 3), MODES[mode](picked)
    for columns in (weft.tensor([0, 2]), weft.tensor([1]), weft.tensor(2), weft.tensor([[0], [1]])):
        assert run(x, mask(1, 0, 1), columns).item() == picked(x, mask(1, 0, 1), columns).item()
    with pytest.raises(IndexError, match="could not be broadcast together with shapes"):
        run(x, mask(1, 0, 1), weft.tensor([0, 1, 2])).item()


def test_gradients_and_programs() -> None:
    def step(x: weft.Tensor, rows: weft.Tensor, columns: weft.Tensor) -> weft.Tensor:
        loss = (x[rows, columns] ** 2).sum()
        loss.backward()
        return loss

    for run in (step, weft.compile(step)):
        x = weft.arange(9.0).view(3, 3).clone().requires_grad_()
        run(x, mask(1, 0, 1), mask(1, 1, 0))
        assert x.grad is not None and x.grad.tolist() == [[0, 0, 0], [0, 0, 0], [0, 14, 0]]
    x = weft.arange(9.0).view(3, 3).to("lazy")
    lazy.metrics.reset()
    found = (x[x[:, 0] > 0, x[0] > 0] + 1).sum()
    assert "aten::index" not in lazy.metrics.counter_names()
    assert found.item() == 14


@pytest.mark.parametrize("backend", ["interpret", "llvm"])
def test_whether_a_result_is_too_large_is_not_asked_before_its_size_is_found(
    backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(knobs, "backend", backend)
    for rows, flag in ((2, True), (3, True), (4, False)):
        x = weft.arange(3.0 * rows).to("lazy").view(rows, 3)
        found = x.unfold(1, 2, 1)[weft.tensor(flag, device="lazy")]
        assert found.shape == (int(flag), rows, 2, 2)
        lazy.mark_step()

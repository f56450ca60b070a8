"""How results of permuted operands lie in memory: as PyTorch's, in every mode. The strides are PyTorch's."""

from __future__ import annotations

from typing import Any

import pytest

import weft
from weft.func import functionalize
from weft.nn import functional as F
from weft.support.knobs import knobs

LIKE, ROWS = "like the operand", "row-major"
CALLS: dict[str, tuple[Any, Any]] = {
    "flip": (lambda y: y.flip(0), LIKE),
    "sorted": (lambda y: y.sort(1)[0], LIKE),
    "order": (lambda y: y.sort(0)[1], LIKE),
    "softmax": (lambda y: weft.softmax(y, 1), ROWS),
    "log_softmax": (lambda y: weft.log_softmax(y, 0), ROWS),
    "layer_norm": (lambda y: F.layer_norm(y, (3,)), ROWS),
    "rms_norm": (lambda y: F.rms_norm(y, (3,)), ROWS),
    "group_norm": (lambda y: F.group_norm(y, 1), ROWS),
    "normalize": (lambda y: F.normalize(y, dim=0), LIKE),
    "tril": (weft.tril, ROWS),
    "masked_fill": (lambda y: y.masked_fill(y > 0, 1), ROWS),
    "index_fill": (lambda y: y.index_fill(0, (y[:2, 0, 0] * 0).long(), 1), LIKE),
    "index_put": (lambda y: y.index_put(((y[:2, 0, 0] * 0).long(),), y.sum()), LIKE),
    "select_scatter": (lambda y: y.select_scatter(y[0], 0, 1), LIKE),
    "diagonal_scatter": (lambda y: y.diagonal_scatter(y.diagonal()), LIKE),
    "narrow_copy": (lambda y: weft.narrow_copy(y, 1, 0, 2), ROWS),
    "renorm": (lambda y: y.renorm(2, 0, 1.0), ROWS),
    "baddbmm": (lambda y: weft.baddbmm(y, y[:, :, :2], y[:, :, :]), ROWS),
}
MODES: dict[str, Any] = {
    "eager": lambda f: f,
    "functionalize": functionalize,
    "compile": lambda f: weft.compile(f, backend="interpret"),
    "lazy": lambda f: lambda y: f(y.to("lazy")),
    "meta": lambda f: lambda y: f(weft.empty_strided(y.shape, y.stride(), device="meta")),
}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("dims", [(2, 0, 1), (0, 2, 1)])
def test_results_lie_as_pytorch_s(name: str, mode: str, dims: tuple[int, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(knobs, "backend", "interpret")
    f, wanted = CALLS[name]
    sizes = {(2, 0, 1): (2, 3, 4), (0, 2, 1): (4, 3, 2)}[dims]
    y = (weft.arange(24.0) % 7 - 3).view(sizes).permute(dims)
    made = MODES[mode](f)(y)
    assert tuple(made.shape) == (4, 2, 3)
    assert made.stride() == (y.stride() if wanted is LIKE else (6, 3, 1))


@pytest.mark.parametrize("name", sorted(set(CALLS) - {"order"}))
def test_a_call_with_row_major_operands_changes_nothing_for_later_ones(name: str) -> None:
    """Plans are kept by sizes, and serve operands that lie in any order."""
    f, wanted = CALLS[name]
    rows = (weft.arange(24.0) % 5 - 2).view(4, 2, 3)
    permuted = weft.empty_strided((4, 2, 3), (1, 12, 4)).copy_(rows)
    first, second = f(rows), f(permuted)
    assert first.is_contiguous() and second.stride() == ((1, 12, 4) if wanted is LIKE else (6, 3, 1))
    assert weft.allclose(first, second)

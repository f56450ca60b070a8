"""Compiled functions that call transpose_() and the like on their arguments, which then lie as in eager mode."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import weft
from weft import Tensor
from weft.support.errors import CaptureError


def _transposed(a: Tensor) -> Tensor:
    a.t_()
    return a * 2


def _written_first(a: Tensor) -> Tensor:
    a.mul_(3)
    a.t_()
    return a * 2


def _written_behind(a: Tensor) -> Tensor:
    a.t_()
    a.mul_(3)
    return a.sum(0)


def _itself(a: Tensor) -> Tensor:
    a.unsqueeze_(0)
    a.transpose_(1, 2)
    a.squeeze_(0)
    return a


def _view_behind(a: Tensor) -> Tensor:
    a.t_()
    return a.view_as(a)


def _used_before(a: Tensor) -> Tensor:
    b = a * 2
    a.t_()
    return b


def _given(kind: str, rows: int, needs_grad: bool) -> tuple[Tensor, Tensor]:
    leaf = (weft.arange(4.0 * rows).view(rows, 4) + 1).requires_grad_(needs_grad)
    return leaf, (leaf * 1)[1:] if kind == "view" else leaf * 1


FUNCTIONS: list[Callable[[Tensor], Tensor]] = [
    _transposed, _written_first, _written_behind, _itself, _view_behind, _used_before,
]


@pytest.mark.parametrize("kind", ["whole", "view"])
@pytest.mark.parametrize("needs_grad", [False, True])
@pytest.mark.parametrize("function", FUNCTIONS)
def test_values_strides_versions_and_gradients(function: Any, needs_grad: bool, kind: str) -> None:
    compiled = weft.compile(function)
    for rows in (3, 5, 3):
        found = []
        for run in (function, compiled):
            leaf, a = _given(kind, rows, needs_grad)
            out = run(a)
            gradient = None
            if needs_grad:
                total = (out * out).sum() + (a * weft.arange(float(a.numel())).view(a.shape)).sum()
                gradient = weft.autograd.grad(total, leaf)[0].tolist()
            shown = [(t.tolist(), t.stride(), t._is_view(), t.requires_grad, t._version) for t in (out, a)]
            found.append((shown, out is a, out.data_ptr() == a.data_ptr(), gradient))
        assert found[0] == found[1]


def test_what_is_refused() -> None:
    state = weft.ones(2, 3)

    def of_state(a: Tensor) -> Tensor:
        state.t_()
        return a

    with pytest.raises(CaptureError, match="changes the shape or strides"):
        weft.compile(of_state)(weft.ones(2))
    assert state.shape == (2, 3)


def _other_memory(a: Tensor, b: Tensor) -> Tensor:
    a.set_(b.detach()[1:])
    a.mul_(2)
    return a + 1


def _other_data(a: Tensor, b: Tensor) -> Tensor:
    a.data = b.detach() * 2
    return a * 3


def _strides(a: Tensor, b: Tensor) -> Tensor:
    a.as_strided_((2, 2), (1, 2))
    return a * b.sum()


def _unseen(a: Tensor, b: Tensor) -> Tensor:
    with weft.no_grad():
        b.t_()
    return a * b.sum()


@pytest.mark.parametrize("shares", [False, True])
@pytest.mark.parametrize("function", [_other_memory, _other_data, _strides, _unseen])
def test_what_no_program_repeats_runs_as_it_is_written(function: Any, shares: bool) -> None:
    compiled = weft.compile(function)
    for factor in (1.0, 2.0):
        found = []
        for run in (function, compiled):
            whole = weft.arange(24.0).view(2, 3, 4) * factor
            a, b = whole[0], whole[1] if shares else whole[1].clone()
            out = run(a, b)
            found.append([(t.tolist(), t.stride(), t.storage_offset()) for t in (out, a, b, whole)])
        assert found[0] == found[1]

"""A compiled function that is given several views of one base returns views of what each call was given."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import weft
from weft import Tensor

GIVEN: list[Callable[[Tensor], tuple[Tensor, Tensor]]] = [
    lambda x: (x.view(-1), x[0]),
    lambda x: (x[1:], x.view(-1)[2:]),
    lambda x: (x.view(-1), x.view(-1).view(2, 3)),
    lambda x: (x.detach(), x[0]),
    lambda x: (x, x[0]),
    lambda x: (x, x),
]


def _views(a: Tensor, b: Tensor) -> tuple[Tensor, ...]:
    return a.view(-1)[1:], b.unsqueeze(0), a.unsqueeze(-1).squeeze(-1)


def _written(a: Tensor, b: Tensor) -> tuple[Tensor, ...]:
    a.mul_(2)
    return a.view(-1)[1:], b * 2


def _both(a: Tensor, b: Tensor) -> tuple[Tensor, ...]:
    b.mul_(3)
    a.add_(b.sum())
    return a.view(-1), b * 2


@pytest.mark.parametrize("function", [_views, _written, _both])
@pytest.mark.parametrize("needs_grad", [False, True])
@pytest.mark.parametrize("given", range(len(GIVEN)))
def test_each_call_has_its_own_base(function: Any, given: int, needs_grad: bool) -> None:
    compiled = weft.compile(function)
    for factor in (1.0, 2.0, 3.0):
        found = []
        for run in (function, compiled):
            leaf = (weft.arange(6.0).view(2, 3) * factor).requires_grad_(needs_grad)
            x = leaf * 2
            arguments = GIVEN[given](x)
            outs = run(*arguments)
            places = [[out.data_ptr() - a.data_ptr() for a in arguments] for out in outs if out._is_view()]
            values = [out.tolist() for out in outs]
            wanted = [out.sum() * (i + 1) for i, out in enumerate(outs) if out.requires_grad]
            gradient = weft.autograd.grad(sum(wanted), leaf)[0].tolist() if wanted else None  # type: ignore[arg-type]
            found.append((values, places, x.tolist(), gradient))
        assert found[0] == found[1]

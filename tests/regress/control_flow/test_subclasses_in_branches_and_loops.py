"""Branches and loops of a compiled function took tensors of a subclass for plain ones: its rule did not count inside,
and the results were of no class."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import weft
from tests.agree.histories import Kept, Told

FUNCTIONS: list[Callable[[Any], Any]] = [
    lambda x: weft.cond(x.sum() > 0, lambda v: v.sin(), lambda v: v * 2, (x,)),
    lambda x: weft.cond(x.sum() > 0, lambda v: v.as_subclass(Kept) * 2, lambda v: v.as_subclass(Kept), (x.sin(),)),
    lambda x: weft.while_loop(lambda i, v: i < 3, lambda i, v: (i + 1, v.sin()), (0, x))[1],
    lambda x: weft.scan(lambda c, t: (c.sin() + t, t.sin()), x * 0, weft.stack([x, x * 2])),
    lambda x: weft.scan(lambda c, t: (c * t.sum().as_subclass(weft.Tensor), t), x.as_subclass(weft.Tensor), x[:, None]),
]


@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("kind", [weft.Tensor, Kept, Told])
@pytest.mark.parametrize("wants", [False, True])
def test_classes_and_values(function: Callable[[Any], Any], kind: type[weft.Tensor], wants: bool) -> None:
    seen = []
    for step in (function, weft.compile(function, backend="interpret")):
        notes: list[Any] = []
        for n in (3, 3, 5, 2):
            x = weft.linspace(-0.5, 1, n, dtype=weft.float64).as_subclass(kind).requires_grad_(wants)
            results = step(x)
            results = results if isinstance(results, tuple) else (results,)
            if wants:
                sum(r.as_subclass(weft.Tensor).sum() for r in results).backward()
            notes.append([(type(r), r.detach().tolist()) for r in results])
            notes.append(None if x.grad is None else (type(x.grad), x.grad.tolist()))
        seen.append(notes)
    assert _rounded(seen[1]) == _rounded(seen[0])


def _rounded(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return [_rounded(v) for v in value]
    return round(value, 9) if isinstance(value, float) else value


def test_other_classes_are_refused() -> None:
    def branches(x: Any) -> Any:
        return weft.cond(x.sum() > 0, lambda v: v.as_subclass(Kept), lambda v: v * 2, (x,))

    def carry(x: Any) -> Any:
        return weft.scan(lambda c, t: (c.as_subclass(Kept), t), x, x)[0]

    for function in (branches, carry):
        with pytest.raises(weft.WeftError, match="tensors of the classes"):
            weft.compile(function)(weft.ones(2))

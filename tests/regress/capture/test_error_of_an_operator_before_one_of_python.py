"""An operator that refuses the values of a call, and then an error of Python's in the captured function: the first one
is raised, as in eager mode, and nothing has happened."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

import weft


@pytest.mark.parametrize("mode", [{}, {"split": True}, {"backend": "interpret"}])
def test_the_first_error_is_raised(mode: dict[str, Any]) -> None:
    state, seen = SimpleNamespace(divisor=0, limit=2.0), weft.ones(3)

    def step(x: weft.Tensor, at: weft.Tensor, mask: weft.Tensor) -> weft.Tensor:
        seen.mul_(2)
        y = x[at]
        z = x.narrow(0, 0, weft.nonzero(mask).shape[0] - 1)
        if state.limit > 3:
            raise LookupError("the limit")
        return y.sum() + z.sum() + 1 // state.divisor

    compiled = weft.compile(step, **mode)
    good, bad, all_of, none_of = [0, 2], [0, 7], [True] * 3, [False] * 3
    for at, mask, limit, kind in (
        (good, all_of, 2.0, ZeroDivisionError), (bad, all_of, 2.0, IndexError), (good, none_of, 2.0, RuntimeError),
        (bad, none_of, 5.0, IndexError), (good, all_of, 5.0, LookupError), (good, all_of, 2.0, None),
    ):
        state.limit, state.divisor = limit, 0 if kind else 1
        before = seen.tolist()
        if kind is None:
            assert float(compiled(weft.ones(3), weft.tensor(at), weft.tensor(mask))) == 5.0
        else:
            with pytest.raises(kind) as raised:
                compiled(weft.ones(3), weft.tensor(at), weft.tensor(mask))
            assert kind is not LookupError or type(raised.value) is LookupError
            assert mode.get("split") or seen.tolist() == before


@pytest.mark.parametrize("mode", [{}, {"split": True}, {"backend": "interpret"}])
def test_the_first_of_two_refusals_of_a_program(mode: dict[str, Any]) -> None:
    def step(x: weft.Tensor, m: weft.Tensor, i: weft.Tensor) -> tuple[weft.Tensor, weft.Tensor]:
        k = 5 % round(-weft.nonzero(m).shape.numel() / 2)
        a = weft.eye(min(k, -2))
        return a, weft.zeros(0 % (round(weft.unique(i).numel() * 1.5) // weft.masked_select(x, x > 0).numel()))

    def outcome(function: Any, *args: Any) -> Any:
        try:
            return [list(r.shape) for r in function(*map(weft.tensor, args))]
        except Exception as error:
            return next(kind for kind in (ZeroDivisionError, RuntimeError) if isinstance(error, kind))

    compiled = weft.compile(step, **mode)
    masks, chosen = ([True] * 5, [True, True, False, False]), ([1, 2, 3], [2, 2])
    numbers = [1.0, 2.0, 3.0], [1.0, -1.0]
    for args in ((m, i, x) for m in masks for i in numbers for x in chosen):
        assert outcome(compiled, args[1], args[0], args[2]) == outcome(step, args[1], args[0], args[2])

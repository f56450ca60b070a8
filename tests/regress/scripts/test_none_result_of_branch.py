"""What a branch leaves without a value is None among the results of a program whose groups are native, and its backward
takes None for it, also where lists stand beside it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import weft
import weft.jit
from weft import Tensor


def left_in_a_loop(x: Tensor, y: Tensor, n: int) -> tuple[Tensor, Tensor]:
    early = n == -1 or n <= 0
    for _ in zip([1, 2, 3], [n]):  # noqa: B905
        if early:
            return x, x
    z = y
    for i in [1, 2]:
        z = z + (z - z)
        if i == -2 or early:
            continue
    if bool(z.sum() > 0):
        pass
    return z, x


def beside_lists(x: Tensor, y: Tensor, n: int) -> tuple[Tensor, Tensor]:
    if bool(x.sum() < 1.5):
        if not n > -1:
            return y, x
    elif n == -2:
        sorted([q * -1 for q in range(3)])
    for _, v in enumerate([x, x * 2]):
        z = v
    if bool(y.sum() < 0):  # noqa: SIM102
        if n == 3 and n <= -2:
            return x, z
    return x, x


@pytest.mark.parametrize("function", [left_in_a_loop, beside_lists])
def test_it_is_none(function: Callable[..., Any]) -> None:
    made = weft.jit.differentiate(weft.jit.script(function).graph)
    forward = weft.jit.create_function_from_graph("f", made.f)
    backward = weft.jit.create_function_from_graph("df", made.df)
    for scale, n in ((0.25, 1), (-0.75, 3), (1.0, -2), (0.25, 1)):
        args = [weft.arange(3.0) * scale + 0.125, weft.ones(3) * scale, n]
        leaves = [a.clone().requires_grad_() for a in args[:2]]
        results = function(leaves[0] * 1, leaves[1] * 1, n)
        wanted = weft.autograd.grad(results[0].sum() + results[1].sum(), leaves, allow_unused=True)
        found = forward(*args)
        assert all(v is None or isinstance(v, (Tensor, int, float, tuple)) for v in found)
        given: list[Any] = [weft.ones(3) if i < made.f_real_outputs else None for i in made.df_input_vjps]
        given += [args[i] for i in made.df_input_captured_inputs] + [found[i] for i in made.df_input_captured_outputs]
        flows = dict(zip(made.df_output_vjps, backward(*given), strict=True))
        for i, own in enumerate(wanted):
            zeros = weft.zeros(3)
            mine, theirs = (zeros if g is None else g for g in (flows.get(i), own))
            assert mine.tolist() == pytest.approx(theirs.tolist(), rel=1e-5)

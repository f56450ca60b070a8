"""A traced function with enough work for a program of its own failed in a checkpoint: the first run was interpreted,
and the second one, by the program that had come by then, saved other tensors.
"""

from __future__ import annotations

import weft
import weft.jit
from weft import Tensor
from weft.utils.checkpoint import checkpoint


def body(x: Tensor) -> Tensor:
    y = (x * 3).sin()
    kept = (y[:, None].expand(-1, 4) * y.cos()[:, None]).mean(1)
    return y + (kept * (kept - 2 * y)).detach() + kept.tanh() * y.exp()


def test_both_runs_save_the_same() -> None:
    traced = weft.jit.trace(body, (weft.rand(4),), check_trace=False)
    for n in (4, 7, 7, 5, 7):
        x = weft.linspace(-1, 1, n, requires_grad=True)
        (found,) = weft.autograd.grad((checkpoint(traced, x, use_reentrant=False) ** 2).sum(), x)
        (expected,) = weft.autograd.grad((body(x) ** 2).sum(), x)
        assert weft.allclose(found, expected, rtol=1e-4)

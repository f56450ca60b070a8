"""What a saved-tensor hook, or a checkpoint, gives in place of a leaf has the leaf's history: second gradients through
a compiled forward left out what flows through it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import weft
from weft import compiled_autograd as ca
from weft.utils.checkpoint import checkpoint

Fn = Callable[[Any, Any], Any]


def packed(fn: Fn) -> Fn:
    def run(x: Any, w: Any) -> Any:
        with weft.autograd.graph.saved_tensors_hooks(lambda t: t * 2, lambda t: t / 2):
            return fn(x, w)

    return run


def copied(fn: Fn) -> Fn:
    def run(x: Any, w: Any) -> Any:
        with weft.autograd.graph.save_on_cpu():
            return fn(x, w)

    return run


def kept(fn: Fn) -> Fn:
    return lambda x, w: checkpoint(fn, x, w, use_reentrant=False)


def half_kept(fn: Fn) -> Fn:
    return lambda x, w: checkpoint(fn, x * w, w, use_reentrant=False) * x


FNS: list[Fn] = [lambda x, w: (x * x * w).sin().exp(), lambda x, w: x[1:] * (x @ w.t()).tanh()[:-1] * w[:-1]]


@pytest.mark.parametrize("around", [packed, copied, kept, half_kept])
@pytest.mark.parametrize("place", ["argument", "closure"])
@pytest.mark.parametrize("walk", [ca.disable, ca.enable])
def test_second_gradients_are_those_of_eager_mode(
    around: Callable[[Fn], Fn], place: str, walk: Any, rng: np.random.Generator
) -> None:
    data = [rng.standard_normal((3, 3)) for _ in range(2)]
    for fn in FNS if around is not half_kept else FNS[:1]:
        found = []
        for is_compiled in (False, True):
            x, w = (weft.from_numpy(d.copy()).requires_grad_() for d in data)
            run = around(fn)
            bound = run if place == "argument" else (lambda x, w, run=run, own=w: run(x, own))
            bound = weft.compile(bound) if is_compiled else bound
            with walk():
                out = bound(x, w)
                slopes = weft.autograd.grad((out * out).sum(), (x, w), create_graph=True)
                sum((s * s).sum() for s in slopes).backward()
            found.append([x.grad.numpy(), w.grad.numpy()])
        np.testing.assert_allclose(found[1], found[0], rtol=1e-9)

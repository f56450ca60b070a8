"""Anomaly mode looks at what the backward of a compiled forward gives also where it is copied into a captured graph."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import weft
from weft import compiled_autograd as ca


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("walk", [ca.disable, ca.enable, lambda: ca.enable(ca.interpret)])
def test_the_gradient_that_holds_a_nan_is_named(walk: Any, rng: np.random.Generator) -> None:
    n = int(rng.integers(2, 9))
    compiled = weft.compile(lambda a, b: a.sin() * (b - b.detach()).sqrt().sum())
    a, b = (weft.from_numpy(rng.standard_normal(n)).requires_grad_() for _ in range(2))
    for check in (True, False):
        with weft.autograd.detect_anomaly(check_nan=check), walk():
            out = compiled(a, b)
            leaf = weft.autograd.graph.get_gradient_edge(b).node
            place = [node for node, _ in out.grad_fn.next_functions].index(leaf)
            loss = out.sum() * 0.0
            if check:
                with pytest.raises(RuntimeError, match=f"'{out.grad_fn.name()}' returned nan values in its {place}th"):
                    loss.backward()
            else:
                loss.backward()
    assert np.isnan(b.grad.numpy()).all() and not np.isnan(a.grad.numpy()).any()

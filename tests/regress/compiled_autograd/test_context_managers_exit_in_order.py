"""Blocks of compiled autograd end before those around them; what was saved where saved tensors may be written is of
no use behind that block; such blocks do not nest."""

from __future__ import annotations

import numpy as np
import pytest

import weft
from weft import compiled_autograd as ca
from weft.autograd.engine import current_runner
from weft.support.counters import counters


def test_blocks_of_compiled_autograd() -> None:
    outer, inner = ca.enable(), ca.enable(ca.interpret)
    outer.__enter__()
    inner.__enter__()
    inner.__exit__(None, None, None)
    outer.__exit__(None, None, None)
    assert current_runner() is None
    outer, inner = ca.enable(), ca.enable(ca.interpret)
    outer.__enter__()
    inner.__enter__()
    with ca.disable():
        before = counters.compiled_backwards
        weft.ones(2, requires_grad=True).sum().backward()
        assert counters.compiled_backwards == before
    with pytest.raises(AssertionError, match="must return before their parent context"):
        outer.__exit__(None, None, None)
    assert current_runner() is None
    del inner  # which ends its block: the outer one's runner came back, and stayed
    assert current_runner() is None


def test_blocks_where_saved_tensors_may_be_written(rng: np.random.Generator) -> None:
    allowed = weft.autograd.graph.allow_mutation_on_saved_tensors
    x = weft.from_numpy(rng.standard_normal(3)).requires_grad_()
    with allowed(), pytest.raises(RuntimeError, match="cannot be nested"), allowed():
        pass
    with allowed():
        y = (x * 1) ** 2
        y.sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), 2 * x.detach().numpy())
    with allowed():
        y = x**2
    with pytest.raises(AssertionError, match="outside of the 'allow_mutation_on_saved_tensors' context"):
        y.sum().backward()
    with allowed(), pytest.raises(AssertionError, match="outside of"):
        y.sum().backward()

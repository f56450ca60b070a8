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
                named = f"'{out.grad_fn.name()}' returned nan values in its {place}th"
                if walk is ca.disable:  # it runs as a program, which knows the operator
                    named = "test_anomaly_mode_of_compiled_forward.py:.*gives NaN in"
                with pytest.raises(RuntimeError, match=named):
                    loss.backward()
            else:
                loss.backward()
    assert np.isnan(b.grad.numpy()).all() and not np.isnan(a.grad.numpy()).any()


@pytest.mark.filterwarnings("ignore")
def test_a_compiled_step_names_the_node_and_its_line(rng: np.random.Generator) -> None:
    """Such a step runs as it is written: its program could only say that there is a NaN."""

    @weft.compile
    def step(x: weft.Tensor) -> Any:
        with weft.autograd.detect_anomaly():
            (x - x.detach()).sqrt().mul(0).sum().backward()
        return x.grad

    for n in (2, 3):
        x = weft.from_numpy(rng.standard_normal(n)).requires_grad_()
        with pytest.raises(RuntimeError, match="'SqrtBackward0' returned nan values in its 0th output"):
            step(x)
        assert x.grad is None
    assert "anomalies" in step.misses[0]


@pytest.mark.filterwarnings("ignore")
def test_a_step_without_one_is_what_it_was(rng: np.random.Generator) -> None:
    @weft.compile
    def step(x: weft.Tensor) -> Any:
        with weft.autograd.set_detect_anomaly(True):
            x.sin().sum().backward()
        return x.grad

    for n in (2, 3):
        x = weft.from_numpy(rng.standard_normal(n)).requires_grad_()
        np.testing.assert_allclose(step(x).numpy(), np.cos(x.detach().numpy()))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("split", [False, True])
def test_a_backward_that_is_differentiated_again(split: bool, rng: np.random.Generator) -> None:
    """The graph of its gradients was refused there, as a backward call of the function's own is."""
    compiled = weft.compile(lambda x: x.sin() * x, split=split)
    for n in rng.integers(1, 6, 3).tolist():
        x = weft.from_numpy(rng.standard_normal(n)).requires_grad_()
        with weft.autograd.detect_anomaly():
            (g,) = weft.autograd.grad(compiled(x).sum(), x, create_graph=True)
            (h,) = weft.autograd.grad(g.sum(), x)
        v = x.detach().numpy()
        np.testing.assert_allclose(g.detach().numpy(), np.cos(v) * v + np.sin(v))
        np.testing.assert_allclose(h.numpy(), 2 * np.cos(v) - np.sin(v) * v)


def _scanned(x: weft.Tensor) -> weft.Tensor:
    return weft.scan(lambda c, t: ((c * t).sqrt(), c.sum()), x, weft.arange(1.0, 3.0, dtype=x.dtype))[0]


def _chosen(x: weft.Tensor) -> weft.Tensor:
    return weft.cond(x.sum() > -1, lambda v: v.sqrt() * 2, lambda v: v.exp(), (x,))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("f", [_scanned, _chosen])
@pytest.mark.parametrize("walk", [ca.disable, ca.enable, lambda: ca.enable(ca.interpret)])
def test_branches_and_loops_in_a_captured_backward(f: Any, walk: Any, rng: np.random.Generator) -> None:
    """Calls within a block stand for the node whose block it is."""
    compiled = weft.compile(f)
    for n in rng.integers(1, 6, 3).tolist():
        values = rng.uniform(0.5, 2, n)
        x, y = (weft.from_numpy(values.copy()).requires_grad_() for _ in range(2))
        (expected,) = weft.autograd.grad(f(x).sum(), x)
        with weft.autograd.detect_anomaly(), walk():
            (gradient,) = weft.autograd.grad(compiled(y).sum(), y)
        np.testing.assert_allclose(gradient.numpy(), expected.numpy())
        x = weft.zeros(n, dtype=weft.float64).requires_grad_()
        with weft.autograd.detect_anomaly(), walk(), pytest.raises(RuntimeError, match=r"nan values|gives NaN"):
            (compiled(x) * 0.0).sum().backward()

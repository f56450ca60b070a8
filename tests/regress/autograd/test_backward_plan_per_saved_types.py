"""A node's formulas are planned for the classes of what it saved and for how many gradients flow in: calls that change
these in turn each have their own plan."""

from __future__ import annotations

import numpy as np
import pytest

import weft

Rng = np.random.Generator


def test_results_that_are_more_or_fewer_in_turn(rng: Rng) -> None:
    for rows in (2, 3, 1, 3, 2):
        x = weft.from_numpy(rng.normal(size=(rows, 4))).requires_grad_()
        parts = x.unbind(0)
        weights = rng.normal(size=rows)
        sum((part * float(weight) for part, weight in zip(parts, weights, strict=True)), weft.zeros(4)).sum().backward()
        np.testing.assert_allclose(x.grad.numpy(), np.repeat(weights[:, None], 4, 1))


def test_saved_tensors_of_other_classes_in_turn(rng: Rng) -> None:
    a, b = rng.normal(size=3), rng.normal(size=3)
    x = weft.from_numpy(a).requires_grad_()
    others = [weft.nn.Parameter(weft.from_numpy(b)), weft.from_numpy(b), 2.0, weft.from_numpy(b).requires_grad_()]
    for other in (*others, *reversed(others)):
        x.grad = None
        (x * other).sum().backward()
        np.testing.assert_allclose(x.grad.numpy(), np.full(3, 2.0) if type(other) is float else b)


def test_a_node_has_the_names_of_what_it_saved_and_no_others(rng: Rng) -> None:
    x = weft.from_numpy(rng.normal(size=(2, 3))).requires_grad_()
    node = x.select(0, 1).grad_fn
    assert (node._saved_dim, node._saved_index, node._saved_self_sym_sizes) == (0, 1, (2, 3))
    for name in ("_saved_other", "_raw_saved_result", "hooks"):
        with pytest.raises(AttributeError, match=name):
            getattr(node, name)

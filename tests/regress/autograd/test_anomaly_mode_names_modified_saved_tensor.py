"""Anomaly mode names the node whose saved tensor was written since, under either walk."""

from __future__ import annotations

from typing import Any

import pytest

import weft
from weft import compiled_autograd as ca


@pytest.mark.filterwarnings("ignore:Anomaly Detection")
@pytest.mark.parametrize("walk", [ca.disable, ca.enable, lambda: ca.enable(ca.interpret)])
def test_the_node_is_named(walk: Any) -> None:
    for _ in range(3):
        x = weft.ones(3, requires_grad=True)
        with weft.autograd.detect_anomaly(), walk():
            base = x + 1
            y = base**2
            base += 1
            with (
                pytest.raises(RuntimeError, match="modified by an inplace operation"),
                pytest.warns(UserWarning, match="Error detected in PowBackward0"),
            ):
                weft.autograd.grad(y.sum(), x)

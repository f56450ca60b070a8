"""What a captured backward holds while it runs is let go of when it is done, in anomaly mode too: with the garbage
collector at rest a node dies with its last user."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator
from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest

import weft
from weft import compiled_autograd as ca


@pytest.fixture
def at_rest() -> Iterator[None]:
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


@pytest.mark.filterwarnings("ignore:Anomaly Detection")
@pytest.mark.parametrize("create_graph", [False, True])
@pytest.mark.parametrize("is_watched", [False, True])
@pytest.mark.parametrize("compiler", [ca.native, ca.interpret])
def test_nodes_die_with_their_last_user(
    rng: np.random.Generator, at_rest: None, compiler: Any, is_watched: bool, create_graph: bool
) -> None:
    for _ in range(2):
        x = weft.from_numpy(rng.standard_normal((2, 2))).requires_grad_()
        t = x.exp()
        with ca.enable(compiler), weft.autograd.detect_anomaly() if is_watched else nullcontext():
            g = weft.autograd.grad(t, x, weft.ones_like(t), create_graph=create_graph)
        node = weakref.ref(t.grad_fn)
        del t, g
        assert node() is None

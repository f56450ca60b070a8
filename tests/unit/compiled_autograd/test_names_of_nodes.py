"""Nodes, their functional forms and their calls in captured graphs are named after PyTorch's overloads, also where
weft has one entry for two of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import weft
from weft import compiled_autograd as ca
from weft.ir.parser import parse_graph
from weft.ir.printer import print_graph


@pytest.mark.parametrize(("call", "name"), [
    (lambda x: x.sum(), "SumBackward0"), (lambda x: x.sum(0), "SumBackward1"),
    (lambda x: x.mean(), "MeanBackward0"), (lambda x: x.mean([0, 1]), "MeanBackward1"),
    (lambda x: x.prod(), "ProdBackward0"), (lambda x: x.prod(0), "ProdBackward1"),
    (lambda x: 1 - x, "RsubBackward1"), (lambda x: weft.rsub(x, x), "RsubBackward0"),
    (lambda x: x % 2, "RemainderBackward0"), (lambda x: x % x, "RemainderBackward1"),
    (lambda x: weft.fmod(x, 2.0), "FmodBackward0"), (lambda x: weft.fmod(x, x), "FmodBackward1"),
    (lambda x: x.clamp_min(0), "ClampMinBackward0"), (lambda x: x.clamp_max(x * 2), "ClampMaxBackward1"),
    (lambda x: x.lerp(x, 0.5), "LerpBackward0"), (lambda x: x.lerp(x, x), "LerpBackward1"),
    (lambda x: weft.div(x, x, rounding_mode="floor"), "DivBackward2"), (lambda x: x.diag(), "DiagonalBackward0_copy"),
    (lambda x: weft.ops.aten.squeeze_copy(x, 0), "SqueezeBackward1_copy"), (weft.linalg.inv, "LinalgInvExBackward0"),
])
def test_nodes_are_named_after_the_overload(call: Any, name: str, rng: np.random.Generator) -> None:
    n = int(rng.integers(2, 9))
    x = weft.from_numpy(rng.standard_normal((n, n))).requires_grad_()
    out = call(x)
    node = out.grad_fn
    assert node.name() == name == type(node).__name__ and repr(node).startswith(f"<{name} object")
    form = ca.ops[name]
    seed = weft.ones_like(out)
    found = form((seed,), tuple(edge[0] is not None for edge in node.next_functions), node.packed())
    assert sum((g for g in found[1:] if g is not None), found[0]).shape == x.shape
    with ca.enable():
        out.sum().backward()
    assert f"autograd::{name}([" in str(ca.last_graph())
    loaded = parse_graph(str(ca.last_graph()))
    assert print_graph(loaded) == str(ca.last_graph())

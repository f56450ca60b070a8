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
    (lambda x: x.square(), "PowBackward0.square"), (lambda x: x**2, "PowBackward0"),
    (lambda x: (x * 1).reshape(-1), "ViewBackward0.reshape"), (lambda x: x.view(-1), "ViewBackward0"),
    (lambda x: x.t().contiguous(), "CloneBackward0.contiguous"), (lambda x: x.clone(), "CloneBackward0"),
    (weft.nn.functional.relu6, "HardtanhBackward0.relu6"), (weft.nn.functional.hardtanh, "HardtanhBackward0"),
    (lambda x: weft.nn.functional.linear(x, x), "MmBackward0.linear"), (lambda x: x @ x, "MmBackward0"),
    (lambda x: weft.nn.functional.linear(x, x, x[0]), "AddmmBackward0.linear"),
    (lambda x: (x * 1).fill_(2.0), "FillBackward2"),
    (lambda x: weft.copysign(x, 2.0), "CopysignBackward1"), (lambda x: weft.copysign(x, x), "CopysignBackward0"),
    (lambda x: x.float_power(2), "PowBackward0.float_power"), (lambda x: x.float_power(x), "PowBackward1.float_power"),
    (lambda x: weft.special.polygamma(1, x), "PolygammaBackward0.special"),
    (lambda x: weft.fft.irfft(x, x.shape[1]), "FftC2RBackward0"),
    (lambda x: weft.linalg.cholesky(x @ x.T + weft.eye(len(x), dtype=x.dtype)), "LinalgCholeskyExBackward0.checked"),
    (lambda x: weft.nn.functional.leaky_relu(x * 1, inplace=True), "LeakyReluBackward1"),
    (lambda x: weft.nn.functional.leaky_relu(x), "LeakyReluBackward0"),
    (lambda x: weft.nn.functional.elu(x * 1, inplace=True), "EluBackward1"),
    (lambda x: weft.nn.functional.threshold(x * 1, 0.1, 2.0, True), "ThresholdBackward1"),
])
def test_nodes_are_named_after_the_overload(call: Any, name: str, rng: np.random.Generator) -> None:
    """What stands behind a dot tells operators apart that PyTorch computes by one: captured graphs say it."""
    n = int(rng.integers(2, 9))
    x = weft.from_numpy(rng.standard_normal((n, n))).requires_grad_()
    out = call(x)
    node = out.grad_fn
    shown = name.partition(".")[0]
    assert node.name() == shown == type(node).__name__ and repr(node).startswith(f"<{shown} object")
    form = ca.ops[name]
    seed = weft.ones_like(out)
    found = form((seed,), tuple(edge is not None for edge in node.edges), node.packed())
    assert sum(g for g in found if g is not None).shape == x.shape
    with ca.enable():
        out.sum().backward()
    assert f"autograd::{name}([" in str(ca.last_graph())
    loaded = parse_graph(str(ca.last_graph()))
    assert print_graph(loaded) == str(ca.last_graph())


def test_names_by_the_rank_of_windows_and_edges_of_numbers() -> None:
    x = weft.ones(1, 4, 4, 4, requires_grad=True)
    pool2d, pool3d = weft.nn.functional.max_pool2d, weft.nn.functional.max_pool3d
    assert pool2d(x, 2).grad_fn.name() == "MaxPool2DWithIndicesBackward0"
    assert pool3d(x, 2).grad_fn.name() == "MaxPool3DWithIndicesBackward0"
    for out, edges in ((1 - x, 1), (weft.rsub(x, x), 2), (x.clamp_min(0), 1), (x * 2, 2), (weft.lerp(x, x, 0.5), 2)):
        assert len(out.grad_fn.next_functions) == edges

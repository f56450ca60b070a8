"""What compiled autograd says of its captures: whose each call is, why each was made, and at which line."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import weft
from weft import compiled_autograd as ca

Rng = np.random.Generator


@pytest.fixture(autouse=True)
def _empty_cache() -> None:
    ca.reset()


def leaf(rng: Rng, *shape: int) -> weft.Tensor:
    return weft.from_numpy(rng.standard_normal(shape)).requires_grad_()


def test_the_origins_are_the_nodes_in_the_order_in_which_the_engine_runs_them(rng: Rng) -> None:
    x, w = leaf(rng, 3, 3), leaf(rng, 3, 3)

    def chain() -> weft.Tensor:
        h = x
        for _ in range(3):
            h = (h @ w).tanh().tanh()
        return h.sum()

    def logged() -> list[str]:
        """The nodes' names, in the order in which their hooks are called."""
        log: list[str] = []
        out = chain()
        stack, handles = [out.grad_fn], {}
        while stack:
            node = stack.pop()
            if node is not None and node not in handles:
                handles[node] = node.register_prehook(lambda g, node=node: log.append(node.name()))
                stack += [n for n, _ in node.next_functions]
        out.backward()
        for handle in handles.values():
            handle.remove()
        return log

    eager = logged()
    with ca.enable():
        hooked = logged()
        chain().backward()
    names = [re.fullmatch(r"(\w+) \(NodeCall (\d+)\)", origin) for origin in ca.last_graph().origins]
    assert [m.group(1) for m in names if m] == eager == hooked
    assert [int(m.group(2)) for m in names if m] == list(range(len(eager)))
    graph = ca.last_graph()
    assert len(graph.calls) == len(graph.graph.nodes) and set(graph.calls) == set(graph.origins)
    assert all("test_reasons.py" in line for line in graph.explain().splitlines() if "MatmulBackward0" in line)


def _other(kind: str) -> tuple[Callable[[weft.Tensor], Any], Callable[[weft.Tensor], Any], str]:
    def hooked(x: weft.Tensor) -> Any:
        y = x * 2
        y.register_hook(lambda g: g)
        return y.sum()

    cases: dict[str, tuple[Any, Any, str]] = {
        "operator": (lambda x: x.sin().sum(), lambda x: x.cos().sum(), "CosBackward0 where an earlier one has SinBack"),
        "constant": (lambda x: x.cumsum(0).sum(), lambda x: x.sum(0, keepdim=True).sum(), "SumBackward1"),
        "flag": (
            lambda x: weft.nn.functional.gelu(x).sum(), lambda x: weft.nn.functional.gelu(x, approximate="tanh").sum(),
            "`approximate` of GeluBackward0 is 'tanh', was 'none'",
        ),
        "hook": (lambda x: (x * 2).sum(), hooked, "a hook on a tensor where an earlier one has"),
        "dtype": (lambda x: (x * 2).sum(), lambda x: (x.float() * 2).sum(), "an edge of dtype"),
        "rank": (lambda x: (x * 2).sum(), lambda x: (x[0] * 2).sum(), "is [a size], was [a size, a size]"),
        "wanted": (
            lambda x: (x * x.detach()).sum(), lambda x: (x.detach() * x).sum(),
            "is asked for gradients at (1), was at (0)",
        ),
    }
    return cases[kind]


@pytest.mark.parametrize("kind", ["operator", "constant", "flag", "hook", "dtype", "rank", "wanted"])
def test_a_miss_says_what_differs(rng: Rng, kind: str) -> None:
    before, after, text = _other(kind)
    x = leaf(rng, 3, 2)
    with ca.enable():
        before(x).backward()
        before(x).backward()
        after(x).backward()
    first, second = ca.miss_log()
    assert first.startswith("the first backward of") and "test_reasons.py" in first
    assert text in second and "test_reasons.py" in second and "NodeCall" in second


def test_what_is_printed_is_asked_when_a_block_begins(rng: Rng, capsys: pytest.CaptureFixture[str]) -> None:
    x = leaf(rng, 3)
    with ca.enable(), weft.knobs(debug="backwards"):
        x.sin().sum().backward()
    assert capsys.readouterr().err == ""
    with weft.knobs(debug="backwards"), ca.enable():
        x.sin().sum().backward()  # cached
        assert capsys.readouterr().err == ""
        x.cos().sum().backward()
    printed = capsys.readouterr().err
    assert "compiled autograd: step" in printed and "CosBackward0 (NodeCall 1)" in printed

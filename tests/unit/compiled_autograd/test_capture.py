"""What is captured of a backward call: one opaque call per node, structure alone, text and files."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import weft
import weft.ir
from weft import compiled_autograd as ca
from weft.ir.parser import parse_graph
from weft.ir.printer import print_graph
from weft.support.counters import counters
from weft.support.errors import ArgumentError, ParseError, StateError

Rng = np.random.Generator


def leaf(rng: Rng, *shape: int) -> weft.Tensor:
    return weft.from_numpy(rng.standard_normal(shape)).requires_grad_()


def names(graph: ca.CapturedGraph) -> list[str]:
    return [node.op.name.split("::")[1] for node in graph.graph.nodes]


def test_one_opaque_call_per_node(rng: Rng) -> None:
    n, m = (int(k) for k in rng.integers(2, 9, 2))
    x, y = leaf(rng, n, m), leaf(rng, n, m)
    with ca.enable():
        weft.sin(x * y).sum().backward()
    called = names(ca.last_graph())
    assert [name for name in called if name.endswith("Backward0")] == ["SumBackward0", "SinBackward0", "MulBackward0"]
    assert called.count("accumulate") == 2 and called.count("validate_outputs") == 4
    a, b = x.detach().numpy(), y.detach().numpy()
    np.testing.assert_allclose(x.grad.numpy(), b * np.cos(a * b))
    np.testing.assert_allclose(y.grad.numpy(), a * np.cos(a * b))


def test_no_size_gets_into_the_graph(rng: Rng) -> None:
    """Prime sizes are drawn; the text of the graph holds none of them, and one graph serves all."""
    ca.reset()
    before, texts = counters.captures, set()
    for n, m in ((7919, 2), (6, 104729), (0, 3), (1, 1), (3, 0)):
        x, w = leaf(rng, n, m), leaf(rng, m)
        with ca.enable(ca.interpret), ca.trap_metadata():
            ((x * w).sum(1) ** 2).mean().backward()
        text = print_graph(ca.last_graph().graph, locations=False)
        assert "7919" not in text and "104729" not in text
        texts.add(text)
        assert tuple(x.grad.shape) == (n, m)
    assert len(texts) == 1 and counters.captures - before == 1


def test_a_placeholder_refuses_every_read() -> None:
    from weft.compiled_autograd.cache import Placeholder

    for name in ("shape", "dtype", "stride", "_data", "item"):
        with pytest.raises(StateError, match="structure alone"):
            getattr(Placeholder(), name)
    asked: list[Any] = [bool, len, iter, hash, str, int, float, lambda p: p + 1, lambda p: 2 * p, lambda p: p == p]
    for ask in (*asked, lambda p: p[0], lambda p: p(), lambda p: p < 1, lambda p: range(p)):
        with pytest.raises(StateError, match="structure alone"):
            ask(Placeholder())


def test_the_graph_runs_by_itself_and_from_a_file(rng: Rng, tmp_path: Path) -> None:
    n = int(rng.integers(2, 9))
    x, w = leaf(rng, n, 3), leaf(rng, 3)
    taken: list[list[Any]] = []

    def keeping(graph: ca.CapturedGraph) -> Any:
        program = ca.interpret(graph)

        def run(inputs: list[Any]) -> list[Any]:
            taken.append(list(inputs))
            return program(inputs)

        return run

    def loss() -> weft.Tensor:
        return (x * w).exp().sum(0).norm()

    expected = weft.autograd.grad(loss(), (x, w))
    with ca.enable(keeping):
        weft.autograd.grad(loss(), (x, w))
    graph = ca.last_graph()
    assert len(graph.tensor_inputs) == sum(isinstance(v, weft.Tensor) for v in taken[0])
    graph.save(tmp_path / "backward.txt")
    loaded = weft.ir.load(tmp_path / "backward.txt")
    assert print_graph(loaded) == str(graph)
    for program in (ca.interpret(graph), ca.interpret(loaded), weft.compile(graph), weft.compile(loaded)):
        inputs = list(taken[0])
        with weft.no_grad():
            results = program(inputs)
        for found, wanted in zip(results, expected, strict=True):
            np.testing.assert_allclose(found.numpy(), wanted.numpy())
        assert inputs == []  # taken over, so that what nobody else has can be let go


def test_only_captured_graphs_are_compiled() -> None:
    with pytest.raises(ArgumentError, match=r"%x of @g is f32\[3\]"):
        weft.compile(parse_graph("graph @g(%x: f32[3]) {\n  return %x\n}"))


def test_a_damaged_file_is_no_graph(tmp_path: Path) -> None:
    path = tmp_path / "g.txt"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ParseError):
        weft.ir.load(path)
    path.write_text("graph @g(%x: Tensor) {\n  %0: Tensor = autograd::NoSuchBackward0(%x)\n  return %0\n}")
    with pytest.raises(ParseError, match="NoSuchBackward0"):
        weft.ir.load(path)


def test_autograd_does_not_know_its_compilers() -> None:
    code = "import weft.autograd, sys; assert not [m for m in sys.modules if m.startswith('weft.compiled_autograd')]"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_blocks_nest_and_are_restored_by_exceptions(rng: Rng) -> None:
    used: list[str] = []

    def named(name: str) -> Any:
        def compiler(graph: ca.CapturedGraph) -> Any:
            program = ca.interpret(graph)
            return lambda inputs: (used.append(name), program(inputs))[1]

        return compiler

    x = leaf(rng, 3)
    with ca.enable(named("outer")):
        with pytest.raises(KeyError), ca.enable(named("inner")):
            (x * x).sum().backward()
            raise KeyError
        (x * x).sum().backward()
        with ca.disable():
            (x * x).sum().backward()
    (x * x).sum().backward()
    assert used == ["inner", "outer"]
    np.testing.assert_allclose(x.grad.numpy(), 8 * x.detach().numpy())
    with pytest.raises(TypeError, match="callable"), ca.enable(3):  # type: ignore[arg-type]
        pass


def test_functional_forms(rng: Rng) -> None:
    x, y = leaf(rng, 2, 3), leaf(rng, 2, 3)
    out = x * y
    node, form = out.grad_fn, ca.ops["MulBackward0"]
    g = weft.from_numpy(rng.standard_normal((2, 3)))
    first = form((g,), (True, True), node.packed())
    with weft.no_grad():
        again = form((g,), (True, True), node.packed())
    for a, b, other in zip(first, again, (y, x), strict=True):
        np.testing.assert_array_equal(a.numpy(), b.numpy())
        np.testing.assert_array_equal(a.numpy(), (g * other).detach().numpy())
    assert (
        form((g,), (False, False), node.packed()) == (None, None)
        and form((g,), (True, False), node.packed())[1] is None
    )


@pytest.mark.parametrize("value", [
    1, -3, 2.5, True, 1j, "mean", None, (1, (2, 3.0)), [1, [None]], weft.float32, weft.device("cpu"), weft.Size((2, 3))
])
def test_what_is_packed_comes_back(value: Any) -> None:
    found = ca.unpack(ca.pack(value))
    assert found == value and type(found) is type(value)


def test_what_no_schema_carries_is_not_packed() -> None:
    with pytest.raises(NotImplementedError, match="object"):
        ca.pack(object())

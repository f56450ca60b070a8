"""Passes on scripted programs: what a program gives, prints, raises and writes is what it was before, whatever the
passes and their order; and each does what it is there for.
"""

from __future__ import annotations

import inspect
import os

import numpy as np
import pytest

import weft
import weft.jit
from tests.jit_programs.random_programs import program
from tests.jit_programs.test_programs import PROGRAMS, draw, outcome, same
from weft.cli.opt import SCRIPTED
from weft.ir.parser import parse_graph
from weft.ir.verifier import verify
from weft.jit.functions import ScriptFunction
from weft.jit.program import Program
from weft.passes.dce import dce

COUNT = 6 * int(os.environ.get("WEFT_AGREE", "1"))
OTHERS = ("shapes", "functionalize")  # (the latter refuses what others may see; its tests stand beside these)
PASSES = {**{name: p for name, p in SCRIPTED.items() if name not in OTHERS}, "dce": dce}


def passed(scripted, *passes):
    """The function of the graph that passes make; each leaves what it made itself as it is."""
    shown = scripted.inlined_graph
    graph = shown.ir
    for transform in passes:
        after = verify(transform(graph))
        assert transform(after) is after or len(passes) > 1 or transform in (SCRIPTED["unroll"], dce)
        graph = after
    known = shown.program
    return ScriptFunction(
        Program("f", known.parameters, known.returns, graph, known.functions, known.captured, known.python)
    )


def in_some_order(rng):
    names = sorted(PASSES)
    return [PASSES[names[i]] for i in rng.permutation(len(names))] + [PASSES["constant_propagation"], dce]


def close(a, b) -> bool:
    """Whether two results are equal, but for the order in which a gradient's parts were summed."""
    if isinstance(a, weft.Tensor) and isinstance(b, weft.Tensor) and a.is_floating_point():
        same_kind = a.dtype == b.dtype and a.shape == b.shape
        return same_kind and np.allclose(a.detach(), b.detach(), rtol=1e-4, atol=1e-4, equal_nan=True)
    if isinstance(a, (tuple, list)) and type(a) is type(b) and len(a) == len(b):
        return all(map(close, a, b))
    return same(a, b)


def agree(scripted, changed, runs, capsys) -> None:
    """Both give the same, by the interpreter: what a pass makes is looked at, not what native code makes of that."""
    for args in runs:
        with weft.jit.optimized_execution(False):
            weft.manual_seed(3)
            expected, said = outcome(scripted, args), capsys.readouterr().out
            weft.manual_seed(3)
            found = outcome(changed, args)
        assert close(expected, found), (args, expected, found, str(changed.graph))
        assert capsys.readouterr().out == said


@pytest.mark.parametrize("function", PROGRAMS, ids=lambda f: f.__name__)
def test_hand_written_programs(function, capsys) -> None:
    rng = np.random.default_rng(len(function.__name__))
    parameters = inspect.signature(function).parameters.values()
    runs = [[draw(p.annotation, rng) for p in parameters] for _ in range(3)]
    scripted = weft.jit.script(function)
    for name in rng.permutation(sorted(PASSES))[:1]:
        agree(scripted, passed(scripted, PASSES[name]), runs[:2], capsys)
    agree(scripted, passed(scripted, *in_some_order(rng)), runs, capsys)


def test_random_programs(capsys) -> None:
    rng = np.random.default_rng(11)
    for seed in range(1000, 1000 + COUNT):
        scripted = weft.jit.CompilationUnit(program(seed)).f
        runs = [[weft.from_numpy(rng.normal(size=3)), float(rng.normal()), int(n)] for n in (0, 1, 5)]
        agree(scripted, passed(scripted, *in_some_order(rng)), runs, capsys)


def stepping(x, n: int):
    for i in range(n):
        x = x * 0.5 + i
    return x


def stopping(x, n: int, most: float):
    s = 0
    for i in range(n):
        s += i
        if s > most:
            break
        x = x + i
    return x, s


def going_on(n: int):
    i = 0
    while i * i < n:
        i += 1
    return i


@pytest.mark.parametrize("trip", [-3, 0, 1, 7, 8, 9, 16, 20])
def test_an_unrolled_loop_takes_as_many_steps(trip, capsys) -> None:
    for function, args in (
        (stepping, [weft.ones(2), trip]), (stopping, [weft.ones(2), trip, 25.0]),
        (stopping, [weft.ones(2), trip, -1.0]), (going_on, [trip]), (going_on, [trip * trip]),
    ):
        scripted = weft.jit.script(function)
        changed = passed(scripted, SCRIPTED["unroll"])
        assert "b=8" in str(changed.graph)
        agree(scripted, changed, [args], capsys)


def written_between(x):
    y = x + 1
    a = y * 2
    y.add_(1)
    return a, y * 2, x + 1, x + 1


def merged(x):
    a = (x + 1) * 2
    b = (x + 1) * 2
    return a - b


def drawn(x):
    unused = weft.rand(2)  # noqa: F841  (the draw is what counts)
    return weft.rand_like(x) - weft.rand_like(x)


def in_modes(x):
    with weft.no_grad():
        a = x * 2
    return a + x * 2


def kinds(scripted) -> list[str]:
    return [str(n.kind()) for n in scripted.graph.walk()]


def test_writes_draws_and_modes_keep_computations_apart(capsys) -> None:
    cse = SCRIPTED["cse"]
    assert kinds(passed(weft.jit.script(merged), cse)).count("aten::mul") == 1
    kept = kinds(passed(weft.jit.script(written_between), cse))
    assert kept.count("aten::mul") == 2 and kept.count("aten::add") == 3  # results that the caller tells apart
    assert kinds(passed(weft.jit.script(drawn), cse, dce)).count("aten::rand_like") == 2
    assert "aten::rand" in kinds(passed(weft.jit.script(drawn), dce))
    assert kinds(passed(weft.jit.script(in_modes), cse)).count("aten::mul") == 2


def test_small_products_are_batched_where_that_gains() -> None:
    def text(count: int, size: int) -> str:
        sums = "".join(f"%a{i}: f32[{size}, {size}] = aten::mm(%x, %w{i})\n" for i in range(count))
        head = ", ".join(f"%{n}: f32[{size}, {size}]" for n in ("x", *(f"w{i}" for i in range(count))))
        return f"graph @f({head}) {{\n{sums}return {', '.join(f'%a{i}' for i in range(count))}\n}}"

    batch = SCRIPTED["batch_products"]
    made = batch(parse_graph(text(10, 8)))
    assert [str(n.op.base) for n in made.nodes] == ["stack", "stack", "bmm", "unbind"]
    assert batch(small := parse_graph(text(2, 8))) is small and batch(large := parse_graph(text(10, 256))) is large
    tensors = [weft.randn(8, 8) for _ in range(11)]
    found = weft.jit.create_function_from_graph("f", weft.jit.Graph(made))(*tensors)
    for w, y in zip(tensors[1:], found, strict=True):
        assert np.allclose((tensors[0] @ w).numpy(), y.numpy(), atol=1e-5)


def test_what_was_decided_goes() -> None:
    unit = weft.jit.parse_ir(
        """graph(%x : Tensor):
  %4 : int = prim::Constant[value=4]()
  %2 : int = prim::Constant[value=2]()
  %c : bool = prim::gt(%4, %2)
  %h : int = prim::floordiv(%4, %2)
  %s : int[] = prim::ListConstruct(%h, %2)
  %y : Tensor = prim::If(%c)
    block0():
      %v : Tensor = aten::view(%x, %s)
      -> (%v)
    block1():
      -> (%x)
  return (%y)"""
    )
    graph = unit.ir
    for name in ("constant_propagation", "lower_lists"):
        graph = SCRIPTED[name](graph)
    graph = dce(graph)
    assert [(n.op.base, n.args[1]) for n in graph.nodes] == [("view", (2, 2))]

"""functionalize: a program without its writes gives what it gave, with its gradients; what could be seen is refused."""

from __future__ import annotations

import os

import numpy as np
import pytest

import weft
import weft.jit
import weft.nn.functional as F
from tests.jit_programs.orders import agree, arguments, orders_of
from tests.jit_programs.random_programs import program
from weft.ir.verifier import verify
from weft.jit.functions import ScriptFunction
from weft.jit.program import Program
from weft.passes.scripted.entries import TENSOR_SETITEM
from weft.passes.scripted.functionalize import functionalize
from weft.support.errors import StateError

COUNT = 40 * int(os.environ.get("WEFT_AGREE", "1"))


def without_writes(scripted):
    """The function whose graph functionalize makes; the graph has no writes to tensors."""
    known, graph = scripted.graph.program, functionalize(scripted.graph.ir)
    verify(graph)
    assert not any(n.op.writes is not None or n.op is TENSOR_SETITEM for n in graph.walk())
    assert functionalize(graph) is graph
    return ScriptFunction(Program("f", known.parameters, known.returns, graph, known.functions, {}, known.python))


PROGRAMS = {
    "whole": "y = x * 2; z = y.add_(x); y += 1\n    return y, z",
    "views": "y = x * 2; a = y[0]; b = y.t(); a.mul_(x[1]); b[0].sin_(); y.view(-1)[1:].add_(1)\n    return y, a, b",
    "items": "y = x.clone(); y[0] = 3.0; y[:, 1] += y[:, 0]; y[y > 1] = 0.5; y[None, 1] = x[0]\n    return y",
    "branch": "y = x * 2\n    if n > 1:\n        y.mul_(x)\n    else:\n        y[0].zero_()\n    return y, y[0]",
    "both": "y = x * 2; v = y[1]\n    if n > 1:\n        z = y.mul_(x)\n    else:\n        z = y.sin_()\n"
            "    z.add_(1)\n    return y, z, v",
    "loop": "y = x * 2; v = y.view(-1)\n    for i in range(n):\n        y += i\n"
            "        if i > 0:\n            v[i:].mul_(0.5)\n    return y, v",
    "while": "y = x * 1\n    while y.sum() < 20 and n < 9:\n        y[0].add_(1); n += 1; y = y * 1.5\n    return y",
    "nested": "y = x.clone()\n    for i in range(n):\n        for j in range(2):\n"
              "            if j == i:\n                y[j] *= 2\n            y.add_(0.25)\n    return y",
    "dtype": "y = weft.zeros(x.size(0), x.size(1)); y.add_(x)\n    return y",
    "chosen": "y = x * 2; z = y if n > 1 else x * 3; w = z * 1; w.add_(z)\n    return w",
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_hand_written_programs(name, rng) -> None:
    text = f"def f(x, n: int):\n    {PROGRAMS[name]}\n"
    space = {"weft": weft}
    exec(text, space)
    made = without_writes(weft.jit.CompilationUnit(text).f)
    for n in (0, 1, 4):
        rows = int(rng.integers(2, 5))
        args = [weft.from_numpy(rng.uniform(-2, 2, (rows, rows))), n]
        with weft.jit.optimized_execution(False):
            assert agree(orders_of(space["f"], args), orders_of(made, args), exact=False), n


def test_random_programs() -> None:
    start, refused = int(np.random.default_rng(11).integers(1 << 30)), 0
    for seed in range(start, start + COUNT):
        text = program(seed)
        space = {"weft": weft, "F": F}
        exec(text, space)
        scripted = weft.jit.CompilationUnit(text).f
        try:
            made = without_writes(scripted)
        except StateError:
            refused += 1
            continue
        rng = np.random.default_rng(seed)
        for _ in range(2):
            args = arguments(rng)
            with weft.jit.optimized_execution(False):
                expected, found = orders_of(space["f"], args), orders_of(made, args)
            if "raised" not in str(expected.gradients):  # what was saved has been written
                assert agree(expected, found, exact=False), f"seed {seed}, {args}\n{text}"
    assert refused < COUNT // 8


@pytest.mark.parametrize("text, reason", [
    ("x.add_(1)\n    return x", "its caller"),
    ("y = x.view(-1)\n    y.add_(1)\n    return y", "its caller"),
    ("y = x * 1\n    items = [y]\n    y.add_(1)\n    return items[0]", "may be the same"),
    ("y = x * 1\n    z = x * 2\n    w = y if n > 0 else z\n    w.add_(1)\n    return y", "may be the same"),
    ("y = x * 1; z = y\n    for i in range(n):\n        z.add_(y); z = z * 2 if i > 1 else z\n    return y + z",
     "may be the same"),
    ("a, b = (x * 1).chunk(2)\n    a.add_(1)\n    return b, x.sum()", "may be the same"),
])
def test_what_may_be_seen_is_refused(text: str, reason: str) -> None:
    scripted = weft.jit.CompilationUnit(f"def f(x, n: int):\n    {text}\n").f
    with pytest.raises(StateError, match=rf"\(line \d\).*{reason}"):
        functionalize(scripted.graph.ir)

"""A list that is made anew because an element became known is still the list that is written to: lower_lists forgot
that, and took the length that it began with.
"""

from __future__ import annotations

import pytest

import weft.jit
from weft.cli.opt import SCRIPTED
from weft.jit import CompilationUnit
from weft.jit.functions import ScriptFunction
from weft.jit.program import Program

TEXTS = {
    "appended": "a = [1, n]\n    li = [len(a)]\n    li.append(5)\n    return len(li), li[0]",
    "joined": "a = [1, n]\n    b = a[1:] + a\n    b.append(7)\n    return len(b), b[1], len(a)",
    "changed": "a = [n, 2]\n    c = [a[1], n]\n    c[0] = 9\n    return c[0], c[1:]",
    "in_a_loop": "a = [n]\n    for i in range(3):\n        b = [a[0], i]\n        b.append(len(a))\n        "
                 "n += len(b) + b[0]\n    return n",
    "keys": "d = {'a': n, 'b': len([n, 1])}\n    d['c'] = 3\n    e = {'x': d['b']}\n"
            "    return len(d), 'c' in d, e['x']",
}


@pytest.mark.parametrize("name", TEXTS)
def test_what_is_written_is_read_anew(name: str) -> None:
    text = f"def f(n: int):\n    {TEXTS[name]}\n"
    space: dict = {}
    exec(text, space)
    shown = CompilationUnit(text).f.inlined_graph
    graph, known = shown.ir, shown.program
    for order in ("lower_lists", "constant_propagation", "lower_lists", "peephole", "cse", "lower_lists"):
        graph = SCRIPTED[order](graph)
        made = ScriptFunction(Program("f", known.parameters, known.returns, graph, known.functions, {}, known.python))
        with weft.jit.optimized_execution(False):
            assert [made(n) for n in (0, 4)] == [space["f"](n) for n in (0, 4)], f"{order}\n{graph}"

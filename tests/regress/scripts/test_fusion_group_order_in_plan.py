"""A group that moved to the end of a plan, behind another one, was forgotten there: a node that reads both joined the
group in front, and read what was not there yet.
"""

from __future__ import annotations

import contextlib

import weft
import weft.jit
from tests.jit_programs.random_mixtures import program
from weft import Tensor


@weft.jit.script
def scaled(x: Tensor, k: int) -> tuple[int, Tensor]:
    u = weft.sin(x)
    js = [1, k]
    hs = [x, x * 2]
    k = (js[1] + 1) % 50
    k = (k if float(u.sum()) < 1.4 else js[0]) % 50
    return k, weft.stack(hs).sum(0) * u


def test_a_node_that_reads_both_comes_behind_both() -> None:
    x = weft.tensor([0.5, -0.25])
    for _ in range(2):
        k, found = scaled(x, 3)
        assert k == 4 and weft.allclose(found, x * 3 * x.sin())


def test_plans_of_random_programs_keep_the_rules(rng) -> None:
    for seed in rng.integers(1 << 30, size=20):
        f = weft.jit.CompilationUnit(program(int(seed))).f
        with contextlib.suppress(ArithmeticError, LookupError, RuntimeError):  # a program may raise
            f(weft.tensor(rng.uniform(-1, 1, 3)), 3, 0.5)
        weft.jit.last_executed_plan(f).graph.lint()

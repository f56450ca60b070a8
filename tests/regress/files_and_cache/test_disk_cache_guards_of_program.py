"""Programs cached on disk: questions that the passes ask after capture may be answered otherwise
by the next example."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import weft


@pytest.mark.parametrize("sizes", [(1, 4, 1), (4, 1, 4)])
def test_a_kept_program_must_fit_the_example(sizes: tuple[int, ...]) -> None:
    w = weft.ones(1, 3, requires_grad=True)

    def step(x: weft.Tensor) -> list[list[float]]:
        (w * x).sum().backward()
        out = w.grad
        w.grad = None
        return out

    for n in sizes:  # a fresh function each time: the same captured graph, found on disk
        assert weft.compile(step)(weft.full((n, 3), 2.0)).tolist() == [[2.0 * n] * 3]


USERS_OPERATOR = """
import sys
import weft
from weft.catalogue.families import pointwise
from weft.ops.packet import namespace_of

k = float(sys.argv[1])
pointwise(
    "mine::scale(Tensor self) -> Tensor", "k times self.", scalar=lambda s, x: s.mul(x, s.const(k, s.dtype(x))),
    vjp={"self": lambda g: g * k}, public=(),
)
scale = namespace_of("mine").scale
w = weft.ones(2, requires_grad=True)

def step(x):
    y = scale(w * x)
    y.sum().backward()
    return y, w.grad

print([t.tolist() for t in weft.compile(step)(weft.ones(2))])
print(weft.compile(lambda x: x + 1)(weft.ones(1)).tolist(), weft.counters.llvm_compiles)
"""


def test_an_operator_of_the_users_own_may_change(tmp_path: Path) -> None:
    compiles = []
    for k in (2.0, 3.0):
        done = subprocess.run(
            [sys.executable, "-c", USERS_OPERATOR, str(k)], cwd=Path(__file__).parents[3],
            env={**os.environ, "WEFT_CACHE": str(tmp_path)}, capture_output=True, text=True, check=True,
        )
        first, second = done.stdout.splitlines()
        assert first == str([[k, k], [k, k]])
        compiles.append(int(second.split("] ")[1]))
    assert compiles[1] == 1  # the program with the operator; the other one was kept

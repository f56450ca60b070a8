"""An expanded argument is taken once by a compiled program, not in full, whatever lies below the expansion."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

import weft

Make = Callable[[int], Any]
MAKES: dict[str, Make] = {
    "of a column": lambda n: weft.arange(3.0).view(3, 1).expand(3, n),
    "of a number": lambda n: weft.tensor(3.0).expand(n, n),
    "of a transpose": lambda n: weft.arange(6.0).view(3, 2).t().unsqueeze(1).expand(2, n, 3),
    "of memory with gaps": lambda n: weft.arange(6.0)[::2].view(3, 1).expand(3, n),
}


@pytest.mark.parametrize("backend", ["llvm", "numpy", "interpret"])
@pytest.mark.parametrize("name", MAKES)
def test_values_strides_and_captures(name: str, backend: str) -> None:
    def step(v: Any) -> Any:
        return v * 2 + v.sum(0), v.reshape(-1), v[1:], v

    compiled, make = weft.compile(step, backend=backend), MAKES[name]
    before = weft.counters.captures
    for n in (4, 5, 7):
        given = make(n)
        for eager, found in zip(step(given), compiled(given), strict=True):
            assert found.tolist() == eager.tolist() and found.stride() == eager.stride()
        assert compiled(given)[3] is given
    assert weft.counters.captures == before + 1


def test_a_value_for_all_is_written() -> None:
    for make in (MAKES["of a column"], MAKES["of memory with gaps"]):
        given = make(4)
        assert weft.compile(lambda v: v.fill_(7.0) * 1)(given).tolist() == given.tolist() == [[7.0] * 4] * 3
        with pytest.raises(RuntimeError, match="refers to a single memory location"):
            weft.compile(lambda v: v.add_(1.0))(given)


def test_gradients_have_the_sizes_of_the_argument() -> None:
    p = weft.arange(3.0).view(3, 1).expand(3, 4).requires_grad_()
    weft.compile(lambda v: (v * v).sum())(p).backward()
    assert p.grad is not None and p.grad.tolist() == [[0.0] * 4, [2.0] * 4, [4.0] * 4]
    w = weft.arange(3.0, requires_grad=True)
    weft.compile(lambda v: (v * v).sum())(w.view(3, 1).expand(3, 4)).backward()
    assert w.grad is not None and w.grad.tolist() == [0.0, 8.0, 16.0]


def test_memory() -> None:
    """2.5 GB if the argument were copied."""
    program = (
        "import resource, weft\nheld = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10\n"
        "x = weft.ones(5, 1).expand(5, 2**27)\nf = weft.compile(lambda v: v[:, -1].sum())\nbefore = held()\n"
        "assert f(x).item() == 5\nprint(held() - before)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert int(done.stdout) < 400

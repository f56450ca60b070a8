"""Native code stays within its buffers: programs and operators over arrays that end (or begin) at a page
that nobody may touch."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[4]
pytestmark = pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="pages are guarded with Linux's mmap and mprotect"
)


def run(*args: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *args], cwd=ROOT, capture_output=True, text=True)


@pytest.mark.parametrize("side,offset", [("True", 20), ("False", -4)])
def test_a_touch_beyond_an_array_ends_the_process(side: str, offset: int) -> None:
    code = (
        "import ctypes, numpy\nfrom tests.unit.codegen import guarded\n"
        f"guarded.at_end = {side}\nx = guarded.empty((5,), numpy.float32)\n"
        "at = lambda n: ctypes.c_float.from_address(x.__array_interface__['data'][0] + n).value\n"
        f"assert at(0) != at(0) and at(16) != at(16)\nprint('inside', flush=True)\nat({offset})\n"
    )
    done = run("-c", code)
    assert done.stdout == "inside\n" and done.returncode < 0


def test_programs_and_operators(rng: np.random.Generator) -> None:
    seed = int(rng.integers(2**31))
    done = run("-m", "tests.unit.codegen.guarded", str(seed), "6", "40", "8")
    last = "\n".join(done.stdout.splitlines()[-30:])
    assert done.returncode == 0, f"seed {seed}, exit {done.returncode}:\n{last}\n{done.stderr[-3000:]}"
    assert done.stdout.count("call {") == 18

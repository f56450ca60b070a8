"""The heap keeps what arrays let go: steps that make the same arrays again touch no new pages."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

STEPS = """
import resource
import numpy as np
{first}
def step():
    arrays = [np.ones(100_000, np.float32) for _ in range(12)]
for _ in range(5):
    step()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(50):
    step()
print((resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before) / 50)
"""
KEEP = "from weft.runtime.heap import keep_freed_memory\nkept = keep_freed_memory()\n"
EAGER = "import weft\nx = weft.ones(100_000)\nweft.nn.functional.gelu(x) + x\n"  # a first native kernel
pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="glibc's heap")


def run(code: str, **settings: str) -> str:
    clean = {k: v for k, v in os.environ.items() if not k.startswith("MALLOC_") and k != "GLIBC_TUNABLES"}
    found = subprocess.run(
        [sys.executable, "-c", code], env={**clean, **settings}, capture_output=True, text=True, check=True
    )
    return found.stdout.strip()


@pytest.mark.parametrize("first", [KEEP, EAGER], ids=["asked", "by a native kernel"])
def test_steps_touch_no_new_pages(first: str) -> None:
    if run(KEEP + "print(kept)") == "False":
        pytest.skip("another C library")
    assert float(run(STEPS.format(first=first))) < 20


@pytest.mark.parametrize("name", ["MALLOC_TRIM_THRESHOLD_", "GLIBC_TUNABLES"])
def test_settings_of_the_user_stay(name: str) -> None:
    value = "glibc.malloc.trim_threshold=131072" if name == "GLIBC_TUNABLES" else "131072"
    assert run(KEEP + "print(kept)", **{name: value}) == "False"

"""An exported step as a program of C: compiled beside it, run on a test's batches, its state and outputs read."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from weft.export.write import Exported
from weft.types import dims as dm
from weft.types import dtype as dt
from weft.types.parse import parse_dim

DRIVER = Path(__file__).with_name("driver.c")
COMPILER = next((c for c in ("cc", "gcc", "clang") if shutil.which(c)), None)
needs_compiler = pytest.mark.skipif(COMPILER is None, reason="no C compiler here")
# what an object may ask of its surroundings: libc on memory, libm, threads and the futex of Linux
ALLOWED = {
    "memcpy", "memset", "memmove", "fma", "fmaf", "pow", "pthread_create", "pthread_join", "sched_yield", "syscall",
}


def run_in_c(
    exported: Exported, batches: Sequence[Sequence[Any]], sizes: Sequence[int], steps: int, threads: int = 1
) -> tuple[bytes, list[bytes]]:
    """The state after so many calls, and the bytes that each call gave. batches: the inputs of calls, by turns."""
    folder, step = exported.object.parent, exported.description
    assert step.name == "step"
    symbols = {s.symbol: size for s, size in zip(step.sizes, sizes, strict=True)}
    given, gives = ([_bytes(a, symbols) for a in arrays] for arrays in (step.inputs, step.outputs))
    (folder / "step.inputs").write_bytes(b"".join(np.ascontiguousarray(t._data).tobytes() for b in batches for t in b))
    (folder / "case.h").write_text(
        f"#define STEPS {steps}\n#define BATCHES {max(len(batches), 1)}\n#define THREADS {threads}\n"
        f"static const size_t in_bytes[] = {{{_row(given)}}}, out_bytes[] = {{{_row(gives)}}};\n"
        f"static const int64_t sizes[] = {{{_row(sizes)}}};\n"
    )
    shutil.copy(DRIVER, folder)
    compile_ = [COMPILER, "-O1", "driver.c", "step.o", "-lm", "-lpthread", "-o", "driver"]
    for command in (compile_, [str(folder / "driver")]):
        run = subprocess.run(command, cwd=folder, capture_output=True, text=True)  # type: ignore[arg-type]
        assert run.returncode == 0, run.stderr
    content, at, calls = (folder / "step.outputs").read_bytes(), 0, []
    for _ in range(steps):
        calls.append(content[at : at + sum(gives)])
        at += sum(gives)
    return (folder / "step.after").read_bytes(), calls


def undefined(exported: Exported) -> set[str]:
    """The symbols that an object needs."""
    run = subprocess.run(["nm", "-u", exported.object], capture_output=True, text=True, check=True)
    return {line.split()[-1] for line in run.stdout.splitlines()}


def _bytes(array: Any, symbols: dict[str, int]) -> int:
    count = 1
    for d in array.dims:
        count *= d if isinstance(d, int) else dm.evaluate(parse_dim(d), symbols)
    return count * dt.by_name(array.dtype).numpy.itemsize


def _row(numbers: Sequence[int]) -> str:
    return ", ".join(map(str, numbers)) or "0"

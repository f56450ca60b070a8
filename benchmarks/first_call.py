"""Seconds until a GPT step (W6) has run for the first time, in fresh processes: with an empty disk cache,
then with the one it filled; and import.

    python -m benchmarks.first_call [--workload W6 W5 W8a] [--repeats N] [--torch PYTHON]
    python -m benchmarks.first_call --growth programs and Adam steps of growing size:
    seconds and microseconds per operator
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

import weft
from benchmarks.capture import mix, training
from benchmarks.peers import PeerProcess, machine, parser, torch_python
from weft.compile.driver import CompiledFunction
from weft.programs.executable import Compiled


def main(arguments: list[str]) -> None:
    options = parser(__doc__)
    options.add_argument("--workload", nargs="+", default=["W6"])
    options.add_argument("--growth", action="store_true")
    options.add_argument("--one", nargs=2, metavar=("KIND", "SIZE"), help="one line of --growth, in this process")
    options.add_argument("--repeats", type=int, default=2)
    given = options.parse_args(arguments)
    if given.one:
        print(*grown(given.one[0], int(given.one[1])))
        return
    print(machine())
    if given.growth:
        growth()
        return
    python = torch_python(given.torch)
    best: dict[str, tuple[float, ...]] = {}

    def note(name: str, *seconds: float) -> None:
        best[name] = tuple(map(min, seconds, best.get(name, seconds)))

    for workload in given.workload * given.repeats:
        with tempfile.TemporaryDirectory() as folder:
            for name in ("empty cache", "warm cache"):
                imported, *first = once("weft", sys.executable, workload, {"WEFT_CACHE": folder})
                note("import weft", imported)
                note(f"first call of {workload}, {name}", *first)
        if python is not None:
            imported, *first = once("torch", python, workload, {})
            note("import torch", imported)
            note(f"first call of {workload}, torch eager", *first)
    for name, (seconds, *work) in best.items():
        print(f"{name:<36} {seconds:.2f} s{''.join(f' {s:.2f} s of work' for s in work)}")


def once(name: str, python: str, workload: str, environment: dict[str, str]) -> tuple[float, float, float]:
    """Seconds of the import and of the first call, and those that the process was at work for the call, in a fresh
    process."""
    with PeerProcess(name, python, environment) as peer:
        reply = peer.ask("load", workload=workload)
        return peer.import_seconds, reply["first_call"], reply["work"]


GROWTH = {"mix": (1_000, 10_000, 100_000), "training": (1_000, 10_000, 100_000), "adam": (1_000, 5_000)}


def growth() -> None:
    """Each size in a fresh process with an empty cache: seconds of the first call, and those that the process worked,
    which on a busy machine tell more; what an operator of the compiled graph costs, of all and of those added.
    """
    for kind, sizes in GROWTH.items():
        before = (0.0, 0)
        for size in sizes:
            with tempfile.TemporaryDirectory() as folder:
                command = [sys.executable, "-m", "benchmarks.first_call", "--one", kind, str(size)]
                done = subprocess.run(
                    command, capture_output=True, text=True, check=True, env={**os.environ, "WEFT_CACHE": folder}
                )
            seconds, work, operators = map(float, done.stdout.split())
            each, more = 1e6 * work / operators, 1e6 * (work - before[0]) / (operators - before[1])
            times = f"{seconds:8.2f} s {work:8.2f} s of work {each:8.1f} us each {more:8.1f}"
            print(f"{kind:<10} {size:>8,} {times}", flush=True)
            before = (work, int(operators))


def grown(kind: str, size: int) -> tuple[float, float, int]:
    """Seconds of the first call of a program of a kind, those that the process was at work, and how many operators its
    optimized graph has."""
    function, arguments = {"mix": mix, "training": training, "adam": adam}[kind](size)
    compiled = CompiledFunction(function)
    start, work = time.perf_counter(), time.process_time()
    compiled(*arguments)
    seconds, work = time.perf_counter() - start, time.process_time() - work
    executable = compiled.entries[0].executable
    assert isinstance(executable, Compiled)
    return seconds, work, len(executable.optimized().nodes)


def adam(parameters: int) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """A step of Adam over so many parameters of eight elements, whose gradients are there."""
    held = [weft.nn.Parameter(weft.randn(8)) for _ in range(parameters)]
    for p in held:
        p.grad = weft.randn(8)
    return weft.optim.Adam(held).step, ()


if __name__ == "__main__":
    main(sys.argv[1:])

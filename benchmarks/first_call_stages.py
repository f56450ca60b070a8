"""Milliseconds of the parts of a first call with an empty disk cache: capture, passes, lowering, and LLVM's stages,
of the program and of the objects that every program shares.

    python -m benchmarks.first_call_stages [W1b W4 W6 ...] [--repeats N] [--cpu]

Each workload runs in fresh processes; of every part the best is printed. Parts are those of the thread that calls; what
others compile meanwhile shows as "wait", where it is waited for. --cpu: milliseconds that the process was at work
(all its threads) in place of those on the clock.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

from benchmarks.peers import REAL_TIME, machine, outrank, parser

WORKLOADS = ("W1b", "W4", "W6", "W12", "W10")
COLUMNS = (
    "import", "load code generator", "first call", "capture", "passes", "lower", "plan", "text", "parse", "verify",
    "emit", "wait", "link", "run", "rest", "kB of text",
)  # fmt: skip


def main(arguments: list[str]) -> None:
    options = parser(__doc__)
    options.add_argument("workloads", nargs="*", default=WORKLOADS)
    options.add_argument("--repeats", type=int, default=3)
    options.add_argument("--cpu", action="store_true")
    options.add_argument("--one", help="the parts of one workload, in this process")
    given = options.parse_args(arguments)
    if given.one:
        print(json.dumps(measure(given.one, time.process_time if given.cpu else time.perf_counter)))
        return
    print(machine())
    table = {workload: best(workload, given.repeats, given.cpu) for workload in given.workloads}
    print(f"{'ms':<20}" + "".join(f"{workload:>9}" for workload in table))
    for column in COLUMNS:
        print(f"{column:<20}" + "".join(f"{parts.get(column, 0):>9.1f}" for parts in table.values()))


def best(workload: str, repeats: int, cpu: bool) -> dict[str, float]:
    """The best of each part over processes of their own."""
    least: dict[str, float] = {}
    for _ in range(repeats):
        with tempfile.TemporaryDirectory() as folder:
            command = [sys.executable, "-m", "benchmarks.first_call_stages", "--one", workload, *["--cpu"] * cpu]
            done = subprocess.run(
                command, capture_output=True, text=True, check=True, env={**os.environ, "WEFT_CACHE": folder},
                preexec_fn=outrank if os.environ.get(REAL_TIME) else None,
            )
        parts = json.loads(done.stdout.splitlines()[-1])
        least = {name: min(parts[name], least.get(name, parts[name])) for name in parts}
    return least


class Clock:
    """Exclusive times by part: what runs within another part is not counted in that."""

    def __init__(self, now: Callable[[], float]) -> None:
        self.now, self.seconds, self._inner = now, Counter[str](), [0.0]

    def part(self, name: str, owner: Any, attribute: str) -> None:
        """Have calls of a function counted as a part."""
        function = getattr(owner, attribute)

        def timed(*args: Any, **kwargs: Any) -> Any:
            if threading.current_thread() is not threading.main_thread():
                return function(*args, **kwargs)
            start = self.now()
            self._inner.append(0.0)
            try:
                return function(*args, **kwargs)
            finally:
                whole, inner = self.now() - start, self._inner.pop()
                self.seconds[name] += whole - inner
                self._inner[-1] += whole

        setattr(owner, attribute, timed)


def measure(workload: str, now: Callable[[], float]) -> dict[str, float]:
    """Milliseconds of each part of the first call."""
    start = now()
    import weft

    imported = now() - start
    from benchmarks.workloads import WORKLOADS as builders

    weft.set_num_threads(2)
    step = builders[workload](weft, weft.compile)
    start = now()
    import llvmlite.binding as llvm

    from weft.codegen import compilation, compiler, native
    from weft.codegen.emit import module
    from weft.codegen.lower import graph as lowering
    from weft.codegen.program import compile as program
    from weft.compile.driver import CompiledFunction
    from weft.programs import executable
    from weft.runtime.program import Program

    loaded = now() - start
    clock, sizes = Clock(now), []
    text = module.Module.text

    def measured(self: Any, *names: Any) -> str:
        sizes.append(len(result := text(self, *names)))
        return result

    module.Module.text = measured  # type: ignore[method-assign]
    for name, owner, attribute in (
        ("capture", CompiledFunction, "capture"), ("passes", executable, "fold"),
        ("passes", executable, "optimize_folded"), ("lower", lowering, "lower_graph"),
        ("plan", program, "native_layout"), ("text", module.Module, "text"), ("parse", llvm, "parse_assembly"),
        ("verify", llvm.ModuleRef, "verify"), ("emit", compiler, "compile_object"),
        ("emit", compilation.Part, "compile"), ("wait", compilation.Compilation, "_end"), ("link", program, "load"),
        ("link", native, "load"), ("run", Program, "run"), ("rest", executable.Compiled, "_code"),
    ):  # fmt: skip
        clock.part(name, owner, attribute)
    start = now()
    value = step(0)
    if value is not None:
        value.numpy()
    whole = now() - start
    parts = {name: 1e3 * s for name, s in clock.seconds.items()}
    parts |= {"import": 1e3 * imported, "load code generator": 1e3 * loaded, "first call": 1e3 * whole}
    return parts | {"kB of text": sum(sizes) / 1e3}


if __name__ == "__main__":
    main(sys.argv[1:])

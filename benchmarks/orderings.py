"""Orderings, masks, scans and scatters beside PyTorch's, forward and (where there is one) backward.

    python -m benchmarks.orderings [NAME ...] [--torch PYTHON] [--float64] [--rounds N]

Milliseconds of the processor on one thread, each library in a process of its own, in turn; the least of all rounds.
weft is compiled, PyTorch eager. `host` counts what of weft's program NumPy runs.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.peers import ROOT, THREAD_VARIABLES, machine, parser, torch_python

SIZE, REPEATS = 1000, 7
Rows = dict[str, tuple[Callable[..., Any], tuple[Any, ...]]]


def rows(float_type: str) -> Rows:
    """Name to a function of a library and its inputs, whose result is summed and differentiated if it can be."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((SIZE, SIZE)).astype(float_type)
    points = [rng.standard_normal((SIZE, 16)).astype(float_type) for _ in range(2)]
    numbers = rng.integers(0, 100, SIZE * SIZE)
    places = rng.integers(0, SIZE, (SIZE, SIZE))
    return {
        "sort": (lambda xp, x: xp.sort(x, dim=1)[0][:, :10], (x,)),
        "topk 10": (lambda xp, x: xp.topk(x, 10, dim=1)[0], (x,)),
        "topk 100": (lambda xp, x: xp.topk(x, 100, dim=1)[0], (x,)),
        "median": (lambda xp, x: xp.median(x, 1)[0], (x,)),
        "kthvalue": (lambda xp, x: xp.kthvalue(x, 300, 1)[0], (x,)),
        "searchsorted": (lambda xp, x: xp.searchsorted(xp.sort(x[0])[0], x.detach()), (x,)),
        "x[x > 0]": (lambda xp, x: x[x > 0] ** 2, (x,)),
        "nonzero": (lambda xp, x: xp.nonzero(x.detach() > 1), (x,)),
        "cumsum dim 1": (lambda xp, x: xp.cumsum(x, dim=1) ** 2, (x,)),
        "cumsum dim 0": (lambda xp, x: xp.cumsum(x, dim=0) ** 2, (x,)),
        "cummax dim 1": (lambda xp, x: xp.cummax(x, dim=1)[0], (x,)),
        "logcumsumexp": (lambda xp, x: xp.logcumsumexp(x, dim=1), (x,)),
        "scatter amax": (lambda xp, x, i: x.scatter_reduce(1, i, x * 2, "amax"), (x, places)),
        "bincount": (lambda xp, x: xp.bincount(x, minlength=100), (numbers,)),
        "cdist": (lambda xp, x, y: xp.cdist(x, y), tuple(points)),
    }


def measured(library: str, float_type: str, names: list[str]) -> dict[str, tuple[float, int]]:
    """Name to milliseconds, and to how often a call of the program leaves native code."""
    if library == "weft":
        import weft as xp  # one of the two, in a process of its own

        compile: Callable[..., Any] = xp.compile
    else:
        import torch as xp  # type: ignore[no-redef, import-not-found]

        compile = lambda f: f  # noqa: E731
    xp.set_num_threads(1)
    results: dict[str, tuple[float, int]] = {}
    for name, (function, arrays) in rows(float_type).items():
        if names and name not in names:
            continue
        inputs = [xp.tensor(a) for a in arrays]
        leaves = [t.requires_grad_() for t in inputs if t.is_floating_point()]

        def step(*inputs: Any, function: Any = function, leaves: int = len(leaves)) -> Any:
            result = function(xp, *inputs)
            if not result.requires_grad:
                return result
            return result.detach(), *xp.autograd.grad(result.sum(), inputs[:leaves])

        run, best = compile(step), float("inf")
        run(*inputs)
        for _ in range(REPEATS):
            start = time.process_time()
            run(*inputs)
            best = min(best, time.process_time() - start)
        host = 0
        if library == "weft":
            xp.counters.reset()
            run(*inputs)
            host = xp.counters.foreign_segments
        results[name] = best * 1e3, host
    return results


def main(arguments: list[str]) -> None:
    options = parser(__doc__)
    options.add_argument("names", nargs="*")
    options.add_argument("--float64", action="store_true")
    options.add_argument("--rounds", type=int, default=2)
    options.add_argument("--library", help="measure one, and print it as data")
    given = options.parse_args(arguments)
    float_type = "f8" if given.float64 else "f4"
    if given.library:
        print(json.dumps(measured(given.library, float_type, given.names)))
        return
    python = torch_python(given.torch)
    libraries = [("weft", sys.executable), *([("torch", python)] if python else [])]
    best: dict[str, dict[str, float]] = {}
    for _ in range(given.rounds):
        for library, interpreter in libraries:
            for name, (milliseconds, host) in _asked(library, interpreter, given).items():
                row = best.setdefault(name, {})
                row[library] = min(milliseconds, row.get(library, milliseconds))
                row["host"] = max(host, row.get("host", 0))
    print(machine())
    print(f"{'':<14} {'weft ms':>8} {'torch ms':>9} {'ratio':>6} {'host':>5}   {float_type}")
    for name, row in best.items():
        other = row.get("torch")
        cells = f"{other:>9.2f} {row['weft'] / other:>6.2f}" if other else f"{'-':>9} {'-':>6}"
        print(f"{name:<14} {row['weft']:>8.2f} {cells} {row['host']:>5.0f}")


def _asked(library: str, python: str, given: Any) -> dict[str, tuple[float, int]]:
    command = [python, "-m", "benchmarks.orderings", "--library", library, *given.names]
    if given.float64:
        command.append("--float64")
    settings = {**os.environ, **dict.fromkeys(THREAD_VARIABLES, "1"), "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=ROOT, env=settings, text=True, capture_output=True, check=True)
    results: dict[str, tuple[float, int]] = json.loads(done.stdout)
    return results


if __name__ == "__main__":
    main(sys.argv[1:])

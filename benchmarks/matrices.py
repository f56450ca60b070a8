"""Linear algebra on small matrices inside of compiled steps, forward and backward: a Kalman likelihood of 4 states, a
Gaussian process of 120 points, and 1000 matrices at once.

    python -m benchmarks.matrices [--torch PYTHON] [--steps N]

Each in fresh processes with empty disk caches, in turn: seconds of the first call, milliseconds of the best warm one,
host calls of one; as host calls (without the native kernels of matrices), natively, and in PyTorch's
eager mode, one thread each.
"""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.peers import ROOT, machine, parser, torch_python

WAYS = ("host calls", "native", "torch eager")
Step = Callable[[], Any]


def main(arguments: list[str]) -> None:
    options = parser(__doc__)
    options.add_argument("--steps", type=int, default=200, help="of the Kalman filter")
    options.add_argument("--one", nargs=2, metavar=("WAY", "PROGRAM"), help="one line, in this process")
    given = options.parse_args(arguments)
    if given.one:
        print(json.dumps(timed(*given.one, given.steps)))
        return
    print(machine())
    torch = torch_python(given.torch)
    for program in PROGRAMS:
        for way in WAYS if torch else WAYS[:2]:
            with tempfile.TemporaryDirectory() as cache:
                environment = {**os.environ, "WEFT_CACHE": cache, "PYTHONPATH": str(ROOT)}
                python = torch if way == WAYS[2] and torch else sys.executable
                command = [python, "-m", "benchmarks.matrices", "--steps", str(given.steps), "--one", way, program]
                done = subprocess.run(command, cwd=ROOT, env=environment, text=True, stdout=subprocess.PIPE, check=True)
            first, warm, host_calls, value = json.loads(done.stdout)
            print(
                f"{program:<18} {way:<12} first {first:6.2f} s   warm {warm:8.3f} ms   host calls {host_calls:5}   "
                f"value {value:.6g}", flush=True,
            )


def timed(way: str, program: str, steps: int) -> tuple[float, float, int, float]:
    """Seconds of the first call, milliseconds of the best of the others, host calls of one, and its value."""
    xp = importlib.import_module("torch" if way == WAYS[2] else "weft")
    xp.set_num_threads(1)
    step = PROGRAMS[program](xp, steps)
    if way != WAYS[2]:
        step = xp.compile(step)
        if way == WAYS[0]:
            _without_kernels()
    started = time.perf_counter()
    value = float(step())
    first = time.perf_counter() - started
    best, end = float("inf"), time.perf_counter() + 3
    while time.perf_counter() < end:
        started = time.perf_counter()
        step()
        best = min(best, time.perf_counter() - started)
    before = xp.counters.foreign_segments if way != WAYS[2] else 0
    step()
    return first, best * 1e3, xp.counters.foreign_segments - before if way != WAYS[2] else 0, value


def _without_kernels() -> None:
    """Leave the operators on matrices to NumPy, as if nobody had written kernels of theirs."""
    from weft.codegen.lower import graph, matrices  # noqa: F401  # once every kernel is entered
    from weft.codegen.lower.lowering import LOWERINGS

    for op, lowerer in list(LOWERINGS.items()):
        if lowerer.__module__ == matrices.__name__:
            del LOWERINGS[op]


def kalman(xp: Any, steps: int) -> Step:
    """The gradient of a filter's likelihood with respect to both noises: 4 states, 2 of them seen."""
    rng = np.random.default_rng(0)
    F = xp.from_numpy(0.9 * np.eye(4) + 0.05 * rng.standard_normal((4, 4)))
    H = xp.from_numpy(rng.standard_normal((2, 4)))
    seen = list(xp.from_numpy(rng.standard_normal((steps, 2))))
    noise = [xp.zeros(n, dtype=xp.float64, requires_grad=True) for n in (4, 2)]

    def step() -> Any:
        Q, R = (xp.diag(n.exp()) for n in noise)
        mean, P = xp.zeros(4, dtype=xp.float64), xp.eye(4, dtype=xp.float64)
        loss = xp.zeros((), dtype=xp.float64)
        for y in seen:
            mean, P = F @ mean, F @ P @ F.mT + Q
            S = H @ P @ H.mT + R
            rest = y - H @ mean
            z = xp.linalg.solve_triangular(xp.linalg.cholesky(S), rest.unsqueeze(-1), upper=False)
            loss = loss + 0.5 * (z * z).sum() + 0.5 * xp.linalg.slogdet(S)[1]
            gain = xp.linalg.solve(S, H @ P).mT
            mean, P = mean + gain @ rest, P - gain @ H @ P
        return loss.detach() + sum(g.sum() for g in xp.autograd.grad(loss, noise))

    return step


def gaussian_process(xp: Any, steps: int) -> Step:
    """The gradient of a marginal likelihood of 3 outputs at 120 points."""
    rng = np.random.default_rng(0)
    x, y = (xp.from_numpy(rng.standard_normal(dims)) for dims in ((120, 2), (120, 3)))
    scales = xp.zeros(3, dtype=xp.float64, requires_grad=True)
    eye = xp.eye(120, dtype=xp.float64)

    def step() -> Any:
        distance = ((x.unsqueeze(1) - x.unsqueeze(0)) ** 2).sum(-1)
        K = scales[0].exp() * (-distance * scales[1].exp()).exp() + 0.1 * scales[2].exp() * eye
        L = xp.linalg.cholesky(K)
        z = xp.linalg.solve_triangular(L, y, upper=False)
        loss = 0.5 * (z * z).sum() + 3 * L.diagonal().log().sum()
        return loss.detach() + sum(g.sum() for g in xp.autograd.grad(loss, [scales]))

    return step


def many(xp: Any, steps: int) -> Step:
    """The gradient of inverses and determinants of 1000 matrices of 4 rows."""
    rng = np.random.default_rng(0)
    a = xp.from_numpy(rng.standard_normal((1000, 4, 4)) + 8 * np.eye(4)).to(xp.float32).requires_grad_()

    def step() -> Any:
        loss = (xp.linalg.inv(a) ** 2).sum() + xp.linalg.det(a).log().sum()
        return loss.detach() + sum(g.sum() for g in xp.autograd.grad(loss, [a]))

    return step


PROGRAMS = {"kalman": kalman, "gaussian_process": gaussian_process, "many": many}

if __name__ == "__main__":
    main(sys.argv[1:])

"""A loop over the windows of one series: an autoregressive model is trained to give each window shifted by one, with
both windows views of the series.

    python -m benchmarks.windows [--steps N] [--lengths N ...]

For each length of the windows: captures, seconds of all steps from the first one on, and microseconds per step once
more over the same windows, compiled and in eager mode.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np

import weft
from benchmarks.peers import machine
from weft.nn import functional as F

HIDDEN = 32


def step_of(length: int, compile: Any) -> Any:
    """One step of training a small network on two windows."""
    weft.manual_seed(0)
    layers = weft.nn.Linear(length, HIDDEN), weft.nn.Tanh(), weft.nn.Linear(HIDDEN, length)
    model = weft.nn.Sequential(*layers)
    optimizer = weft.optim.Adam(model.parameters(), lr=1e-3)

    def step(window: weft.Tensor, shifted: weft.Tensor) -> weft.Tensor:
        optimizer.zero_grad()
        loss = F.mse_loss(model(window), shifted)
        loss.backward()
        optimizer.step()
        return loss

    return compile(step)


def seconds(step: Any, series: weft.Tensor, length: int, steps: int) -> float:
    """Of a loop over the windows."""
    start = time.perf_counter()
    for i in range(steps):
        step(series[i : i + length], series[i + 1 : i + length + 1])
    return time.perf_counter() - start


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--steps", type=int, default=500)
    options.add_argument("--lengths", type=int, nargs="+", default=[32])
    given = options.parse_args()
    print(machine())
    print(f"{'':10}{'captures':>10}{'first s':>10}{'again us':>10}{'eager us':>10}")
    for length in given.lengths:
        numbers = np.random.default_rng(0).standard_normal(given.steps + length + 1)
        series = weft.from_numpy(np.cumsum(numbers).astype(np.float32))
        step, eager = step_of(length, weft.compile), step_of(length, lambda f: f)
        weft.counters.reset()
        first = seconds(step, series, length, given.steps)
        captures = weft.counters.captures
        again, plain = (min(seconds(f, series, length, given.steps) for _ in range(2)) for f in (step, eager))
        each = [1e6 * t / given.steps for t in (again, plain)]
        print(f"{length:<10}{captures:>10}{first:>10.2f}{each[0]:>10.1f}{each[1]:>10.1f}")


if __name__ == "__main__":
    main()

"""Reductions: `python -m benchmarks.sums` prints how exact sums and variances are beside NumPy's in pairs,
and what rows cost.

--errors: float32 sums and variances of ten million numbers around 10,000; the greatest relative error over all results,
against float64.
--times: compiled, one thread, microseconds for 1.28 million elements in rows of 16 to 1,000, forward.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import weft
from weft.nn import functional as F

SHAPES = ((10_000_000,), (1_000_000, 10), (10, 1_000_000), (3162, 3163))
LENGTHS, ELEMENTS, REPEATS = (16, 64, 256, 1000), 1_280_000, 200
ROWS: dict[str, Callable[[weft.Tensor], weft.Tensor]] = {
    "sum": lambda x: x.sum(1), "var": lambda x: x.var(1), "softmax": lambda x: weft.softmax(x, 1),
    "layer_norm": lambda x: F.layer_norm(x, x.shape[1:]), "rms_norm": lambda x: F.rms_norm(x, x.shape[1:]),
}


def errors() -> None:
    rng = np.random.default_rng(5)
    print(f"{'':28}{'NumPy':>18}{'eager':>18}{'compiled':>18}   (sum, variance)")
    for shape in SHAPES:
        x = (rng.uniform(0, 1, shape) + 1e4).astype(np.float32)
        truth = x.astype(np.float64)
        for dim in range(len(shape)):
            pairs = np.ascontiguousarray(np.moveaxis(x, dim, -1))  # NumPy adds up in pairs along the last axis only
            exact = truth.sum(dim), truth.var(dim)
            found = [(pairs.sum(-1), pairs.var(-1))]
            for run in (lambda f: f, weft.compile):
                results = run(lambda v, dim=dim: (v.sum(dim), v.var(dim, correction=0)))(weft.from_numpy(x))
                found.append(tuple(r.numpy() for r in results))
            cells = ["{:9.1e}{:9.1e}".format(*map(_error, pair, exact)) for pair in found]
            print(f"{shape!s:>20} dim {dim}  {''.join(cells)}")


def _error(found: Any, exact: Any) -> float:
    return float(np.abs(found / exact - 1).max())


def times() -> None:
    weft.set_num_threads(1)
    rng = np.random.default_rng(5)
    print(f"{'':12}{''.join(f'{n:9}' for n in LENGTHS)}")
    for name, function in ROWS.items():
        cells = [
            _microseconds(function, weft.from_numpy(rng.standard_normal((ELEMENTS // n, n)).astype(np.float32)))
            for n in LENGTHS
        ]
        print(f"{name:12}{''.join(f'{c:9.0f}' for c in cells)}")


def _microseconds(function: Callable[[weft.Tensor], weft.Tensor], x: weft.Tensor) -> float:
    run, best = weft.compile(function), float("inf")
    for _ in range(REPEATS):
        start = time.perf_counter()
        run(x)
        best = min(best, time.perf_counter() - start)
    return best * 1e6


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--errors", action="store_true")
    parser.add_argument("--times", action="store_true")
    chosen = parser.parse_args()
    for flag, show in ((chosen.errors, errors), (chosen.times, times)):
        if flag or not (chosen.errors or chosen.times):
            show()

"""GFLOP/s of matrix products: weft's eager operator, NumPy (OpenBLAS) and, where it is installed, PyTorch (MKL).

    python -m benchmarks.products [--threads N] [--float64] [M,N,K[,batch] ...]

The calls are interleaved in one process, best of many; the last column is weft's time as a share of the best other's.
NN, NT, TN: which operand is the transpose of a row-major array.
"""

from __future__ import annotations

import argparse
import importlib
import os
import time
from collections.abc import Callable
from typing import Any

SQUARES = [(n, n, n, 0) for n in (64, 128, 256, 512, 1024, 2048)]
OTHERS = [
    (4096, 64, 64, 0), (64, 4096, 64, 0), (64, 64, 4096, 0), (32, 512, 512, 0), (8, 1024, 1024, 0), (1, 2048, 2048, 0),
    (2048, 1, 2048, 0), (128, 2048, 512, 0), (2048, 128, 512, 0), (64, 64, 64, 64), (256, 256, 64, 16),
    (16, 16, 16, 500), (256, 64, 256, 16),
]
ROUNDS, SECONDS = 3, 0.1


def best(run: Callable[[], object], so_far: float) -> float:
    """Seconds of the fastest call."""
    end, count = time.perf_counter() + SECONDS, 0
    while time.perf_counter() < end or count < 3:
        start = time.perf_counter()
        run()
        so_far, count = min(so_far, time.perf_counter() - start), count + 1
    return so_far


def libraries() -> dict[str, tuple[Callable[[Any], Any], Callable[[Any, Any], Any]]]:
    """By name: what makes an operand of an array, and the product."""
    import numpy

    import weft

    products: dict[str, tuple[Callable[[Any], Any], Callable[[Any, Any], Any]]] = {
        "weft": (weft.from_numpy, weft.matmul),
        "numpy": (lambda array: array, numpy.matmul),
    }
    try:
        torch = importlib.import_module("torch")
    except ImportError:
        return products
    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    products["torch"] = (torch.from_numpy, torch.matmul)
    return products


def compare(shape: tuple[int, int, int, int], kind: str, dtype: str) -> None:
    """One line of the table."""
    import numpy

    m, n, k, batch = shape
    lead = (batch,) if batch else ()
    draw = numpy.random.default_rng(0).standard_normal
    left = draw(lead + ((m, k) if kind[0] == "N" else (k, m))).astype(dtype)
    right = draw(lead + ((k, n) if kind[1] == "N" else (n, k))).astype(dtype)
    calls, seconds = {}, {}
    for name, (make, product) in libraries().items():
        a, b = (make(x) if t == "N" else make(x).swapaxes(-1, -2) for x, t in zip((left, right), kind, strict=True))
        calls[name], seconds[name] = (lambda product=product, a=a, b=b: product(a, b)), float("inf")
    for _ in range(ROUNDS):
        for name, call in calls.items():
            seconds[name] = best(call, seconds[name])
    work = 2e-9 * m * n * k * max(1, batch)
    figures = "".join(f"{work / s:9.1f}" for s in seconds.values())
    ratio = seconds["weft"] / min(s for name, s in seconds.items() if name != "weft")
    label = f"{kind} {m}x{n}x{k}" + (f" x {batch}" if batch else "")
    print(f"{label:28}{figures}   {ratio:5.2f}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("shapes", nargs="*", help="M,N,K or M,N,K,batch; default is a list of many")
    parser.add_argument("--threads", default="1")
    parser.add_argument("--float64", action="store_true")
    arguments = parser.parse_args()
    for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "WEFT_NUM_THREADS"):
        os.environ[variable] = arguments.threads
    dtype = "float64" if arguments.float64 else "float32"
    names = "".join(f"{name:>9}" for name in libraries())
    print(f"{dtype}, {arguments.threads} threads; GFLOP/s\n{' ' * 28}{names}   ratio")
    given = [tuple(map(int, (shape + ",0").split(",")[:4])) for shape in arguments.shapes]
    for shape in given or [*SQUARES, *OTHERS]:
        compare(shape, "NN", dtype)  # type: ignore[arg-type]
    if not given:
        compare((1024, 1024, 1024, 0), "NT", dtype)
        compare((1024, 1024, 1024, 0), "TN", dtype)


if __name__ == "__main__":
    main()

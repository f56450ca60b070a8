"""GFLOP/s of the native matrix product against NumPy's (OpenBLAS), both on one thread, interleaved.

    python benchmarks/gemm.py [float32|float64]

Prints best-of-many figures and their ratio for the shapes of a small GPT, an MLP, an RNN, attention batches and a few
odd sizes. weft's calls are repeated in native code, as a compiled step makes them; NumPy's are made from Python,
about a microsecond each.
NN, NT, TN: which operand is the transpose of a row-major array.
"""

from __future__ import annotations

import ctypes
import os
import sys
import time
from collections.abc import Callable

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy

from weft.codegen.gemm import gemm_symbol
from weft.codegen.gemm.library import gemm_module
from weft.codegen.gemm.tiles import plan_gemm
from weft.codegen.native import object_code
from weft.codegen.target import host_target
from weft.runtime.engine import load

SIZES = [
    *[("NT", 2048, n, k) for n, k in ((384, 128), (128, 128), (512, 128), (128, 512), (256, 128))],
    *[("NN", 2048, n, k) for n, k in ((128, 384), (128, 128), (128, 512), (512, 128))],
    *[("TN", m, n, 2048) for m, n in ((384, 128), (128, 128), (512, 128), (128, 512))],
    ("NT", 32, 128, 64), ("NT", 32, 128, 128), ("NT", 32, 10, 128), ("TN", 128, 64, 32), ("NN", 32, 128, 128),
    ("NT", 16, 512, 128), ("NN", 16, 128, 512), ("TN", 512, 128, 16),
    ("NN", 33, 33, 33), ("NN", 127, 127, 127), ("NT", 50, 50, 50), ("NN", 7, 7, 7),
    ("NN", 512, 512, 512), ("NT", 512, 512, 512), ("NN", 1024, 1024, 1024), ("NN", 8192, 64, 64), ("TN", 64, 64, 8192),
    ("NN", 1, 1024, 1024), ("NT", 1, 1024, 1024), ("NT", 4, 512, 128), ("NN", 1024, 1, 1024), ("TN", 1024, 1, 1024),
]
BATCHES = [("NT", 64, 128, 128, 32), ("NN", 64, 128, 32, 128), ("TN", 64, 128, 32, 128)]
SECONDS = 0.15


class Product:
    """The compiled library for one dtype."""

    def __init__(self, dtype: str) -> None:
        target = host_target()
        self.plan = plan_gemm(dtype, target)
        module = gemm_module(dtype, target)
        self.library = load(object_code(module.text(), target), [gemm_symbol("batched", self.plan)], {})
        pointers, sizes = [ctypes.c_void_p] * 3, [ctypes.c_int64] * 8
        head = [*pointers, *sizes, ctypes.c_int32, ctypes.c_void_p]
        self.batched = ctypes.CFUNCTYPE(None, *head, *[ctypes.c_int64] * 5)(
            self.library[gemm_symbol("batched", self.plan)]
        )

    def arguments(self, a: numpy.ndarray, b: numpy.ndarray, c: numpy.ndarray, workspace: numpy.ndarray) -> list[int]:
        """Everything up to the workspace."""
        strides = [step // a.itemsize for x in (a, b) for step in x.strides[-2:]]
        sizes = [a.shape[-2], b.shape[-1], a.shape[-1]]
        return [
            a.ctypes.data,
            b.ctypes.data,
            c.ctypes.data,
            *sizes,
            *strides,
            c.strides[-2] // c.itemsize,
            0,
            workspace.ctypes.data,
        ]


def operands(kind: str, shape: tuple[int, ...], dtype: str) -> tuple[numpy.ndarray, numpy.ndarray, numpy.ndarray]:
    """[..., M, K] and [..., K, N] (transposed as `kind` says) and an empty [..., M, N]; shape is (..., M, N, K)."""
    *batch, m, n, k = shape
    draw = numpy.random.default_rng(0).standard_normal
    a = draw((*batch, m, k) if kind[0] == "N" else (*batch, k, m)).astype(dtype)
    b = draw((*batch, k, n) if kind[1] == "N" else (*batch, n, k)).astype(dtype)
    a = a if kind[0] == "N" else a.swapaxes(-1, -2)
    b = b if kind[1] == "N" else b.swapaxes(-1, -2)
    return a, b, numpy.empty((*batch, m, n), dtype)


def compare(kind: str, shape: tuple[int, ...], dtype: str, product: Product) -> None:
    """Time both on one shape and print a line."""
    a, b, c = operands(kind, shape, dtype)
    reference = numpy.empty_like(c)
    workspace = numpy.empty(product.plan.workspace_bytes(*shape[-3:]) + 64, numpy.uint8)
    arguments = product.arguments(a, b, c, workspace[-workspace.ctypes.data % 64 :])
    apart = [a[0].size, b[0].size, c[0].size] if len(shape) == 4 else [0, 0, 0]
    batch = shape[0] if len(shape) == 4 else 1

    def ours(repeats: int) -> None:
        if batch == 1:  # the same product again and again: a batch whose operands are 0 elements apart
            product.batched(*arguments, *apart, 0, repeats)
            return
        for _ in range(repeats):
            product.batched(*arguments, *apart, 0, batch)

    def theirs(repeats: int) -> None:
        for _ in range(repeats):
            numpy.matmul(a, b, out=reference)

    times = interleave(ours, theirs)
    error = float(abs(c - reference).max()) / float(abs(reference).max())
    flops = 2.0 * float(numpy.prod([float(s) for s in shape]))
    weft, other = (flops / t / 1e9 for t in times)
    name = f"{kind} {'x'.join(map(str, shape)):>18}"
    print(
        f"{name}  weft {weft:7.1f}  numpy {other:7.1f}  ratio {weft / other:5.2f}  difference {error:.0e}", flush=True
    )


def interleave(*actions: Callable[[int], None]) -> list[float]:
    """Best seconds per repeat of each action, taken in turns."""
    repeats = [max(1, round(1e-3 / max(once(action, 1), 1e-7))) for action in actions]
    best = [float("inf")] * len(actions)
    end = time.perf_counter() + SECONDS * len(actions)
    while time.perf_counter() < end:
        for at, action in enumerate(actions):
            best[at] = min(best[at], once(action, repeats[at]) / repeats[at])
    return best


def once(action: Callable[[int], None], repeats: int) -> float:
    """Seconds that `repeats` calls take."""
    start = time.perf_counter()
    action(repeats)
    return time.perf_counter() - start


def main() -> None:
    dtype = sys.argv[1] if len(sys.argv) > 1 else "float32"
    product = Product(dtype)
    print(product.plan)
    for kind, *shape in SIZES + BATCHES:
        compare(kind, tuple(shape), dtype, product)


if __name__ == "__main__":
    main()

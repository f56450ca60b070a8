"""GFLOP/s of matrix products: weft's eager operator, NumPy (OpenBLAS) and, where there is one, PyTorch (MKL), in turn,
the best of several rounds each.

    python -m benchmarks.products [M,N,K[,batch] ...] [--torch PYTHON] [--float64] [--threads N] [--rounds N]

The last column is weft's time as a share of the best other's. NN, NT, TN: which operand is the transpose of a row-major
array.
"""

from __future__ import annotations

import os
import sys
import time
from contextlib import ExitStack

from benchmarks.peers import THREAD_VARIABLES, PeerProcess, machine, parser, torch_python

SQUARES = [(n, n, n, 0) for n in (64, 128, 256, 512, 1024, 2048)]
OTHERS = [
    (4096, 64, 64, 0), (64, 4096, 64, 0), (64, 64, 4096, 0), (32, 512, 512, 0), (8, 1024, 1024, 0), (1, 2048, 2048, 0),
    (2048, 1, 2048, 0), (128, 2048, 512, 0), (2048, 128, 512, 0), (64, 64, 64, 64), (256, 256, 64, 16),
    (16, 16, 16, 500), (256, 64, 256, 16),
]
CASES = [*(("NN", s) for s in (*SQUARES, *OTHERS)), ("NT", SQUARES[4]), ("TN", SQUARES[4])]
WIDTH = 28
PAUSE = 0.3  # seconds: threads of a library wait awake for its next call, on the processors of the next library


def main(arguments: list[str]) -> None:
    options = parser(__doc__)
    options.add_argument("shapes", nargs="*", metavar="M,N,K[,batch]", help="default: a list of many")
    options.add_argument("--float64", action="store_true")
    options.add_argument("--threads", default="2")
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--seconds", type=float, default=0.1, help="per library and round")
    given = options.parse_args(arguments)
    os.environ.update(dict.fromkeys(THREAD_VARIABLES, given.threads))  # before NumPy is imported
    cases = [("NN", _shape(text)) for text in given.shapes] or CASES
    dtype, python = "float64" if given.float64 else "float32", torch_python(given.torch)
    with ExitStack() as stack:
        peers = [PeerProcess("weft_eager", sys.executable), *([PeerProcess("torch", python)] if python else [])]
        for peer in map(stack.enter_context, peers):
            peer.ask("set_threads", count=int(given.threads))
        print(f"{machine()}; {dtype}, {given.threads} threads, GFLOP/s")
        print(f"{'':<{WIDTH}} {'weft':>8} {'NumPy':>8} {'PyTorch':>8} {'ratio':>6}")
        for kind, shape in cases:
            print(row(kind, shape, dtype, peers, given.rounds, given.seconds), flush=True)


def _shape(text: str) -> tuple[int, int, int, int]:
    m, n, k, batch = (*map(int, text.split(",")), 0)[:4]
    return m, n, k, batch


def row(
    kind: str, shape: tuple[int, int, int, int], dtype: str, peers: list[PeerProcess], rounds: int, seconds: float
) -> str:
    """One line of the table."""
    from benchmarks.peer import Peer  # imports NumPy

    m, n, k, batch = shape
    own = Peer("numpy")
    own.load_product(kind, shape, dtype)
    for peer in peers:
        peer.ask("load_product", kind=kind, shape=shape, dtype=dtype)
    best = dict.fromkeys(("weft_eager", "numpy", "torch"), float("inf"))
    for _ in range(rounds):
        best["numpy"] = min(best["numpy"], own.steps(seconds)["milliseconds"])
        for peer in peers:
            time.sleep(PAUSE)
            best[peer.name] = min(best[peer.name], peer.ask("steps", seconds=seconds)["milliseconds"])
    work = 2e-6 * m * n * k * max(1, batch)
    cells = " ".join(f"{work / b:>8.1f}" if b < float("inf") else f"{'-':>8}" for b in best.values())
    label = f"{kind} {m}x{n}x{k}" + (f" x {batch}" if batch else "")
    return f"{label:<{WIDTH}} {cells} {best['weft_eager'] / min(best['numpy'], best['torch']):>6.2f}"


if __name__ == "__main__":
    main(sys.argv[1:])

"""One library in a process of its own: answers requests for timings, one JSON object a line, so that libraries
can be timed in turn.

    python -m benchmarks.peer weft|weft_eager|torch

Requests: {"do": "load", "workload": W}, {"do": "load_product", "kind": "NT", "shape": [m, n, k, batch], "dtype": d},
{"do": "steps", "seconds": s}, {"do": "ops"}, {"do": "op", "name": n}.
Every reply has "error" where it failed.
"""

from __future__ import annotations

import importlib
import json
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

from benchmarks.small_ops import small_ops
from benchmarks.window_workloads import WINDOWS
from benchmarks.workloads import WORKLOADS

THREADS = 2
Reply = dict[str, Any]


class Peer:
    """The library and what it has loaded."""

    def __init__(self, name: str) -> None:
        started = time.perf_counter()
        self.xp = importlib.import_module(name.partition("_")[0])
        self.import_seconds = time.perf_counter() - started
        if name != "numpy":
            self.xp.set_num_threads(THREADS)
        self.compile: Callable[[Any], Any] = self.xp.compile if name == "weft" else _as_it_is
        self.step: Callable[[int], Any] = _nothing
        self.at = 0
        self.operators: dict[str, Callable[[], Any]] = {}

    def set_threads(self, count: int) -> Reply:
        """How many threads the library may use."""
        self.xp.set_num_threads(count)
        return {}

    def load(self, workload: str) -> Reply:
        """Build a workload and run its first call and a round of warm-up."""
        self.step = {**WORKLOADS, **WINDOWS}[workload](self.xp, self.compile)
        self.at = 0
        started, work = time.perf_counter(), time.process_time()
        value = self._once()
        first, work = time.perf_counter() - started, time.process_time() - work
        for _ in range(5):
            value = self._once()
        return {"first_call": first, "work": work, "value": None if value is None else float(value)}

    def load_product(self, kind: str, shape: Sequence[int], dtype: str) -> Reply:
        """A step is one product [m, k] x [k, n], or `batch` of them (0: without a batch dim). kind: T for an operand
        that is the transpose of a row-major array, else N."""
        import numpy

        m, n, k, batch = shape
        draw, sizes = numpy.random.default_rng(0).standard_normal, ((m, k), (k, n))
        arrays = [
            draw(((batch,) if batch else ()) + (dims if letter == "N" else dims[::-1])).astype(dtype)
            for letter, dims in zip(kind, sizes, strict=True)
        ]
        make = getattr(self.xp, "from_numpy", numpy.asarray)
        a, b = (make(x) if letter == "N" else make(x).swapaxes(-1, -2) for letter, x in zip(kind, arrays, strict=True))

        def step(i: int) -> None:
            self.xp.matmul(a, b)

        self.step = step
        step(0)
        return {}

    def steps(self, seconds: float, least: int = 2) -> Reply:
        """Milliseconds of the fastest step among those that fit in the given time."""
        best, count, end = float("inf"), 0, time.perf_counter() + seconds
        while count < least or time.perf_counter() < end:
            started = time.perf_counter()
            self._once()
            best = min(best, time.perf_counter() - started)
            count += 1
        return {"milliseconds": best * 1e3, "count": count}

    def cycle(self, count: int) -> Reply:
        """Milliseconds per step over one cycle of `count` batches (for workloads whose batches differ)."""
        started = time.perf_counter()
        for _ in range(count):
            self._once()
        return {"milliseconds": (time.perf_counter() - started) / count * 1e3, "count": count}

    def ops(self) -> Reply:
        """Names of the small operators."""
        self.operators = small_ops(self.xp)
        return {"names": list(self.operators)}

    def op(self, name: str, calls: int = 50, repeats: int = 20) -> Reply:
        """Microseconds of one small operator, the best of several repeats."""
        call = self.operators[name]
        call()
        best = float("inf")
        for _ in range(repeats):
            started = time.perf_counter()
            for _ in range(calls):
                call()
            best = min(best, time.perf_counter() - started)
        return {"microseconds": best / calls * 1e6}

    def _once(self) -> Any:
        value = self.step(self.at)
        self.at += 1
        return value


def _as_it_is(function: Any) -> Any:
    return function


def _nothing(i: int) -> Any:
    return None


def serve(name: str) -> None:
    """Answer requests until the input ends."""
    peer = Peer(name)
    print(json.dumps({"import_seconds": peer.import_seconds}), flush=True)
    for line in sys.stdin:
        request = json.loads(line)
        try:
            reply = getattr(peer, request.pop("do"))(**request)
        except Exception as error:  # the run goes on with the other libraries and workloads
            reply = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(reply), flush=True)


if __name__ == "__main__":
    serve(sys.argv[1])

"""What lazy tensors and split functions cost: a training step traced at every call, against the same step compiled and
in eager mode.

    python -m benchmarks.lazy [--steps N]

"mlp": 64-128-128-10, batch 32, Adam (W4 of the peers' benchmark). "gpt": the demo's model, batch 16. A lazy run ends
each step with mark_step() and reads a loss every tenth step. Per step, after the third: wall time (the mean); the time
of all threads (the mean), which other jobs on the machine hardly change; and the main thread's own time (the lower
quartile), which leaves native programs on the worker out. calls: what a step traces; entries: what is looked up for
it; compiles: programs made in all.
"""

from __future__ import annotations

import itertools
import statistics
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import weft
from benchmarks.peers import machine, parser
from weft.cli import recipe
from weft.cli.gpt import GPT
from weft.lazy.backend import Lazy, lazy_at
from weft.lazy.device import LazyDevice
from weft.lazy.executor import Executor
from weft.nn import functional as F

MODES = ("eager", "compiled", "lazy", "split")


@dataclass
class Figures:
    """Of one mode: milliseconds per step, and counts."""

    wall: float
    threads: float
    thread: float
    tracing: Mapping[str, float]
    calls: int
    entries: int
    compiles: int


class Stopwatch:
    """The main thread's time within methods of some classes, the outermost calls alone. spent: by the method's name.
    (Wall time, which takes a tenth of a thread's to ask for: nothing here waits but what is left out.)
    """

    def __init__(self) -> None:
        self.spent: Counter[str] = Counter()
        self.depth = 0
        self._before: list[tuple[type, str, Any]] = []

    def over(self, owner: type, name: str, within: str = "") -> None:
        """Count a method's time. within: it is left out of this one's."""
        plain, sign = getattr(owner, name), -1 if within else 1
        self._before.append((owner, name, plain))

        def timed(*args: Any, **named: Any) -> Any:
            if sign > 0 and self.depth:
                return plain(*args, **named)
            self.depth += sign > 0
            start = time.perf_counter()
            try:
                return plain(*args, **named)
            finally:
                self.spent[within or name] += sign * (time.perf_counter() - start)
                self.depth -= sign > 0

        setattr(owner, name, timed)

    def end(self) -> None:
        """Let the methods be what they were."""
        for owner, name, plain in self._before:
            setattr(owner, name, plain)


def traced() -> Stopwatch:
    """A watch over what the lazy device is called for. (A worker's runs are none of the main thread's.)"""
    watch = Stopwatch()
    for name in ("walked", "run", "open", "apply", "update_each", "backward", "write", "receive"):
        watch.over(Lazy, name)
    watch.over(LazyDevice, "cut")
    watch.over(Executor, "submit", "cut")
    return watch


def mlp() -> tuple[Any, Callable[[int], tuple[np.ndarray, np.ndarray]]]:
    """The model, and the batch of a step."""
    sizes = (64, 128, 128, 10)
    layers = [m for a, b in itertools.pairwise(sizes) for m in (weft.nn.Linear(a, b), weft.nn.ReLU())]

    def batch(step: int) -> tuple[np.ndarray, np.ndarray]:
        rng = np.random.default_rng(step)
        return rng.standard_normal((32, 64)).astype(np.float32), rng.integers(0, 10, 32)

    return weft.nn.Sequential(*layers[:-1]), batch


def gpt() -> tuple[Any, Callable[[int], tuple[np.ndarray, np.ndarray]]]:
    """The demo's model, and the batch of a step."""
    size = recipe.GPTSize()

    def batch(step: int) -> tuple[np.ndarray, np.ndarray]:
        tokens = np.random.default_rng(step).integers(0, recipe.BYTES, (16, size.context + 1))
        return tokens[:, :-1], tokens[:, 1:]

    return GPT(size), batch


def measured(make: Callable[[], Any], mode: str, steps: int) -> Figures:
    """Train for so many steps."""
    weft.manual_seed(0)
    model, batch = make()
    device = "lazy" if mode == "lazy" else "cpu"
    model.to(device)
    optimizer = weft.optim.Adam(model.parameters(), lr=1e-3)

    def step(x: Any, y: Any) -> Any:
        optimizer.zero_grad()
        out = model(x)
        loss = F.cross_entropy(out.reshape(-1, out.shape[-1]), y.reshape(-1))
        loss.backward()
        optimizer.step()
        return loss.detach()

    run = weft.compile(step, split=mode == "split") if mode in ("compiled", "split") else step
    weft.lazy.metrics.reset()
    wall, thread, entries = [], [], 0
    for i in range(steps):
        if i == 3:
            weft.lazy.wait_device_ops()
            began = time.process_time()
        x, y = (weft.tensor(a, device=device) for a in batch(i))
        start = time.perf_counter(), time.thread_time()
        loss = run(x, y)
        if mode == "lazy":
            entries = len(lazy_at(0).where.trace.nodes)
            weft.lazy.mark_step()
        if i % 10 == 9:
            loss.item()
        wall.append(time.perf_counter() - start[0])
        thread.append(time.thread_time() - start[1])
    weft.lazy.wait_device_ops()
    threads = (time.process_time() - began) / (steps - 3)
    compiles = weft.lazy.metrics.counter_value("UncachedCompile") or 0
    calls = weft.lazy.metrics.traced() // steps
    tracing: Mapping[str, float] = {}
    if mode == "lazy":
        arrays = [[weft.tensor(a, device=device) for a in batch(i)] for i in range(steps)]
        tracing = _spent_tracing(run, arrays)
    # the mean: a step that waits for those before it has their time
    return Figures(
        statistics.mean(wall[3:]) * 1e3, threads * 1e3, statistics.quantiles(thread[3:])[0] * 1e3, tracing,
        calls, entries, compiles,
    )


def _spent_tracing(run: Callable[..., Any], batches: Sequence[Sequence[Any]]) -> dict[str, float]:
    """The main thread's milliseconds in the lazy device per step (the lower quartile), of steps that are known: by what
    it is called for, and all together.
    """
    spent, watch = [], traced()
    try:
        for x, y in batches:
            watch.spent.clear()
            loss = run(x, y)
            weft.lazy.mark_step()
            spent.append({**watch.spent, "all": watch.spent.total()})
        loss.item()
    finally:
        watch.end()
    names = dict.fromkeys(name for found in spent for name in found)
    return {name: statistics.quantiles([found.get(name, 0.0) for found in spent])[0] * 1e3 for name in names}


def main() -> int:
    """Print the figures."""
    options = parser(__doc__)
    options.add_argument("--steps", type=int, default=60, metavar="N", help="steps of each run (default: 60)")
    chosen = options.parse_args()
    print(machine())
    for name, make in (("mlp", mlp), ("gpt", gpt)):
        found = {mode: measured(make, mode, chosen.steps if name == "mlp" else min(chosen.steps, 24)) for mode in MODES}
        for mode, f in found.items():
            print(
                f"{name} {mode}: {f.wall:.2f} ms a step, {f.threads:.2f} of all threads, {f.thread:.2f} of the main one"
            )
            if mode == "lazy":
                print(
                    f"{name} lazy: {f.calls} calls in {f.entries} entries, {f.compiles} compiles; tracing takes "
                    f"{f.tracing['all']:.2f} ms ({', '.join(f'{n} {t:.3f}' for n, t in f.tracing.items() if t)})"
                )
        lazy, compiled, eager, split = (found[mode] for mode in ("lazy", "compiled", "eager", "split"))
        print(
            f"{name}: a lazy step takes {lazy.wall / compiled.wall:.2f} times a compiled one, and "
            f"{lazy.threads / compiled.threads:.2f} times the threads' time"
        )
        print(
            f"{name}: of the main thread's time in eager mode, a lazy step takes {lazy.thread / eager.thread:.2f} and "
            f"a split one {split.thread / eager.thread:.2f}"
        )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

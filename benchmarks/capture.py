"""Microseconds per operator of capture and of every pass, on programs of two sizes: work that grows faster than
the program shows as a ratio.

    python -m benchmarks.capture [--sizes 1000 10000] [--repeats N]

"mix": pointwise chains with a matrix product every tenth operator. "training": a loss through such a chain with tanh,
its backward and an SGD update; operators are counted in the captured graph, whose backward is opaque until
its pass opens it.
"""

from __future__ import annotations

import gc
import sys
import time
from collections.abc import Callable
from typing import Any

import weft
from benchmarks.peers import machine, parser
from weft.compile.driver import CompiledFunction
from weft.passes.alias import ProvingEnv
from weft.passes.grouping import group_nodes
from weft.passes.pipeline import optimize
from weft.passes.run import Run
from weft.support import pytree

Times = dict[str, float]


def mix(operators: int) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """A function of about so many operators, and arguments for it."""
    w = weft.randn(16, 16) * 0.1

    def run(x: Any, y: Any) -> Any:
        for _block in range(operators // 10):
            for _ in range(3):
                x = (x * y + 0.5).tanh()
            x = x @ w
        return x

    return run, (weft.randn(8, 16), weft.randn(8, 16))


def training(operators: int) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """A training step whose graph, once the backward is opened, has about so many operators."""
    layers = max(1, operators // 14)
    weights = [(weft.randn(16) * 0.1).requires_grad_() for _ in range(layers)]
    optimizer = weft.optim.SGD(weights, lr=0.1)

    def run(x: Any) -> Any:
        optimizer.zero_grad()
        for w in weights:
            x = (x * w + x).tanh()
        loss = x.square().mean()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return run, (weft.randn(8, 16),)


def measure(
    make: Callable[[int], tuple[Callable[..., Any], tuple[Any, ...]]], operators: int, repeats: int
) -> tuple[int, int, Times]:
    """Nodes captured, nodes after the passes, and the best seconds of capture and of each pass."""
    function, arguments = make(operators)
    best: Times = {}
    captured = opened = 0
    for _ in range(repeats):
        compiled = CompiledFunction(function, backend="interpret")
        leaves, spec = pytree.flatten((arguments, {}))
        gc.collect()
        start = time.perf_counter()
        entry = compiled.capture(leaves, spec)
        found = {"capture": time.perf_counter() - start}
        run = Run()
        graph = optimize(entry.graph, run)
        for report in run.reports:
            found[report.name] = found.get(report.name, 0.0) + report.seconds
        start = time.perf_counter()
        group_nodes(graph.nodes, graph.results, ProvingEnv(graph.env))
        found["group"] = time.perf_counter() - start
        captured, opened = len(entry.graph.nodes), len(run.stages["opened"].nodes)
        for name, seconds in found.items():
            best[name] = min(seconds, best.get(name, seconds))
    return captured, opened, best


def main(arguments: list[str]) -> None:
    options = parser(__doc__)
    options.add_argument("--sizes", type=int, nargs=2, default=(1_000, 10_000))
    options.add_argument("--repeats", type=int, default=2)
    given = options.parse_args(arguments)
    print(machine())
    for make in (mix, training):
        small, large = (measure(make, size, given.repeats) for size in given.sizes)
        print(
            f"{make.__name__}: {small[1]:,} and {large[1]:,} operators ({small[0]:,} and {large[0]:,} captured), "
            "us per operator"
        )
        for name in small[2]:
            print(_row(name, small[2][name] / small[1], large[2][name] / large[1]))
        print(
            _row("capture + passes", sum(small[2].values()) / small[1], sum(large[2].values()) / large[1]), flush=True
        )


def _row(name: str, small: float, large: float) -> str:
    return f"  {name:<18} {small * 1e6:>8.1f} {large * 1e6:>8.1f}   ratio {large / small:.2f}"


if __name__ == "__main__":
    main(sys.argv[1:])

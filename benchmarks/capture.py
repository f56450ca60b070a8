"""Microseconds of work per operator of capture and of every pass, on programs of two sizes: work that grows faster than
the program shows as a ratio.

    python -m benchmarks.capture [--sizes 1000 10000] [--repeats N]

"mix": pointwise chains with a matrix product every tenth operator. "training": a loss through such a chain with tanh,
its backward and an SGD update; operators are counted in the captured graph, whose backward is opaque until
its pass opens it. "irregular": operators that chance chose, with their backward, among which no loop can be made.
"""

from __future__ import annotations

import gc
import random
import sys
import time
from collections.abc import Callable
from typing import Any

import weft
from benchmarks.peers import machine, parser
from weft.compile.driver import CompiledFunction
from weft.ir.graph import Graph
from weft.passes.alias import ProvingEnv
from weft.passes.grouping import group_nodes
from weft.passes.pipeline import optimize
from weft.passes.run import Run
from weft.programs.program_cache import program_key
from weft.support import pytree
from weft.support.garbage import collection_held

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


# Of two matrices, a row and a number. Those of rows come seldom.
OPERATORS: tuple[Callable[..., Any], ...] = (
    lambda a, b, row, number: weft.tanh(a),
    lambda a, b, row, number: weft.sigmoid(a) - number,
    lambda a, b, row, number: a + b,
    lambda a, b, row, number: a * b,
    lambda a, b, row, number: weft.maximum(a, number * b),
    lambda a, b, row, number: weft.where(a > number, a, b),
    lambda a, b, row, number: a * row,
    lambda a, b, row, number: weft.sin(a - row.unsqueeze(1)),
    lambda a, b, row, number: weft.tanh(a @ b),
    lambda a, b, row, number: a.softmax(1),
    lambda a, b, row, number: weft.cat([a[:4], b[4:]]).T,
    lambda a, b, row, number: a.mean(1) + row,
    lambda a, b, row, number: weft.tanh(a.sum(0) * row),
)


def irregular(operators: int) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """A loss of about half as many operators, and its gradient."""
    chance = random.Random(0)
    steps = [
        (chance.choice(OPERATORS), chance.randrange(8), chance.randrange(8), chance.randrange(3), chance.random())
        for _ in range(operators // 3)
    ]

    def run(x: Any) -> Any:
        matrices, rows = [x + number for number in range(8)], [x.sum(0), x.amax(1), x.mean(0)]
        for operator, first, second, row, number in steps:
            value = operator(matrices[first], matrices[second], rows[row], number)
            values = matrices if value.ndim == 2 else rows
            values.append(value)
            del values[0]
        loss = sum(value.sum() for value in (*matrices, *rows))
        loss.backward()
        return loss.detach()

    return run, (weft.randn(8, 8).requires_grad_(),)


def measure(
    make: Callable[[int], tuple[Callable[..., Any], tuple[Any, ...]]], operators: int, repeats: int
) -> tuple[int, int, Times]:
    """Nodes captured, operators that they stand for, and the best seconds of capture and of each pass."""
    function, arguments = make(operators)
    best: Times = {}
    captured = opened = 0
    for _ in range(repeats):
        with collection_held():  # as weft.compile does
            graph, opened, seconds = _compiled(function, arguments)
        captured = len(graph.nodes)
        for name, spent in seconds.items():
            best[name] = min(spent, best.get(name, spent))
    return captured, opened, best


def _compiled(function: Callable[..., Any], arguments: tuple[Any, ...]) -> tuple[Graph, int, Times]:
    """The captured graph, how many operators it stands for, its backward opened, and the seconds of each step."""
    compiled = CompiledFunction(function, backend="interpret")
    leaves, spec = pytree.flatten((arguments, {}))
    gc.collect()
    start = time.process_time()
    captured = compiled.capture(leaves, spec).graph
    seconds = {"capture": time.process_time() - start}
    run = Run()
    graph = optimize(captured, run)
    for report in run.reports:
        seconds[report.name] = seconds.get(report.name, 0.0) + report.seconds
    start = time.process_time()
    program_key(captured)
    seconds["key"] = time.process_time() - start
    start = time.process_time()
    group_nodes(graph.nodes, graph.results, ProvingEnv(graph.env))
    seconds["group"] = time.process_time() - start
    opened = len(run.stages["opened"].nodes)
    return captured, max(opened, len(captured.nodes)), seconds  # (loops leave few of them)


def main(arguments: list[str]) -> None:
    options = parser(__doc__)
    options.add_argument("--sizes", type=int, nargs=2, default=(1_000, 10_000))
    options.add_argument("--repeats", type=int, default=2)
    given = options.parse_args(arguments)
    print(machine())
    for make in (mix, training, irregular):
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

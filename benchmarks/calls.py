"""The cost of a warm call: python -m benchmarks.calls [--against CHECKOUT] prints what calls of small programs cost.

Microseconds on one thread, the least of many short runs: programs so small that finding the program, handing over its
arguments and state and taking its results are nearly all of it. --against runs another checkout of this repository in
turn with this one, and prints both with their ratio.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
WARM, CALLS, RUNS, TURNS = 20, 8, 400, 3


def cases() -> dict[str, Callable[[], tuple[Callable[..., Any], tuple[Any, ...]]]]:
    """What makes each compiled function with its arguments."""
    import weft
    from weft import nn

    def tensors(count: int, wants_gradient: bool = False) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        @weft.compile
        def decay(values: list[weft.Tensor]) -> None:
            with weft.no_grad():
                for value in values:
                    value.mul_(0.999)

        return decay, ([weft.randn(4, requires_grad=wants_gradient) for _ in range(count)],)

    def named(count: int) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        @weft.compile
        def total(values: dict[str, weft.Tensor]) -> weft.Tensor:
            result = weft.zeros(4)
            for value in values.values():
                result = result + value
            return result

        return total, ({f"a{i}": weft.randn(4) for i in range(count)},)

    def training(optimizer: Callable[..., Any], layers: int) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        hidden = [layer for _ in range(layers - 1) for layer in (nn.Linear(8, 8), nn.ReLU())]
        model = nn.Sequential(*hidden, nn.Linear(8, 4))
        chosen = optimizer(model.parameters(), lr=1e-3)

        @weft.compile
        def step(x: weft.Tensor, y: weft.Tensor) -> Any:
            chosen.zero_grad()
            loss = ((model(x) - y) ** 2).mean()
            loss.backward()
            chosen.step()
            return loss

        return step, (weft.randn(4, 8), weft.randn(4, 4))

    return {
        "two tensors": lambda: (weft.compile(lambda x, y: x * y + 1), (weft.randn(4), weft.randn(4))),
        "a list of 30 tensors": lambda: tensors(30),
        "a list of 100 tensors": lambda: tensors(100),
        "a list of 30 that want gradients": lambda: tensors(30, True),
        "a dict of 30 tensors": lambda: named(30),
        "SGD, 3 layers": lambda: training(weft.optim.SGD, 3),
        "Adam, 3 layers": lambda: training(weft.optim.Adam, 3),
        "Adam, 15 layers": lambda: training(weft.optim.Adam, 15),
    }


def measure() -> dict[str, float]:
    """Microseconds of a call, by case."""
    import weft

    weft.set_num_threads(1)
    weft.manual_seed(0)
    return {name: _microseconds(*make()) for name, make in cases().items()}


def _microseconds(function: Callable[..., Any], arguments: tuple[Any, ...]) -> float:
    for _ in range(WARM):
        function(*arguments)
    best = float("inf")
    for _ in range(RUNS):
        start = time.perf_counter()
        for _ in range(CALLS):
            function(*arguments)
        best = min(best, time.perf_counter() - start)
    return best / CALLS * 1e6


def in_turn(checkouts: list[Path]) -> list[dict[str, float]]:
    """The least figures of several checkouts, each in fresh processes, one after the other."""
    least: list[dict[str, float]] = [{} for _ in checkouts]
    for _ in range(TURNS):
        for checkout, best in zip(checkouts, least, strict=True):
            environment = {**os.environ, "PYTHONPATH": str(checkout)}
            command = [sys.executable, str(Path(__file__).resolve()), "--json"]
            process = subprocess.run(command, cwd=checkout, env=environment, text=True, capture_output=True, check=True)
            for name, value in json.loads(process.stdout).items():
                best[name] = min(value, best.get(name, value))
    return least


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--against", type=Path, metavar="CHECKOUT", help="another checkout of weft to run in turn")
    options.add_argument("--json", action="store_true", help="print this checkout's figures of one process as JSON")
    chosen = options.parse_args()
    if chosen.json:
        print(json.dumps(measure()))
        return 0
    other: Path | None = chosen.against
    if other is not None and not (other / "weft").is_dir():
        options.error(f"{other} is no checkout of weft: it has no folder weft")
    figures = in_turn([*([other.resolve()] if other is not None else []), ROOT])
    heads = ["this"] if other is None else ["other", "this"]
    print(f"{'us of a call':36}" + "".join([f"{head:>9}" for head in heads]))
    for name, mine in figures[-1].items():
        print(f"{name:36}" + (f"{mine:9.1f}" if other is None else _beside(figures[0][name], mine)))
    return 0


def _beside(theirs: float, mine: float) -> str:
    return f"{theirs:9.1f}{mine:9.1f}   ratio {mine / theirs:.2f}"


if __name__ == "__main__":
    raise SystemExit(main())

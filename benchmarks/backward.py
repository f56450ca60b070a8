"""Backward calls of eager graphs: by the engine, and by compiled autograd (cached, native code included).

python -m benchmarks.backward: microseconds of the backward call alone, the best of many. `chain` is 200 operators on
1,000 elements, given per node that is walked, with a hook on each tensor or with a custom Function for each operator in
two others; the others are the backward of an eager forward, whole.
"""

from __future__ import annotations

import argparse
import itertools
import time
from collections.abc import Callable
from typing import Any

import weft
from benchmarks.peers import machine
from weft import compiled_autograd as ca
from weft.cli import recipe
from weft.cli.gpt import GPT

Loss = Callable[[], weft.Tensor]


def chain(operators: int = 200) -> Loss:
    """A chain of products and sines."""
    x = weft.randn(1000, requires_grad=True)

    def loss() -> weft.Tensor:
        y = x
        for _ in range(operators // 2):
            y = (y * 1.01).sin()
        return y.sum()

    return loss


class Double(weft.autograd.Function):
    """A Function that saves its argument."""

    @staticmethod
    def forward(ctx: Any, x: weft.Tensor) -> weft.Tensor:
        ctx.save_for_backward(x)
        return x * 2

    @staticmethod
    def backward(ctx: Any, g: weft.Tensor) -> weft.Tensor:
        return g


def hooked(operators: int = 200) -> Loss:
    """A chain of products, with a hook on each."""
    x = weft.randn(1000, requires_grad=True)

    def loss() -> weft.Tensor:
        y = x
        for _ in range(operators):
            y = y * 1.01
            y.register_hook(lambda g: None)
        return y.sum()

    return loss


def functions(operators: int = 200) -> Loss:
    """A chain of custom Functions."""
    x = weft.randn(1000, requires_grad=True)

    def loss() -> weft.Tensor:
        y = x
        for _ in range(operators):
            y = Double.apply(y)
        return y.sum()

    return loss


def mlp(batch: int, *widths: int) -> Loss:
    """Linear layers with GELU between them, and cross entropy."""
    layers: list[weft.nn.Module] = []
    for n, m in itertools.pairwise(widths):
        layers += [weft.nn.Linear(n, m), weft.nn.GELU()]
    model = weft.nn.Sequential(*layers[:-1])
    x, y = weft.randn(batch, widths[0]), weft.randint(0, widths[-1], (batch,))
    parameters = list(model.parameters())

    def loss() -> weft.Tensor:
        for p in parameters:
            p.grad = None
        return weft.nn.functional.cross_entropy(model(x), y)

    return loss


def demo(batch: int) -> Loss:
    """The model of `./dev demo`, and cross entropy."""
    size = recipe.GPTSize()
    model = GPT(size)
    tokens = weft.randint(0, recipe.BYTES, (batch, size.context + 1))
    x, y = tokens[:, :-1], tokens[:, 1:]

    def loss() -> weft.Tensor:
        model.zero_grad()
        out = model(x)
        return weft.nn.functional.cross_entropy(out.reshape(-1, recipe.BYTES), y.reshape(-1))

    return loss


def best(loss: Loss, rounds: int) -> float:
    """Microseconds of the fastest backward call."""
    fastest = float("inf")
    for _ in range(rounds):
        out = loss()
        start = time.perf_counter()
        out.backward()
        fastest = min(fastest, time.perf_counter() - start)
    return fastest * 1e6


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--rounds", type=int, default=100)
    rounds = options.parse_args().rounds
    weft.manual_seed(0)
    print(machine())
    print(f"{'':28}{'eager us':>10}{'compiled':>10}{'ratio':>8}")
    cases = {
        "chain, per node (201)": (chain(), 201), "hooks, per node (201)": (hooked(), 201),
        "Functions, per node (201)": (functions(), 201), "MLP 64-128-10, batch 32": (mlp(32, 64, 128, 10), 1),
        "MLP 64-128-10, batch 512": (mlp(512, 64, 128, 10), 1), "MLP 8 x 256, batch 64": (mlp(64, *[256] * 8, 10), 1),
        "the demo's GPT, batch 16": (demo(16), 1),
    }
    for name, (loss, nodes) in cases.items():
        eager = best(loss, rounds) / nodes
        with ca.enable():
            best(loss, 5)
            compiled = best(loss, rounds) / nodes
        print(f"{name:28}{eager:10.1f}{compiled:10.1f}{compiled / eager:8.2f}")


if __name__ == "__main__":
    main()

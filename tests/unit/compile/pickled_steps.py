"""Compiled functions that a test pickles, and what another process says of them."""

from __future__ import annotations

import json
import pickle
import sys
from typing import Any

import weft
from weft import nn
from weft.nn import functional as F


class Trainer:
    """A model with its optimizer; `step` is compiled."""

    def __init__(self) -> None:
        self.model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 3))
        self.optimizer = weft.optim.SGD(self.model.parameters(), lr=0.1, momentum=0.9)
        self.step = weft.compile(self.train)

    def train(self, x: Any, y: Any) -> Any:
        self.optimizer.zero_grad()
        loss = F.cross_entropy(self.model(x), y)
        loss.backward()
        self.optimizer.step()
        return loss.detach()


@weft.compile
def scaled(x: Any) -> Any:
    """A compiled function that its module has under its name."""
    return (x * 3).exp() + x.sum()


def main() -> None:
    """Call what was pickled, in a process that compiles nothing."""
    with open(sys.argv[1], "rb") as file:
        trainer, function, module, x, y = pickle.load(file)
    weft.counters.reset()
    with weft.no_grad():
        results = [function(x).tolist(), module(x).tolist()]
    results += [trainer.step(x, y).tolist() for _ in range(3)]
    counts = {name: getattr(weft.counters, name) for name in ("llvm_compiles", "captures", "native_calls")}
    print(json.dumps({"results": results, "is_named": function is scaled, **counts}))


if __name__ == "__main__":
    main()

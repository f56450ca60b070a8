"""Random scripted Modules that change what they hold: tensors that are no buffers, optional ones, numbers and flags
made of values, lists and dicts, in and out of branches. Text that Python and weft.jit both read.
"""

from __future__ import annotations

import random

HEAD = """
from typing import Dict, List, Optional

import weft
from weft import Tensor, nn


def other(held: Optional[Tensor], x: Tensor) -> Tensor:
    if held is not None:
        return held * 0.5
    return x


class Net(nn.Module):
    last: Optional[Tensor]
    table: Dict[str, Tensor]
    sums: List[float]

    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(weft.linspace(-1, 1, 9, dtype=weft.float64).reshape(3, 3))
        self.register_buffer("mean", weft.zeros(1, 3, dtype=weft.float64))
        self.held = weft.ones(1, 3, dtype=weft.float64)
        self.last = None
        self.table = {"a": weft.ones(3, dtype=weft.float64)}
        self.sums = [0.5]
        self.n, self.rate, self.flag, self.tag = 1, 0.5, True, "a"

    def forward(self, x: Tensor, k: int, s: float):
        y = x * 1.5
"""
TENSORS = (
    "x", "y", "self.held", "self.mean", "other(self.last, x)", 'self.table["a"]', "(x @ self.w)", "weft.tanh(y)",
    "(y * self.rate)", "(x + self.n)", "(y * s)",
)
NUMBERS = ("self.rate", "s", "self.sums[-1]", "float(y.detach().mean())", "float(self.held.sum())", "0.25", "float(k)")
WHOLE = ("self.n", "k", "x.size(0)", "int(x.detach().sum() * 4)", "len(self.sums)", "(self.n * 2 + k)")
FLAGS = (
    "self.flag", "k > 1", "bool(x.detach().sum() > 0)", "self.n > 3", "self.last is None", 'self.tag == "a"',
    "not self.flag", "s < self.rate",
)
STATEMENTS = (
    "y = {T} + {U}", "y = weft.sin({T}) * {F}", "self.held = ({T}).detach().mean(0, keepdim=True)",
    "self.last = ({T}).detach()", "self.last = None", "self.mean = ({T}).detach().mean(0, keepdim=True)",
    "self.mean.mul_({F}).add_(0.25)", "self.rate = min(max({F}, -1.0), 1.0)", "self.n = ({I}) % 7", "self.flag = {B}",
    'self.table["a"] = ({T}).detach().sum(0)', 'self.table["b"] = ({T}).detach()',
    "self.sums[0] = min(max({F}, -1.0), 1.0)",
    'self.tag = "b" if k > 2 else "a"', "y = y.clone()\n{I4}y[0] = {F}", "y = y * 1.0\n{I4}y[:, 1:].mul_({F})",
)
FIELDS = ("held", "last", "mean", "table", "sums", "n", "rate", "flag", "tag")


def program(r: random.Random) -> str:
    """The text of a class `Net`; its forward takes x: f64[rows, 3], k: int and s: float."""
    lines: list[str] = []

    def fill(form: str, indent: str) -> str:
        return form.replace("{I4}", indent).format(
            T=r.choice(TENSORS), U=r.choice(TENSORS), F=r.choice(NUMBERS), I=r.choice(WHOLE), B=r.choice(FLAGS)
        )

    def block(indent: str, most: int, depth: int) -> None:
        for _ in range(r.randint(1, most)):
            if depth and r.random() < 0.25:
                lines.append(f"{indent}if {r.choice(FLAGS)}:")
                block(indent + "    ", 2, depth - 1)
                if r.random() < 0.5:
                    lines.append(f"{indent}else:")
                    block(indent + "    ", 2, depth - 1)
            else:
                lines.append(indent + fill(r.choice(STATEMENTS), indent))

    block(" " * 8, 6, 2)
    return HEAD + "\n".join(lines) + "\n        return y, self.n, self.rate, self.flag\n"

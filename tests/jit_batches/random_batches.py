"""Random programs over tensors of different sizes, as text: branches and loops that hang on values and sizes, lists,
writes. Every program ends."""

from __future__ import annotations

from typing import Any

import numpy as np

_UNARY = (
    "weft.tanh({})", "weft.sin({})", "weft.softmax({}, 1)", "weft.cumsum({}, 1)", "({} * 0.5)", "weft.exp(-{}.abs())",
)
_TURNS = ("weft.flip({}, [1])", "weft.cat([{}[:, 1:], {}[:, :1]], 1)", "({} - {}.mean(1, True))", "({} @ w)")
_NUMBERS = ("{}.sum()", "{}.max()", "({}[0, 0, 0] * 2)", "{}.mean()", "({} * {}).sum()")


class Writer:
    """Writes one function of x [1, n, 3] and a matrix w [3, 3]."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng
        self.lines: list[str] = []
        self.count = 0

    def pick(self, items: Any) -> Any:
        return items[int(self.rng.integers(len(items)))]

    def tensor(self, names: list[str], depth: int = 2) -> str:
        if depth == 0 or self.rng.random() < 0.3:
            return str(self.pick(names))
        a = self.tensor(names, depth - 1)
        roll = self.rng.random()
        if roll < 0.35:
            return f"({a} {self.pick('+-*')} {self.tensor(names, depth - 1)})"
        form = self.pick(_UNARY if roll < 0.75 else _TURNS)
        return str(form.replace("{}", a))

    def number(self, names: list[str]) -> str:
        return str(self.pick(_NUMBERS).replace("{}", self.pick(names)))

    def condition(self, names: list[str], counters: list[str]) -> str:
        roll = self.rng.random()
        if roll < 0.5:
            return f"{self.number(names)} > {self.rng.uniform(-1, 1.5):.2f}"
        if roll < 0.75:
            return f"{self.pick(names)}.size(1) > {int(self.rng.integers(1, 4))}"
        if counters and roll < 0.9:
            return f"{self.pick(counters)} % {int(self.rng.integers(2, 4))} == 0"
        return f"len(kept) < {int(self.rng.integers(1, 4))}"

    def fresh(self, letter: str) -> str:
        self.count += 1
        return f"{letter}{self.count}"

    def statements(self, names: list[str], counters: list[str], indent: str, depth: int, in_loop: bool) -> None:
        for _ in range(int(self.rng.integers(1, 4))):
            self.statement(names, counters, indent, depth, in_loop)

    def statement(self, names: list[str], counters: list[str], indent: str, depth: int, in_loop: bool) -> None:
        roll = self.rng.random()
        if depth > 0 and roll < 0.3:
            self.lines.append(f"{indent}if {self.condition(names, counters)}:")
            self.statements(names, counters, indent + "    ", depth - 1, in_loop)
            if self.rng.random() < 0.6:
                self.lines.append(f"{indent}else:")
                self.statements(names, counters, indent + "    ", depth - 1, in_loop)
        elif depth > 0 and roll < 0.5:
            self.loop(names, counters, indent, depth)
        elif roll < 0.58:
            self.lines.append(f"{indent}kept.append({self.tensor(names)}.sum(1))")
        elif roll < 0.66:
            name = self.fresh("own")
            self.lines.append(f"{indent}{name} = {self.tensor(names)} * 1")
            write = self.pick((f"{name} += 0.5", f"{name}.mul_({self.number(names)})", f"{name}[:, 0] = 0.25"))
            self.lines += [f"{indent}{write}", f"{indent}x = x * 0.5 + {name}.mean(1, True)"]
        elif in_loop and roll < 0.72:
            self.lines.append(f"{indent}if {self.condition(names, counters)}:")
            self.lines.append(f"{indent}    {self.pick(('break', 'continue'))}")
        elif roll < 0.76:
            self.lines.append(f"{indent}if {self.condition(names, counters)}:")
            self.lines.append(f"{indent}    return {self.result(names)}")
        else:
            self.lines.append(f"{indent}{self.pick(names[:2])} = {self.tensor(names)}")

    def loop(self, names: list[str], counters: list[str], indent: str, depth: int) -> None:
        name = self.fresh("i")
        roll = self.rng.random()
        inner = indent + "    "
        if roll < 0.4:
            self.lines.append(f"{indent}for {name} in range({self.pick(names)}.size(1)):")
            self.lines.append(f"{inner}x = x + z[:, :1] * {name}")
        elif roll < 0.7:
            self.lines.append(f"{indent}for {name} in range({int(self.rng.integers(1, 5))}):")
        else:
            self.lines.append(f"{indent}{name} = 0")
            self.lines.append(f"{indent}while {name} < 4 and {self.condition(names, [*counters, name])}:")
            self.lines.append(f"{inner}{name} += 1")
        self.statements(names, [*counters, name], inner, depth - 1, True)

    def result(self, names: list[str]) -> str:
        return f"{self.tensor(names)}.sum(1), len(kept), {self.tensor(names, 1)}"


def program(seed: int) -> str:
    """The text of `f(x, w)`."""
    writer = Writer(np.random.default_rng(seed))
    writer.lines = [
        "def f(x, w):", "    z = weft.tanh(x)", "    kept: List[Tensor] = []",
    ]
    writer.statements(["x", "z"], [], "    ", 3, False)
    writer.lines += [
        "    total = x.sum(1)", "    for row in kept:", "        total = total + row * 0.1",
        "    return total, len(kept), z",
    ]
    return "\n".join(writer.lines) + "\n"

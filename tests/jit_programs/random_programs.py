"""Random programs with control flow, as text: numbers, lists and tensors; branches, loops, early ends. Every program
ends, in Python too.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

INDENT = "    "


@dataclass
class Writer:
    """Writes one function. `scope` has the variables of each type that surely have a value here."""

    rng: np.random.Generator
    lines: list[str] = field(default_factory=list)
    count: int = 0
    loops: int = 0

    def pick(self, items):
        return items[int(self.rng.integers(len(items)))]

    # ---- expressions
    def integer(self, scope, depth=2) -> str:
        roll = self.rng.random()
        if depth == 0 or roll < 0.3:
            return self.pick([*scope["int"], str(int(self.rng.integers(-5, 9)))])
        a, b = self.integer(scope, depth - 1), self.integer(scope, depth - 1)
        if roll < 0.6:
            return f"({a} {self.pick(['+', '-', '*'])} {b})"
        if roll < 0.7:
            return f"({a} {self.pick(['//', '%'])} {self.pick(['2', '3', '-4', '7'])})"
        if roll < 0.8:
            return f"({a} if {self.condition(scope, depth - 1)} else {b})"
        if roll < 0.9:
            return f"{self.pick(['min', 'max'])}({a}, {b})"
        return f"len({self.pick(scope['list'])})" if scope["list"] else f"abs({a})"

    def number(self, scope, depth=2) -> str:
        roll = self.rng.random()
        if depth == 0 or roll < 0.35:
            return self.pick([*scope["float"], f"{self.rng.uniform(-3, 3):.2f}"])
        if roll < 0.7:
            return f"({self.number(scope, depth - 1)} {self.pick(['+', '-', '*'])} {self.number(scope, depth - 1)})"
        if roll < 0.8:
            return f"({self.number(scope, depth - 1)} / {self.pick(['2.0', '-3.5', '4'])})"
        return f"({self.number(scope, depth - 1)} + {self.integer(scope, depth - 1)})"

    def tensor(self, scope, depth=2) -> str:
        roll = self.rng.random()
        if depth == 0 or roll < 0.3:
            return self.pick(scope["tensor"])
        a = self.tensor(scope, depth - 1)
        if roll < 0.5:
            return f"({a} {self.pick(['+', '-', '*'])} {self.tensor(scope, depth - 1)})"
        if roll < 0.65:
            return f"({a} * {self.pick(['0.5', '-1.5', '2'])})"
        if roll < 0.75:
            return f"({self.integer(scope, 0)} - {a})"
        if roll < 0.9:
            return f"{self.pick(['weft.tanh', 'weft.relu', 'weft.sin', 'F.softplus'])}({a})"
        return f"({a} if {self.condition(scope, depth - 1)} else {self.tensor(scope, depth - 1)})"

    def condition(self, scope, depth=2) -> str:
        roll = self.rng.random()
        if depth == 0 or roll < 0.45:
            return f"{self.integer(scope, 1)} {self.pick(['<', '<=', '==', '!=', '>', '>='])} {self.integer(scope, 1)}"
        if roll < 0.55:
            return f"{self.integer(scope, 1)} < {self.integer(scope, 1)} <= {self.integer(scope, 1)}"
        if roll < 0.65:
            return f"{self.number(scope, 1)} > {self.number(scope, 1)}"
        if roll < 0.75:
            return f"{self.tensor(scope, 0)}.sum() > {self.number(scope, 0)}"
        if roll < 0.9:
            return (
                f"({self.condition(scope, depth - 1)}) {self.pick(['and', 'or'])} ({self.condition(scope, depth - 1)})"
            )
        return f"not ({self.condition(scope, depth - 1)})"

    # ---- statements
    def block(self, scope, indent, depth, in_loop) -> None:
        start = len(self.lines)
        for _ in range(int(self.rng.integers(1, 4))):
            self.statement(scope, indent, depth, in_loop)
        if len(self.lines) == start:
            self.lines.append(f"{indent}pass")

    def statement(self, scope, indent, depth, in_loop) -> None:
        roll = self.rng.random()
        if depth > 0 and roll < 0.25:
            return self.choice(scope, indent, depth, in_loop)
        if depth > 0 and roll < 0.45 and self.loops < 2:
            return self.loop(scope, indent, depth)
        if in_loop and roll < 0.52:
            self.lines.append(f"{indent}if {self.condition(scope, 1)}:")
            self.lines.append(f"{indent}{INDENT}{self.pick(['break', 'continue'])}")
            return
        if roll < 0.57:
            self.lines.append(f"{indent}if {self.condition(scope, 1)}:")
            self.lines.append(f"{indent}{INDENT}return {self.result(scope)}")
            return
        self.assignment(scope, indent)

    def assignment(self, scope, indent) -> None:
        kind = self.pick(["int", "int", "float", "tensor", "tensor", "list"])
        if kind == "list":
            name = self.pick(scope["list"])
            step = self.pick([
                f"{name}.append({self.integer(scope)})", f"{name} = {name} + [{self.integer(scope)}]",
                f"{name}.reverse()",
                f"if len({name}) > 2:\n{indent}{INDENT}{name}[{self.pick(['0', '-1', '1'])}] = {self.integer(scope)}",
            ])
            self.lines.append(indent + step)
            return
        make = {"int": self.integer, "float": self.number, "tensor": self.tensor}[kind]
        if kind == "tensor" and self.rng.random() < 0.25:
            self.writes(scope, indent)
            return
        if self.rng.random() < 0.3:
            name, self.count = f"v{self.count}", self.count + 1
            self.lines.append(f"{indent}{name} = {make(scope)}")
            scope[kind] = [*scope[kind], name]
            return
        name = self.pick(scope[kind])
        wrap = "({}) % 1000" if kind == "int" else "weft.tanh({})" if kind == "tensor" else "min(max({}, -99.0), 99.0)"
        if kind == "int" and self.rng.random() < 0.3:
            self.lines.append(f"{indent}{name} {self.pick(['+=', '-='])} {self.integer(scope, 0)}")
        else:
            self.lines.append(f"{indent}{name} = {wrap.format(make(scope))}")

    def writes(self, scope, indent) -> None:
        """A tensor of the program's own, and writes to it: whole, through another name, and through a view."""
        name, self.count = f"v{self.count}", self.count + 1
        self.lines.append(f"{indent}{name} = weft.tanh({self.tensor(scope)}) * 1")
        view = self.pick([name, name, f"{name}.view(-1)", f"{name}.reshape(-1)[:2]", f"{name}.view(-1)[1:]"])
        write = self.pick([
            f"{view}.mul_({self.pick(['0.5', '-1.5', 'y * 0.1'])})", f"{view}.add_({self.integer(scope, 1)})",
            f"{name} += {self.tensor(scope, 1)}", f"{name}.add_({self.tensor(scope, 1)})", f"{view}.sin_()",
        ])
        if self.rng.random() < 0.4:
            self.lines.append(f"{indent}if {self.condition(scope, 1)}:")
            write = INDENT + write
        self.lines.append(indent + write)
        scope["tensor"] = [*scope["tensor"], name]

    def choice(self, scope, indent, depth, in_loop) -> None:
        self.lines.append(f"{indent}if {self.condition(scope)}:")
        self.block(dict(scope), indent + INDENT, depth - 1, in_loop)
        if self.rng.random() < 0.3:
            self.lines.append(f"{indent}elif {self.condition(scope)}:")
            self.block(dict(scope), indent + INDENT, depth - 1, in_loop)
        if self.rng.random() < 0.6:
            self.lines.append(f"{indent}else:")
            self.block(dict(scope), indent + INDENT, depth - 1, in_loop)

    def loop(self, scope, indent, depth) -> None:
        self.loops += 1
        name, self.count = f"i{self.count}", self.count + 1
        inner = dict(scope)
        roll = self.rng.random()
        if roll < 0.3:
            limit = int(self.rng.integers(1, 5))
            self.lines += [f"{indent}{name} = 0", f"{indent}while {name} < {limit} and ({self.condition(scope, 1)}):"]
            self.lines.append(f"{indent}{INDENT}{name} += 1")
        elif roll < 0.45:
            self.lines.append(f"{indent}for {name} in [{self.integer(scope, 1)}, {self.integer(scope, 0)}]:")
        elif roll < 0.6:
            self.lines.append(f"{indent}for {name} in ({int(self.rng.integers(9))}, {int(self.rng.integers(9))}):")
        elif roll < 0.7:
            self.lines.append(f"{indent}for k{name}, {name} in enumerate({self.pick(scope['list'])}[:3]):")
        else:
            self.lines.append(
                f"{indent}for {name} in range({self.pick(['2', '3', '(n % 4)', '1, 5, 2', '3, 0, -1'])}):"
            )
        inner["int"] = [v for v in scope["int"]]
        if roll >= 0.3:
            inner["int"] = [*scope["int"], name]
        self.block(inner, indent + INDENT, depth - 1, True)

    def result(self, scope) -> str:
        return f"{self.integer(scope)}, {self.number(scope)}, {self.tensor(scope)}, {self.pick(scope['list'])}"


def program(seed: int) -> str:
    """The text of a function f(x, y: float, n: int), drawn by the seed."""
    writer = Writer(np.random.default_rng(seed))
    scope = {"int": ["n"], "float": ["y"], "tensor": ["x"], "list": ["items"]}
    writer.lines += ["def f(x, y: float, n: int):", f"{INDENT}items = [n, 1]"]
    for _ in range(int(writer.rng.integers(2, 6))):
        writer.statement(scope, INDENT, 2, False)
    writer.lines.append(f"{INDENT}return {writer.result(scope)}")
    return "\n".join(writer.lines) + "\n"

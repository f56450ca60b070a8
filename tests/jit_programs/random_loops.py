"""Random functions over numbers, as text: nested loops with branches, early ends, calls, tuples and errors. Every one
ends.
"""

from __future__ import annotations

import numpy as np

INDENT = "    "
HELPERS = """
def collatz(n: int) -> Tuple[int, int]:
    if n % 2 == 0:
        return n // 2, 0
    return 3 * n + 1, 1

def ratio(a: float, b: float) -> float:
    if b == 0.5:
        raise ValueError("half")
    return a / b if abs(b) > 0.01 else a // b
"""


class Loops:
    """Writes one function of an int, a float and a bool."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng, self.lines, self.loops = rng, [], 0

    def pick(self, items):
        return items[int(self.rng.integers(len(items)))]

    def whole(self, names, depth=3) -> str:
        roll = self.rng.random()
        if depth == 0 or roll < 0.2:
            return self.pick([*names, "a", "b", "a", str(int(self.rng.integers(-9, 99)))])
        x, y = self.whole(names, depth - 1), self.whole(names, depth - 1)
        if roll < 0.5:
            return f"({x} {self.pick(['+', '-', '*', '//', '%', '&', '|', '^'])} {y})"
        if roll < 0.6:
            return f"({x} {self.pick(['<<', '>>'])} ({y} % {self.pick(['7', '66'])}))"
        if roll < 0.65:
            return f"(({x}) % 99) ** {int(self.rng.integers(0, 5))}"
        if roll < 0.75:
            return f"{self.pick(['min', 'max'])}({x}, {y})"
        if roll < 0.85:
            return f"{self.pick(['int', 'round', 'math.floor', 'math.ceil', 'math.trunc'])}({self.real(names, 1)})"
        return f"({x} if {self.test(names, 1)} else {y})"

    def real(self, names, depth=3) -> str:
        roll = self.rng.random()
        if depth == 0 or roll < 0.2:
            return self.pick(["x", "y", "x", f"{self.rng.uniform(-9, 9):.2f}"])
        p, q = self.real(names, depth - 1), self.real(names, depth - 1)
        if roll < 0.5:
            return f"({p} {self.pick(['+', '-', '*', '/', '//', '%'])} {q})"
        if roll < 0.6:
            return f"({p} {self.pick(['+', '*', '-'])} {self.whole(names, 1)})"
        if roll < 0.67:
            return f"({self.whole(names, 1)} / {self.whole(names, 1)})"
        if roll < 0.8:
            return f"math.{self.pick(['sin', 'exp', 'sqrt', 'log', 'atan', 'fabs', 'tanh', 'log1p'])}({p})"
        if roll < 0.86:
            return f"float(({p}) ** {self.pick(['2', '0.5', '-1', '3.0'])})"
        if roll < 0.92:
            return f"{self.pick(['min', 'max', 'math.atan2', 'math.copysign', 'math.fmod', 'ratio'])}({p}, {q})"
        return f"({p} if {self.test(names, 1)} else {q})"

    def test(self, names, depth=2) -> str:
        roll, word = self.rng.random(), self.pick(["<", "<=", "==", "!=", ">", ">="])
        if depth == 0 or roll < 0.35:
            return f"{self.whole(names, 1)} {word} {self.whole(names, 1)}"
        if roll < 0.55:
            return f"{self.real(names, 1)} {word} {self.pick([self.real(names, 1), self.whole(names, 1)])}"
        if roll < 0.65:
            return "flag"
        joined = self.pick(["and", "or"])
        return f"{self.pick(['', 'not '])}({self.test(names, depth - 1)} {joined} {self.test(names, depth - 1)})"

    def block(self, indent, names, depth, in_loop) -> None:
        for _ in range(int(self.rng.integers(1, 4))):
            self.statement(indent, names, depth, in_loop)

    def statement(self, indent, names, depth, in_loop) -> None:
        roll, put = self.rng.random(), self.lines.append
        if depth and roll < 0.25:
            put(f"{indent}if {self.test(names)}:")
            self.block(indent + INDENT, names, depth - 1, in_loop)
            if self.rng.random() < 0.5:
                put(f"{indent}else:")
                self.block(indent + INDENT, names, depth - 1, in_loop)
        elif depth and roll < 0.4 and self.loops < 4:
            self.loop(indent, names, depth)
        elif roll < 0.5 and in_loop:
            exits = ["break", "continue", "return a, x, flag", "raise KeyError(f'stop {a}')", "assert a != 3, 'three'"]
            put(f"{indent}if {self.test(names)} and a % 5 == {int(self.rng.integers(5))}:")
            put(f"{indent}{INDENT}{self.pick(exits)}")
        elif roll < 0.58:
            put(f"{indent}a, b = {self.pick(['collatz(a % 1000)', 'divmod(a, b + 3)', 'pair', '(b, a)'])}")
        elif roll < 0.63:
            put(f"{indent}pair = ({self.whole(names, 1)}, pair[{self.pick(['0', '1'])}])")
        elif roll < 0.8:
            put(f"{indent}{self.pick('ab')} {self.pick(['=', '=', '+=', '-='])} {self.whole(names)}")
        elif roll < 0.95:
            put(f"{indent}{self.pick('xy')} = {self.real(names)}")
        else:
            put(f"{indent}flag = {self.test(names)}")

    def loop(self, indent, names, depth) -> None:
        name, self.loops = f"i{self.loops}", self.loops + 1
        roll = self.rng.random()
        if roll < 0.4:
            self.lines += [f"{indent}{name} = 0", f"{indent}while {name} < 9 and ({self.test(names, 1)}):"]
            self.lines.append(f"{indent}{INDENT}{name} += 1")
        else:
            ranges = ["7", "a % 9", "2, 9, 3", "9, -2, -2", "b % 5, 11, (a % 3) + 1", "0"]
            self.lines.append(f"{indent}for {name} in range({self.pick(ranges)}):")
        self.block(indent + INDENT, [*names, name], depth - 1, True)


def program(seed: int) -> str:
    """The text of f(a: int, x: float, flag: bool), drawn by the seed."""
    made = Loops(np.random.default_rng(seed))
    for _ in range(2):
        made.loop(INDENT, [], 3)
    head = ["def f(a: int, x: float, flag: bool):", "    b = a - 3", "    y = x * 0.5", "    pair = (b, a)"]
    return "\n".join([HELPERS, *head, *made.lines, "    return a + b + pair[0], x + y, flag", ""])

"""Random programs over texts, dicts, optional values, unions and objects, as text. Every program ends."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Union

import numpy as np

INDENT = "    "


class Box:
    """What the programs make objects of."""

    def __init__(self, n: int, name: str = "box") -> None:
        self.n = n
        self.name = name
        self.seen: list[int] = []

    def add(self, k: int) -> int:
        self.n += k
        self.seen.append(k)
        return self.n

    @property
    def size(self) -> int:
        return self.n % 7 + len(self.seen)

    def __lt__(self, other: Box) -> bool:
        return self.size < other.size

    def __add__(self, k: int) -> Box:
        return Box(self.n + k, self.name + "+")


def told(x: Union[int, str]) -> int:  # noqa: UP007
    if isinstance(x, int):
        return x + 1
    return len(x)


NAMES = {"Box": Box, "told": told}
PARAMETERS = "n: int, m: int, s: str, o: Optional[int], u: Union[int, str]"
Scope = dict[str, list[str]]


@dataclass
class Writer:
    """Writes one function. A scope has the variables of each kind that surely have a value there."""

    rng: np.random.Generator
    lines: list[str] = field(default_factory=list)
    count: int = 0

    def pick(self, items):
        return items[int(self.rng.integers(len(items)))]

    # ---- expressions
    def integer(self, scope: Scope, depth: int = 2) -> str:
        if depth == 0:
            return self.pick([*scope["int"], str(int(self.rng.integers(-4, 9)))])
        a = self.integer(scope, depth - 1)
        made = [
            f"({a} {self.pick('+-*')} {self.integer(scope, depth - 1)}) % 1009",
            f"len({self.text(scope, depth - 1)})",
            f"({a} if {self.condition(scope, depth - 1)} else {self.integer(scope, 0)})",
            f"(o if o is not None else {a})",
            "told(u)",
            f"told({self.text(scope, 0)})",
            f"{self.pick(scope['box'])}.{self.pick(['n', 'size', f'add({a} % 50)'])}",
            f"d.get({self.text(scope, 0)}, {a})",
            f"len({self.pick(['d', 'l', 'boxes'])})",
            f"sum([i * 2 for i in l if i > {a}])",
        ]
        return self.pick(made)

    def text(self, scope: Scope, depth: int = 1) -> str:
        if depth == 0:
            return self.pick([*scope["str"], "'ab'", "'c'"])
        a = self.text(scope, 0)
        i = self.integer(scope, 0)
        made = [
            f"({a} + {self.text(scope, 0)})[:9]", f"str({i})", f"{a}.upper()", f"{a}[1:]", f'f"{{{i}}}-{{{a}}}"[:9]',
            f"(u if isinstance(u, str) else {a})", f"{self.pick(scope['box'])}.name[:5]",
        ]
        return self.pick(made)

    def condition(self, scope: Scope, depth: int = 1) -> str:
        a, b = self.integer(scope, 0), self.integer(scope, 0)
        made = [
            f"{a} < {b}", f"{a} % 2 == 0", f"{self.text(scope, 0)} in d", "isinstance(u, int)", "o is None",
            f"o is not None and o > {a}", f"isinstance(u, int) and u < {b}", f"{a} in l", f"{self.text(scope, 0)} == s",
            f"{self.pick(scope['box'])} < {self.pick(scope['box'])}", f"{self.pick(scope['box'])} is b0",
        ]
        found = self.pick(made)
        return f"not ({found})" if self.rng.random() < 0.2 else found

    # ---- statements
    def fresh(self, kind: str) -> str:
        self.count += 1
        return f"{kind}{self.count}"

    def put(self, depth: int, line: str) -> None:
        self.lines.append(INDENT * depth + line)

    def body(self, scope: Scope, depth: int, length: int, in_loop: bool) -> None:
        scope = {kind: list(names) for kind, names in scope.items()}
        for _ in range(length):
            self.statement(scope, depth, in_loop)

    def statement(self, scope: Scope, depth: int, in_loop: bool) -> None:
        roll = self.rng.random()
        if roll < 0.12 and depth < 4:
            self.put(depth, f"if {self.condition(scope)}:")
            self.body(scope, depth + 1, int(self.rng.integers(1, 3)), in_loop)
            if self.rng.random() < 0.6:
                self.put(depth, "else:")
                self.body(scope, depth + 1, int(self.rng.integers(1, 3)), in_loop)
        elif roll < 0.24 and depth < 4:
            self.loop(scope, depth)
        elif roll < 0.28 and in_loop:
            self.put(depth, f"if {self.condition(scope)}:")
            self.put(depth + 1, self.pick(["break", "continue"]))
        elif roll < 0.31:
            self.put(depth, f"if {self.condition(scope)} and {self.integer(scope, 0)} > 5:")
            self.put(depth + 1, f"return {self.result(scope)}")
        else:
            self.simple(scope, depth)

    def loop(self, scope: Scope, depth: int) -> None:
        inner = {kind: list(names) for kind, names in scope.items()}
        i = self.fresh("i")
        over = self.pick(["range({})", "enum", "chars", "items", "boxes", "while"])
        if over == "while":
            self.put(depth, f"{i} = {int(self.rng.integers(0, 5))}")
            self.put(depth, f"while {i} > 0:")
            self.put(depth + 1, f"{i} -= 1")
            inner["int"].append(i)
        elif over == "enum":
            self.put(depth, f"for {i}, v{i} in enumerate(l[:4]):")
            inner["int"] += [i, f"v{i}"]
        elif over == "chars":
            self.put(depth, f"for {i} in {self.text(scope, 0)}[:4]:")
            inner["str"].append(i)
        elif over == "items":
            self.put(depth, f"for {i}, v{i} in sorted(list(d.items()))[:3]:")
            inner["str"].append(i)
            inner["int"].append(f"v{i}")
        elif over == "boxes":
            self.put(depth, f"for {i} in sorted(boxes[:4]):")
            inner["box"].append(i)
        else:
            self.put(depth, f"for {i} in range({int(self.rng.integers(0, 5))}):")
            inner["int"].append(i)
        self.body(inner, depth + 1, int(self.rng.integers(1, 4)), True)

    def simple(self, scope: Scope, depth: int) -> None:
        a, t = self.integer(scope), self.text(scope)
        kind = self.pick(["int", "int", "str", "box", "o", "u", "list", "dict", "write", "boxes", "tuple"])
        if kind in ("int", "str", "box"):
            made = {"int": a, "str": t, "box": f"{self.pick(scope['box'])} + {self.integer(scope, 0)}"}[kind]
            known = scope[kind]
            name = self.pick(known) if self.rng.random() < 0.6 else self.fresh(kind)
            if name[0] in "vi" and not name.startswith("int"):
                name = self.fresh(kind)
            self.put(depth, f"{name} = {made}")
            if name not in known:
                known.append(name)
        else:
            made = {
                "o": self.pick([f"o = {a}", "o = None"]), "u": self.pick([f"u = {a}", f"u = {t}"]),
                "list": self.pick([f"l.append({a})", "l = l[1:]", f"l.insert(0, {a})", "l.sort()", "l = l[:6]"]),
                "dict": self.pick(
                    [f"d[{t}] = {a}", f"d.pop({self.text(scope, 0)}, 0)", f"d['k'] = d.get('k', 0) + {a}"]
                ),
                "write": f"{self.pick(scope['box'])}.{self.pick([f'n = {a}', f'n += {a} % 9', f'name = {t}'])}",
                "boxes": self.pick(
                    [f"boxes.append(Box({a} % 99))", "boxes = sorted(boxes)[:5]", "boxes.sort(reverse=True)"]
                ),
                "tuple": f"{self.pick(['n', 'm'])}, {self.pick(['s', 's'])} = {a}, {t}",
            }[kind]
            self.put(depth, made)

    def result(self, scope: Scope) -> str:
        return (
            "n, m, s, l, sorted(list(d.items())), o is None, told(u), b0.n, b0.seen, "
            f"[b.size for b in boxes], {self.integer(scope, 0)}"
        )


def write_program(seed: int) -> str:
    """The text of a function `f` of PARAMETERS."""
    writer = Writer(np.random.default_rng(seed))
    writer.lines = [f"def f({PARAMETERS}):", *(INDENT + line for line in (
        "l = [n, m, 3]", "d = {'a': n, s: m}", "b0 = Box(n)", "b1 = Box(m, s)", "boxes = [b0, b1]",
    ))]
    scope: Scope = {"int": ["n", "m"], "str": ["s"], "box": ["b0", "b1"]}
    for _ in range(int(writer.rng.integers(3, 9))):
        writer.statement(scope, 1, False)
    writer.put(1, f"return {writer.result(scope)}")
    return "\n".join(writer.lines) + "\n"

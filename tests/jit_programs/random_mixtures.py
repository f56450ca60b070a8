"""Random programs of loops and branches around everything at once: numbers, lists and dicts of numbers and of tensors,
tuples, tensors that are written in place, integers beyond 64 bits, early ends. Text that Python and weft.jit both read;
in Python, `wrapped` is to be a function that makes 64 bits of an integer.
"""

from __future__ import annotations

import random

HEAD = "def wrapped(n: int) -> int:\n    return n\n\n\ndef f(x: Tensor, k: int, s: float):\n"


BEYOND = (
    "z * 6364136223846793005 + {}", "z - ({}) * 4611686018427387904", "({}) * 3037000500 * 3037000501", "z + z - ({})",
    "(z << 33) + {}", "-z * ({})",
)


class _Writer:
    """One program. Names by type: what is known to be set where a statement stands."""

    def __init__(self, seed: int) -> None:
        self.r = random.Random(seed)
        self.lines: list[str] = []
        self.fresh = 0
        self.names: dict[str, list[str]] = {
            "int": ["k", "a"], "float": ["s", "b"], "bool": ["p"], "tensor": ["x", "t", "u"], "ints": ["js"],
            "floats": ["gs"], "tensors": ["hs"], "dict": ["d"], "pair": ["q"],
        }
        self.loops = 0

    def name(self, kind: str) -> str:
        return self.r.choice(self.names[kind])

    # ---- expressions
    def int(self, deep: int = 2) -> str:
        pick = self.r.randrange(10) if deep else self.r.randrange(3)
        if pick < 2:
            return self.name("int")
        if pick == 9:
            return self.r.choice([f'e["{self.r.choice("mn")}"]', "(z % 50)", 'len(e)'])
        if pick == 2:
            return str(self.r.randrange(-3, 6))
        if pick == 3:
            return f"len({self.name(self.r.choice(['ints', 'floats', 'tensors']))})"
        if pick == 4:
            return f"{self.name('ints')}[{self.index()}]"
        if pick == 5:
            return f"({self.int(deep - 1)} // {self.r.choice([2, 3, -2])})"
        if pick == 6:
            return f"({self.int(deep - 1)} % {self.r.choice([2, 3, 5])})"
        if pick == 7:
            return f"({self.int(deep - 1)} if {self.bool(deep - 1)} else {self.int(deep - 1)})"
        return f"({self.int(deep - 1)} {self.r.choice('+-*')} {self.int(deep - 1)})"

    def index(self) -> str:
        return self.r.choice(["0", "-1", "0", "1", f"{self.name('int')} % 2"])

    def float(self, deep: int = 2) -> str:
        pick = self.r.randrange(8) if deep else self.r.randrange(3)
        if pick < 2:
            return self.name("float")
        if pick == 2:
            return str(round(self.r.uniform(-2, 2), 2))
        if pick == 3:
            return f"{self.name('floats')}[{self.index()}]"
        if pick == 4:
            return f"float({self.int(deep - 1)})"
        if pick == 5:
            return f"max({self.float(deep - 1)}, {self.float(deep - 1)})"
        if pick == 6:
            return f"{self.name('pair')}[1]"
        return f"({self.float(deep - 1)} {self.r.choice('+-*')} {self.float(deep - 1)})"

    def bool(self, deep: int = 2) -> str:
        pick = self.r.randrange(7) if deep else 0
        if pick == 0:
            return self.name("bool")
        if pick == 1:
            return f"{self.int(deep - 1)} {self.r.choice(['<', '>=', '==', '!='])} {self.int(deep - 1)}"
        if pick == 2:
            return f"{self.float(deep - 1)} {self.r.choice(['<', '>'])} {self.float(deep - 1)}"
        if pick == 3:
            return f"not ({self.bool(deep - 1)})"
        if pick == 4:
            return f"({self.bool(deep - 1)} {self.r.choice(['and', 'or'])} {self.bool(deep - 1)})"
        return f"float({self.tensor(0)}.sum()) {self.r.choice(['<', '>'])} {self.float(0)}"

    def tensor(self, deep: int = 2) -> str:
        pick = self.r.randrange(11) if deep else self.r.randrange(2)
        if pick < 2:
            return self.name("tensor")
        if pick == 2:
            return f"{self.name('tensors')}[{self.index()}]"
        if pick == 3:
            return f'{self.name("dict")}["{self.r.choice("mn")}"]'
        if pick == 4:
            return f"({self.tensor(deep - 1)} * {self.float(deep - 1)})"
        if pick == 5:
            return f"({self.tensor(deep - 1)} + {self.int(deep - 1)})"
        if pick == 6:
            return f"weft.{self.r.choice(['sin', 'tanh', 'sigmoid', 'cos'])}({self.tensor(deep - 1)})"
        if pick == 7:
            return f"weft.stack({self.name('tensors')}).sum(0)"
        if pick == 8:
            return f"weft.where({self.tensor(0)} > {self.float(0)}, {self.tensor(deep - 1)}, {self.tensor(deep - 1)})"
        if pick == 9:
            return f"{self.name('pair')}[0]"
        return f"({self.tensor(deep - 1)} {self.r.choice('+-*')} {self.tensor(deep - 1)})"

    # ---- statements
    def put(self, depth: int, text: str) -> None:
        self.lines.append("    " * depth + text)

    def block(self, depth: int, size: int) -> None:
        for _ in range(self.r.randint(1, size)):
            self.statement(depth)

    def scoped(self, depth: int, size: int) -> None:
        before = {kind: list(names) for kind, names in self.names.items()}
        self.block(depth, size)
        self.names = before

    def statement(self, depth: int) -> None:
        pick = self.r.randrange(24)
        if pick == 22:
            self.put(depth, f"z = wrapped({self.r.choice(BEYOND).format(self.int(1))})")
        elif pick == 23:
            self.put(depth, f'e["{self.r.choice("mno")}"] = {self.int(1)} % 50')
        elif pick < 2:
            self.put(depth, f"{self.r.choice(['a', 'a', 'k'])} = ({self.int()}) % 50")
        elif pick == 2:
            self.put(depth, f"b = min(max({self.float()}, -9.0), 9.0)")
        elif pick == 3:
            self.put(depth, f"p = {self.bool()}")
        elif pick < 6:
            self.put(depth, f"{self.r.choice('tu')} = weft.tanh({self.tensor()})")
        elif pick == 6:
            self.put(depth, f"t = {self.tensor()} * 1.0")
            self.put(depth, "ws = [t, u]")  # (it shows what is written next, and comes back)
            self.put(depth, self.r.choice([
                f"t.add_({self.tensor(1)}, alpha={self.r.choice(['k % 3', 'b', '2'])})", f"t.mul_({self.float(0)})",
                f"t[{self.r.choice(['0', '1', 'a % 2'])}] = {self.float(1)}", f"t[1:].sub_({self.tensor(0)}[1:])",
                f"t += {self.tensor(1)}",
            ]))
        elif pick == 7:
            self.put(depth, f"js[{self.index()}] = {self.int(1)} % 50")
        elif pick == 8:
            self.put(depth, f"gs[{self.index()}] = min(max({self.float(1)}, -9.0), 9.0)")
        elif pick == 9:
            self.put(depth, f"hs[{self.index()}] = weft.tanh({self.tensor(1)})")
        elif pick == 10:
            self.put(depth, self.r.choice([
                f"js.append({self.int(1)} % 50)", f"gs.append(min(max({self.float(1)}, -9.0), 9.0))",
                f"hs.append(weft.sin({self.tensor(1)}))",
            ]))
        elif pick == 11:
            self.put(depth, f'd["{self.r.choice("mn")}"] = weft.tanh({self.tensor(1)})')
        elif pick == 12:
            self.put(depth, f"q = (weft.tanh({self.tensor(1)}), min(max({self.float(1)}, -9.0), 9.0))")
        elif pick == 13:
            kind = self.r.choice(["ints", "floats", "tensors"])
            self.put(depth, f"if len({self.name(kind)}) > 2:")
            self.put(depth + 1, f"{self.name(kind)}.pop()")
        elif pick < 17:
            self.put(depth, f"if {self.bool()}:")
            self.scoped(depth + 1, 3)
            if self.r.random() < 0.6:
                self.put(depth, "else:")
                self.scoped(depth + 1, 3)
        elif pick < 21 and self.loops < 2 and depth < 4:
            self.loop(depth)
        elif self.r.random() < 0.4:
            self.put(depth, f"if {self.bool()}:")
            self.put(depth + 1, self.result())
        else:
            self.put(depth, f"a += {self.int(1)} % 7")

    def loop(self, depth: int) -> None:
        self.fresh += 1
        self.loops += 1
        name = f"i{self.fresh}"
        kind = self.r.randrange(4)
        before = {k: list(v) for k, v in self.names.items()}
        if kind == 0:
            self.put(depth, f"for {name} in range({self.r.choice(['3', 'k % 5', 'a % 4', 'len(js)'])}):")
            self.names["int"].append(name)
        elif kind == 1:
            self.put(depth, f"for {name}, v{self.fresh} in enumerate(hs[:4]):")
            self.names["int"].append(name)
            self.names["tensor"].append(f"v{self.fresh}")
        elif kind == 2:
            self.put(depth, f"for {name} in list(js):")
            self.names["int"].append(name)
        else:
            self.put(depth, f"{name} = 0")
            self.names["int"].append(name)
            self.put(depth, f"while {name} < {self.r.choice(['4', '6'])} and ({self.bool(1)}):")
            self.put(depth + 1, f"{name} += 1")
        self.block(depth + 1, 4)
        if self.r.random() < 0.5:
            self.put(depth + 1, f"if {self.bool(1)}:")
            self.put(depth + 2, self.r.choice(["break", "continue"]))
            self.block(depth + 1, 2)
        self.names = before
        self.loops -= 1

    def result(self) -> str:
        return "return a, b, t, weft.stack(hs).sum(0) * u, js, gs, q, z, ws"

    def program(self) -> str:
        self.put(1, "a = 1\n    b = 0.5\n    p = k > 2\n    t = x * 2\n    u = weft.sin(x)")
        self.put(1, "js = [1, k]\n    gs = [s, 0.25]\n    hs = [x, x * s]\n    ws = [t, u]")
        self.put(1, 'd = {"m": x * x, "n": x + s}\n    q = (x * 0.5, s)\n    e = {"m": k, "n": 2}\n    z = k')
        for _ in range(self.r.randint(4, 8)):
            self.statement(1)
        self.put(1, self.result())
        return HEAD + "\n".join(self.lines) + "\n"


def program(seed: int) -> str:
    """The text of one program."""
    return _Writer(seed).program()


STEPS = (
    "t = t + x", "t = weft.tanh(t * s)", "u = u + t", "t += 0.5", "u.mul_(s)", "ws = [t, u]", "hs = [u]",
    "ws.append(t)", "t[1:].add_(x[1:])", "u = weft.where(t > u, t, u)", "t = t + ws[0]",
    "u = u + weft.stack(hs).sum(0)",
)


def kept_lists(seed: int) -> str:
    """A program of operators alone, and loops around them, beside lists that it gives as they are."""
    r = random.Random(seed)
    lines = ["def f(x: Tensor, k: int, s: float):", "    t = x * 2", "    u = weft.sin(x)"]
    lines += ["    ws = [t]", "    hs = [u, x]"]
    for i in range(r.randint(3, 6)):
        if r.random() < 0.4:
            lines.append(f"    for i{i} in range({r.choice(['3', 'k % 5', '1, 4'])}):")
            inside = [step for step in STEPS if not step.startswith(("ws", "hs"))]
            lines += [f"        {r.choice(inside)}" for _ in range(r.randint(1, 3))]
        else:
            lines.append(f"    {r.choice(STEPS)}")
    return "\n".join([*lines, "    return t, u, ws, hs", ""])

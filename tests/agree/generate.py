"""Random programs: statements with a weft form and a NumPy form, over tensors whose sizes are symbols until a call.

A program's arguments are `x0`, `x1`, ...; its state `s0` (a buffer), `w0`, `w1` (leaves that want gradients).
`a`, `b`, `c` are sizes read from the arguments. Both forms are Python source, so that a failure can be read, shrunk
and kept as it is.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np

Shape = tuple[str, ...]
Rng = np.random.Generator


@dataclass(frozen=True)
class Variable:
    """A tensor of a program: its sizes as source text, and what may be done to it.

    root: the variable whose memory it shows (itself for a fresh one). is_fresh: row-major, whole.
    can_write: in-place writes are allowed.
    """

    name: str
    shape: Shape
    root: str
    is_fresh: bool = True
    can_write: bool = True


@dataclass(frozen=True)
class Statement:
    """One line of a program in both forms. `makes` are the names it defines, `uses` those it reads or writes."""

    weft: str
    numpy: str
    makes: tuple[str, ...]
    uses: tuple[str, ...]


@dataclass(frozen=True)
class Program:
    """A program: argument shapes, state shapes, statements, the names it returns.

    wants_grad: the outputs are summed into a loss, gradients of w* are taken, and an update follows.
    """

    seed: int
    arguments: tuple[Shape, ...]
    state: dict[str, tuple[int, ...]]
    statements: tuple[Statement, ...]
    outputs: tuple[str, ...]
    wants_grad: bool
    update: str = "none"
    dtype: str = "float64"

    def without(self, index: int) -> Program:
        """The program without a statement and all that hangs on it."""
        gone = set(self.statements[index].makes)
        kept = []
        for i, s in enumerate(self.statements):
            if i == index or gone & set(s.uses):
                gone |= set(s.makes)
                continue
            kept.append(s)
        return replace(self, statements=tuple(kept), outputs=tuple(o for o in self.outputs if o not in gone))

    def source(self, form: str) -> str:
        """The program as a Python function `program(x0, ...)`; form is "weft" or "numpy"."""
        names = [f"x{i}" for i in range(len(self.arguments))]
        lines = [f"def program({', '.join(names)}):"]
        for symbol in sorted({d for shape in self.arguments for d in shape if d.isalpha()}):
            name, axis = next((n, s.index(symbol)) for n, s in zip(names, self.arguments, strict=True) if symbol in s)
            lines.append(f"    {symbol} = {name}.shape[{axis}]")
        lines += [f"    {getattr(s, form)}" for s in self.statements]
        outputs = "".join(f"{o}, " for o in self.outputs)
        if self.wants_grad:
            lines += self._backward(form)
        lines.append(f"    return ({outputs})")
        return "\n".join(lines)

    def _backward(self, form: str) -> list[str]:
        terms = " + ".join(f"({o} * {0.5 + 0.25 * i}).sum()" for i, o in enumerate(self.outputs)) or "0.0"
        terms += "".join(f" + ({w} * {w}).sum()" for w in self.leaves)
        statistic = (
            "    s0.copy_(s0 * 0.9 + {}.mean() * 0.1)" if form == "weft"
            else "    np.copyto(s0, s0 * 0.9 + {}.mean() * 0.1)"
        )
        last = [statistic.format(f"{o}.detach()" if form == "weft" else o) for o in self.outputs[:1]]
        if form == "numpy":
            return [f"    loss[0] = {terms}", *last]
        lines = [f"    loss = {terms}", "    loss.backward()", *last]
        if self.update != "none":
            lines.append("    with weft.no_grad():")
            lines += [f"        {w}.sub_({w}.grad * 0.1)" for w in self.leaves]
        for w in self.leaves:
            lines += {"clear": [f"    {w}.grad = None"], "zero": [f"    {w}.grad.zero_()"]}.get(self.update, [])
        return lines

    @property
    def leaves(self) -> list[str]:
        """The state that wants gradients."""
        return [n for n in self.state if n.startswith("w")]


@dataclass
class Maker:
    """Draws one program."""

    rng: Rng
    wants_grad: bool
    variables: list[Variable] = field(default_factory=list)
    statements: list[Statement] = field(default_factory=list)

    # ---- drawing
    def pick(self, choices: list) -> object:
        """One of several."""
        return choices[int(self.rng.integers(len(choices)))]

    def variable(self, test: Callable[[Variable], bool] = lambda v: True) -> Variable | None:
        """A variable with a property, later ones more often."""
        found = [v for v in self.variables if test(v)]
        if not found:
            return None
        weights = np.arange(1, len(found) + 1, dtype=float)
        return found[int(self.rng.choice(len(found), p=weights / weights.sum()))]

    def number(self) -> float:
        """A number that multiplication does not blow up."""
        return round(float(self.rng.uniform(-1.5, 1.5)), 2)

    def axis(self, v: Variable, test: Callable[[str], bool] = lambda d: True) -> int | None:
        """An axis whose size has a property."""
        found = [i for i, d in enumerate(v.shape) if test(d)]
        return int(self.rng.choice(found)) if found else None

    def is_certain(self, v: Variable) -> bool:
        """Whether the order of v's elements in memory is the same in all modes, so that reshape looks
        or copies in all alike."""
        return v.root[0] in "xsw" or any(u.name == v.root and u.is_fresh for u in self.variables)

    # ---- writing down
    def line(self, weft: str, numpy: str, uses: list[Variable], makes: tuple[str, ...] = ()) -> None:
        """Add a statement; `$0`, `$1` stand for the names of what it uses."""
        for i, v in enumerate(uses):
            weft, numpy = weft.replace(f"${i}", v.name), numpy.replace(f"${i}", v.name)
        self.statements.append(Statement(weft, numpy, makes, tuple(v.name for v in uses)))

    def fresh_name(self) -> str:
        """The next name."""
        return f"v{sum(len(s.makes) for s in self.statements)}"

    def fresh(self, weft: str, numpy: str, uses: list[Variable], shape: Shape, is_fresh: bool = False) -> None:
        """A statement that makes a tensor of its own (row-major for certain only where `is_fresh` says so)."""
        name = self.fresh_name()
        self.line(f"{name} = {weft}", f"{name} = np.asarray({numpy})", uses, (name,))
        self.variables.append(Variable(name, shape, name, is_fresh))

    def view(
        self, weft: str, numpy: str, v: Variable, shape: Shape, is_fresh: bool = False, can_write: bool = True
    ) -> None:
        """A statement that makes a view."""
        name = self.fresh_name()
        self.line(f"{name} = {weft}", f"{name} = {numpy}", [v], (name,))
        self.variables.append(Variable(name, shape, v.root, is_fresh, v.can_write and can_write))


def size_at_least(size: str, count: int) -> bool:
    """Whether a size is at least `count` for any sizes a call may draw (symbols are at least 1)."""
    return int(size) >= count if size.isdigit() else size.isalpha() and count <= 1


def broadcast(a: Shape, b: Shape) -> Shape | None:
    """The joint shape if the texts fit for any sizes."""
    out: list[str] = []
    for x, y in zip(("1",) * (len(b) - len(a)) + a, ("1",) * (len(a) - len(b)) + b, strict=True):
        if x != y and "1" not in (x, y):
            return None
        out.append(y if x == "1" else x)
    return tuple(out)


def product(sizes: Shape) -> str:
    """The text of a product."""
    if not sizes:
        return "1"
    if all(s.isdigit() for s in sizes):
        return str(int(np.prod([int(s) for s in sizes])))
    return "*".join(s if s.isalnum() else f"({s})" for s in sizes)


def tuple_text(parts: list[str] | Shape) -> str:
    """`(a, 3)` with the comma that one element needs."""
    return "(" + "".join(f"{p}, " for p in parts).rstrip(" ") + ")" if len(parts) == 1 else "(" + ", ".join(parts) + ")"


def draw_program(seed: int, wants_grad: bool, length: int = 10, dtype: str = "float64") -> Program:
    """The program of a seed."""
    from tests.agree.statements import STATEMENTS, WEIGHTS  # they are written in terms of Maker

    rng = np.random.default_rng(seed)
    maker = Maker(rng, wants_grad)
    pool = ["a", "b", "3"]
    arguments: list[Shape] = []
    for i in range(int(rng.integers(1, 4))):
        shape = tuple(str(rng.choice(pool)) for _ in range(int(rng.integers(1, 4))))
        arguments.append(shape)
        maker.variables.append(Variable(f"x{i}", shape, f"x{i}", is_fresh=False))
    state: dict[str, tuple[int, ...]] = {}  # with gradients it is only read: a history may not outlive the call
    for name in ("s0", "w0", "w1")[: 3 if wants_grad else 1]:
        dims = tuple(int(n) for n in rng.choice([3, 3, 2], int(rng.integers(1, 3))))
        state[name] = dims
        maker.variables.append(Variable(name, tuple(map(str, dims)), name, can_write=not wants_grad))
    weights = np.array(WEIGHTS) / np.sum(WEIGHTS)
    while len(maker.statements) < length:
        STATEMENTS[int(rng.choice(len(STATEMENTS), p=weights))](maker)
    made = [v.name for v in maker.variables if v.name.startswith("v")]
    outputs = tuple(made[-int(rng.integers(1, 4)) :])
    update = str(rng.choice(["none", "clear", "zero", "keep"])) if wants_grad else "none"
    return Program(seed, tuple(arguments), state, tuple(maker.statements), outputs, wants_grad, update, dtype)

"""Random graphs with nested prim::If and prim::Loop: the text of each, and the same program as a NumPy function."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
Shape = tuple[str, ...]
Name = tuple[str, Shape]
UNARY = {
    "tanh": "np.tanh($0)", "sin": "np.sin($0)", "neg": "-$0", "sigmoid": "1 / (1 + np.exp(-$0))", "square": "$0 * $0"
}
BINARY = {"add.Tensor": "$0 + $1", "mul.Tensor": "$0 * $1", "sub.Tensor": "$0 - $1"}
SHAPES: tuple[Shape, ...] = (("s0",), ("s0",), ("3",), (), ("3", "s0"), ("s1", "s0"))


@dataclass
class Scope:
    """A block being written: what can be read in it, its lines in both forms."""

    names: list[Name]
    depth: int
    text: list[str] = field(default_factory=list)
    numpy: list[str] = field(default_factory=list)

    def inner(self, extra: list[Name]) -> Scope:
        """A block inside of this one."""
        return Scope([*self.names, *extra], self.depth + 1)


@dataclass
class ControlProgram:
    """text: the graph. numpy: source of `program(s0, s1, x0, ...)`. params: their shapes; `flags` of them are bool,
    behind the others."""

    text: str
    numpy: str
    params: tuple[Shape, ...]
    flags: int

    def arguments(self, rng: np.random.Generator, sizes: dict[str, int]) -> list[Array]:
        """Inputs of one call."""
        floats = [rng.uniform(-1.5, 1.5, [sizes.get(d) or int(d) for d in shape]) for shape in self.params]
        return [*floats, *(np.array(bool(rng.integers(2))) for _ in range(self.flags))]

    def truth(self) -> Callable[..., tuple[Array, ...]]:
        """The NumPy form."""
        names: dict[str, Any] = {"np": np}
        exec(compile(self.numpy, "<control>", "exec"), names)
        return names["program"]  # type: ignore[no-any-return]


class ControlMaker:
    """Draws one program."""

    def __init__(self, rng: np.random.Generator, size: int) -> None:
        self.rng, self.left, self.count = rng, size, 0

    def program(self) -> ControlProgram:
        """The whole graph."""
        params = (*(SHAPES[int(i)] for i in self.rng.integers(len(SHAPES), size=4)), ("s0",), ("s1", "s0"))
        flags = [f"p{i}" for i in range(2)]
        self.flags = list(flags)
        scope = Scope([(f"x{i}", s) for i, s in enumerate(params)], 1)
        while self.left > 0:
            self.statement(scope)
        results = scope.names[-3:]
        declared = [f"%x{i}: {_type(s)}" for i, s in enumerate(params)] + [f"%{p}: b1[]" for p in flags]
        text = [
            f"graph @control({', '.join(declared)}) {{", "  example s0 = 4, s1 = 2", *scope.text,
            f"  return {', '.join('%' + n for n, _ in results)}", "}",
        ]
        heads = ["s0", "s1", *(f"x{i}" for i in range(len(params))), *flags]
        numpy = [f"def program({', '.join(heads)}):", *scope.numpy, f"    return ({', '.join(n for n, _ in results)},)"]
        return ControlProgram("\n".join(text), "\n".join(numpy), params, len(flags))

    # ---- drawing
    def fresh(self) -> str:
        self.count += 1
        return f"v{self.count}"

    def pick(self, scope: Scope, shape: Shape | None = None) -> Name:
        found = [n for n in scope.names if shape is None or n[1] == shape]
        weights = np.arange(1.0, len(found) + 1)
        return found[int(self.rng.choice(len(found), p=weights / weights.sum()))]

    def line(self, scope: Scope, name: str, shape: Shape, text: str, numpy: str) -> None:
        pad = "  " * scope.depth
        scope.text.append(f"{pad}%{name}: {_type(shape)} = {text}")
        scope.numpy.append(f"{pad}{pad}{name} = {numpy}")
        scope.names.append((name, shape))

    def statement(self, scope: Scope) -> None:
        self.left -= 1
        kind = self.rng.random()
        if kind < 0.18 and scope.depth < 4:
            self.branch(scope)
        elif kind < 0.36 and scope.depth < 4:
            self.loop(scope)
        elif kind < 0.5:
            name, shape = self.pick(scope)
            self.line(scope, self.fresh(), (), f"aten::sum(%{name})", f"np.sum({name})")
        elif kind < 0.7:
            name, shape = self.pick(scope)
            op, form = list(UNARY.items())[int(self.rng.integers(len(UNARY)))]
            self.line(scope, self.fresh(), shape, f"aten::{op}(%{name})", form.replace("$0", name))
        else:
            a, shape = self.pick(scope)
            same = [n for n in scope.names if n[1] in (shape, ())]
            b = same[int(self.rng.integers(len(same)))][0]
            op, form = list(BINARY.items())[int(self.rng.integers(len(BINARY)))]
            text, numpy = f"aten::{op}(%{a}, %{b})", f"0.5 * ({form.replace('$0', a).replace('$1', b)})"
            made = self.fresh()
            self.line(scope, f"{made}_", shape, text, numpy.removeprefix("0.5 * "))
            self.line(scope, made, shape, f"aten::mul.Tensor(%{made}_, 0.5)", f"0.5 * {made}_")  # numbers stay small

    def condition(self, scope: Scope) -> tuple[str, str]:
        """A condition in both forms."""
        if self.rng.random() < 0.4:
            flag = self.flags[int(self.rng.integers(len(self.flags)))]
            return f"%{flag}", flag
        source, name = self.pick(scope)[0], self.fresh()
        bound = round(float(self.rng.uniform(-1, 1)), 2)
        pad = "  " * scope.depth
        scope.text.append(f"{pad}%{name}s: f64[] = aten::sum(%{source})")
        scope.text.append(f"{pad}%{name}: b1[] = aten::gt.Tensor(%{name}s, {bound})")
        scope.numpy.append(f"{pad}{pad}{name} = np.sum({source}) > {bound}")
        return f"%{name}", name

    def shapes_of(self, scope: Scope, count: int) -> list[Shape]:
        return [self.pick(scope)[1] for _ in range(count)]

    def branch(self, scope: Scope) -> None:
        """prim::If."""
        test, truth = self.condition(scope)
        shapes = self.shapes_of(scope, int(self.rng.integers(1, 4)))
        names = [self.fresh() for _ in shapes]
        pad = "  " * scope.depth
        head = ", ".join(f"%{n}: {_type(s)}" for n, s in zip(names, shapes, strict=True))
        scope.text.append(f"{pad}{head} = prim::If({test}) {{")
        for word, other in (("if " + truth, "} else {"), ("else", "}")):
            arm = scope.inner([])
            for _ in range(int(self.rng.integers(0, 4))):
                self.statement(arm)
            chosen = [self.pick(arm, s)[0] for s in shapes]
            scope.text += [*arm.text, f"{pad}  yield {', '.join('%' + c for c in chosen)}", f"{pad}{other}"]
            scope.numpy += [
                f"{pad}{pad}{word}:", *arm.numpy, f"{pad}{pad}    {', '.join(names)}, = {', '.join(chosen)},"
            ]
        scope.names += list(zip(names, shapes, strict=True))

    def loop(self, scope: Scope) -> None:
        """prim::Loop, with a trip that is a number or a size, perhaps a condition, forwards or backwards."""
        trip = str(self.rng.choice(["0", "1", "3", "3", "s1"]))
        going = self.rng.random() < 0.7
        test, truth = ("True", "True") if going else self.condition(scope)
        shapes = self.shapes_of(scope, int(self.rng.integers(1, 4)))
        starts = [self.pick(scope, s)[0] for s in shapes]
        wide = [n for n in scope.names if len(n[1]) == 2 and n[1][0] == trip]
        xs = [wide[int(self.rng.integers(len(wide)))] for _ in range(int(self.rng.integers(0, 3)))] if wide else []
        reverse = bool(self.rng.integers(2))
        index, states, slices = self.fresh(), [self.fresh() for _ in shapes], [self.fresh() for _ in xs]
        body = scope.inner(
            [*zip(states, shapes, strict=True), *((n, x[1][1:]) for n, x in zip(slices, xs, strict=True))]
        )
        for _ in range(int(self.rng.integers(1, 4))):
            self.statement(body)
        following = [self.pick(body, s)[0] for s in shapes]
        rows = [self.pick(body) for _ in range(int(self.rng.integers(0, 3)))]
        rows = [r for r in rows if len(r[1]) < 2]
        on, on_truth = ("True", "True") if going else self.condition(body)
        outs, stacked = [self.fresh() for _ in shapes], [self.fresh() for _ in rows]
        self._write_loop(
            scope, body, trip, (test, truth, on, on_truth),
            list(zip(outs, starts, states, following, shapes, strict=True)), list(zip(xs, slices, strict=True)),
            list(zip(stacked, rows, strict=True)), index, reverse,
        )

    def _write_loop(
        self, scope: Scope, body: Scope, trip: str, tests: tuple[str, str, str, str],
        carried: list[tuple[str, str, str, str, Shape]], xs: list[tuple[Name, str]], rows: list[tuple[str, Name]],
        index: str, reverse: bool,
    ) -> None:
        pad, deep = "  " * scope.depth, "    " * scope.depth
        heads = (
            [f"%{out}: {_type(s)}" for out, _, _, _, s in carried] + [f"%{y}: {_type((trip, *r[1]))}" for y, r in rows]
        )
        params = [
            f"%{index}: int", *(f"%{p}: {_type(s)}" for _, _, p, _, s in carried),
            *(f"%{n}: {_type(x[1][1:])}" for x, n in xs),
        ]
        call = (
            f"prim::Loop({trip}, {tests[0]}, [{', '.join('%' + c[1] for c in carried)}], "
            f"[{', '.join('%' + x[0] for x, _ in xs)}]"
        )
        scope.text.append(
            f"{pad}{', '.join(heads)} = {call}{', reverse=True' if reverse else ''}) ({', '.join(params)}) {{"
        )
        scope.text += [
            *body.text,
            f"{pad}  yield {', '.join([tests[2], *('%' + c[3] for c in carried), *('%' + r[0] for _, r in rows)])}",
            f"{pad}}}",
        ]
        lines = [f"{out} = {start}" for out, start, *_ in carried]
        lines += [f"{y} = np.zeros(({', '.join((trip, *r[1]))},))" for y, r in rows]
        order = f"range({trip} - 1, -1, -1)" if reverse else f"range({trip})"
        scope.numpy += [
            deep + x
            for x in (*lines, f"{index}_on = {tests[1]}", f"for {index} in {order}:", f"    if not {index}_on: break")
        ]
        inner = [*(f"{p} = {out}" for out, _, p, _, _ in carried), *(f"{n} = {x[0]}[{index}]" for x, n in xs)]
        scope.numpy += [f"{deep}    {x}" for x in inner] + body.numpy
        ends = [f"{y}[{index}] = {r[0]}" for y, r in rows]
        ends += [
            f"{', '.join(c[0] for c in carried)}, = {', '.join(c[3] for c in carried)},", f"{index}_on = {tests[3]}"
        ]
        scope.numpy += [f"{deep}    {x}" for x in ends]
        scope.names += [(c[0], c[4]) for c in carried] + [(y, (trip, *r[1])) for y, r in rows]


def _type(shape: Shape) -> str:
    return f"f64[{', '.join(shape)}]"


def draw_control(rng: np.random.Generator, size: int) -> ControlProgram:
    """A program of about `size` statements."""
    return ControlMaker(rng, size).program()

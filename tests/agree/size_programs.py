"""Random small programs over tensors all of whose sizes are symbols, and integers that are symbols or constants.

A program is data: operators by name, with arguments that are earlier values, sizes of them, integers and constants.
`evaluate` runs it over tensors (each call tells what is right) and over graph values (which makes the graph).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

import weft
from weft.ir.builder import Builder
from weft.ir.graph import Graph
from weft.ops.packet import namespace_of
from weft.types import dtype as dt
from weft.types.shape_env import ShapeEnv
from weft.types.tensor_type import tensor_type

Rng = np.random.Generator
Shape = tuple[int, ...]
aten = namespace_of("aten")
DTYPES = {"f32": np.float32, "f64": np.float64, "i32": np.int32, "i64": np.int64, "b1": np.bool_}


@dataclass(frozen=True)
class Ref:
    """An earlier value."""

    at: int

    def __repr__(self) -> str:
        return f"v{self.at}"


@dataclass(frozen=True)
class Size:
    """A size of an earlier value."""

    at: int
    axis: int

    def __repr__(self) -> str:
        return f"v{self.at}.shape[{self.axis}]"


@dataclass(frozen=True)
class Number:
    """An integer that the caller gives: a symbol of the graph."""

    at: int

    def __repr__(self) -> str:
        return f"n{self.at}"


@dataclass(frozen=True)
class Statement:
    """One call. Its results are numbered on."""

    name: str
    args: tuple[Any, ...]

    def __repr__(self) -> str:
        return f"{self.name}({', '.join(map(repr, self.args))})"


@dataclass(frozen=True)
class Sizes:
    """What one call brings: a shape for each parameter, and the integers."""

    shapes: tuple[Shape, ...]
    numbers: tuple[int, ...] = ()


@dataclass(frozen=True)
class Program:
    """dtypes: of the parameters, which are the first values. results: the values that come out."""

    dtypes: tuple[str, ...]
    example: Sizes
    statements: tuple[Statement, ...] = ()
    results: tuple[int, ...] = ()
    seed: int = field(default=0, compare=False)

    def __str__(self) -> str:
        lines = [f"v{i}: {d}{list(s)}" for i, (d, s) in enumerate(zip(self.dtypes, self.example.shapes, strict=True))]
        lines += [f"n{i} = {n}" for i, n in enumerate(self.example.numbers)]
        lines += [f"v{i} = {s}" for i, s in enumerate(self.statements, len(self.dtypes))]
        return "\n".join([*lines, f"return {', '.join(f'v{i}' for i in self.results)}"])

    def without(self, index: int) -> Program | None:
        """The program without a statement and without what hangs on it; None where nothing would come out."""
        gone, names, kept = set[int](), dict[int, int](), []
        first = len(self.dtypes)
        for i in range(first):
            names[i] = i
        for i, s in enumerate(self.statements):
            if i == index or gone.intersection(_mentioned(s.args)):
                gone.add(first + i)
                continue
            names[first + i] = first + len(kept)
            kept.append(replace(s, args=_renamed(s.args, names)))
        results = tuple(names[r] for r in self.results if r not in gone)
        return replace(self, statements=tuple(kept), results=results) if results else None

    def arrays(self, sizes: Sizes) -> list[np.ndarray[Any, Any]]:
        """What the parameters hold, the same for the same sizes. Quarters, so that few sums round."""
        rng = np.random.default_rng([self.seed, 7])
        return [_array(rng, d, shape) for d, shape in zip(self.dtypes, sizes.shapes, strict=True)]

    def expected(self, sizes: Sizes) -> list[np.ndarray[Any, Any]]:
        """What tensors give, one operator at a time. Raises as they do."""
        given = [weft.from_numpy(a) for a in self.arrays(sizes)]
        values = evaluate(self, given, sizes.numbers)
        return [np.array(values[r].numpy()) for r in self.results]

    def graph(self) -> tuple[Graph, Callable[[Sizes], dict[str, int]]]:
        """The graph, made with the example; and the values of its symbols for other sizes."""
        env = ShapeEnv()
        builder = Builder("sizes", env)
        with builder.active():
            dims = [tuple(env.fresh("s", n) for n in shape) for shape in self.example.shapes]
            numbers = [env.fresh("i", n) for n in self.example.numbers]
            given = [
                builder.handle(builder.param(tensor_type(dt.by_short(d), each), f"x{i}"))
                for i, (d, each) in enumerate(zip(self.dtypes, dims, strict=True))
            ]
            values = evaluate(self, given, numbers)
            results = [builder.operand(values[r]) for r in self.results]
        names = [str(d) for d in [*[d for each in dims for d in each], *numbers]]
        return builder.graph(results), lambda sizes: dict(
            zip(names, [*[n for shape in sizes.shapes for n in shape], *sizes.numbers], strict=True)
        )


def last_number(statement: Statement) -> int:
    """The last of the caller's integers that a statement takes; -1 if none."""

    def numbers(a: Any) -> list[int]:
        return [a.at] if isinstance(a, Number) else [n for x in a for n in numbers(x)] if isinstance(a, tuple) else []

    return max(numbers(statement.args), default=-1)


def _mentioned(args: Any) -> set[int]:
    if isinstance(args, (Ref, Size)):
        return {args.at}
    return set().union(*map(_mentioned, args)) if isinstance(args, tuple) else set()


def _renamed(args: Any, names: dict[int, int]) -> Any:
    if isinstance(args, (Ref, Size)):
        return replace(args, at=names[args.at])
    return tuple(_renamed(a, names) for a in args) if isinstance(args, tuple) else args


def _array(rng: Rng, dtype: str, shape: Shape) -> np.ndarray[Any, Any]:
    if dtype[0] == "f":
        return np.asarray(rng.integers(-8, 9, shape) / 4).astype(DTYPES[dtype])
    low, high = (0, 2) if dtype == "b1" else (-3, 4)
    return np.asarray(rng.integers(low, high, shape)).astype(DTYPES[dtype])


def evaluate(program: Program, given: Sequence[Any], numbers: Sequence[Any]) -> list[Any]:
    """All values of the program, over tensors or over graph values."""
    values = list(given)
    for statement in program.statements:
        values.append(call(statement, values, numbers))
    return values


def call(statement: Statement, values: Sequence[Any], numbers: Sequence[Any]) -> Any:
    """One statement's value."""

    def operand(a: Any) -> Any:
        if isinstance(a, Ref):
            return values[a.at]
        if isinstance(a, Size):
            value = values[a.at]
            return (value.shape if isinstance(value, weft.Tensor) else value.dims)[a.axis]
        if isinstance(a, Number):
            return numbers[a.at]
        return tuple(map(operand, a)) if isinstance(a, tuple) else a

    made = getattr(aten, statement.name)(*map(operand, statement.args))
    return made[0] if isinstance(made, (tuple, list)) else made

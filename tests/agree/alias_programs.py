"""Random programs over aliases: steps that make views and steps that write, each with a weft form and a NumPy form.

The arguments `a0`, `a1`, ... show one or several bases and may show the same one. NumPy's own views are the oracle:
what a step writes is seen by every alias, so after every step all of them must hold what NumPy's hold. Values are small
whole numbers, so that every dtype holds them exactly.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

Array = np.ndarray
Rng = np.random.Generator


# ---- the oracle's views that NumPy has no short form for
def root_of(array: Array) -> Array:
    """The array that owns the memory."""
    while array.base is not None:
        array = array.base
    return array


def strided(array: Array, size: tuple[int, ...], stride: tuple[int, ...], offset: int | None) -> Array:
    """as_strided: sizes, strides and offset in elements, from where the memory starts."""
    root, item = root_of(array), array.dtype.itemsize
    row = np.lib.stride_tricks.as_strided(root, (root.size,), (root.itemsize,))  # dense, in whatever order
    start = place_of(array) if offset is None else offset
    return np.ndarray(size, array.dtype, row, start * item, tuple(s * item for s in stride))


def place_of(array: Array) -> int:
    """The offset of the first element in its memory, in elements."""
    return (
        (array.__array_interface__["data"][0] - root_of(array).__array_interface__["data"][0]) // array.dtype.itemsize
    )


def viewed(array: Array, dims: tuple[int, ...]) -> Array:
    """view: never a copy."""
    return array.reshape(dims, copy=False)


def unfolded(array: Array, dim: int, size: int, step: int) -> Array:
    """unfold: windows along a dim, as a dim at the end."""
    count = (array.shape[dim] - size) // step + 1
    dims, strides = list(array.shape), list(array.strides)
    dims[dim], strides[dim] = count, strides[dim] * step
    return np.lib.stride_tricks.as_strided(array, (*dims, size), (*strides, array.strides[dim]))


def diagonal(array: Array, offset: int, first: int, second: int) -> Array:
    """diagonal that may be written."""
    out = np.diagonal(array, offset, first, second)
    out.flags.writeable = True
    return out


def expanded(array: Array, dims: tuple[int, ...]) -> Array:
    """expand: only to be read (or filled)."""
    return np.lib.stride_tricks.as_strided(array, dims, np.broadcast_to(array, dims).strides)


def real_parts(array: Array) -> Array:
    """view_as_real: the parts of complex numbers as a dim at the end."""
    part = array.real
    return np.lib.stride_tricks.as_strided(part, (*part.shape, 2), (*part.strides, part.dtype.itemsize))


def at(array: Array, row: int) -> Array:
    """Where the first index is `row`, in a form that broadcasts to the array."""
    return (np.arange(array.shape[0]) == row).reshape((-1,) + (1,) * (array.ndim - 1))


def put(array: Array, value: Any) -> None:
    """A write of what was computed before."""
    array[...] = np.array(value, copy=True).astype(array.dtype)


NUMPY = {f.__name__: f for f in (strided, viewed, unfolded, diagonal, expanded, put, real_parts, at)} | {"np": np}


def repeats(array: Array) -> bool:
    """Whether two elements lie at one place (of sizes this small, by looking at all of them)."""
    places = np.zeros(array.shape, np.int64)
    for axis, (n, s) in enumerate(zip(array.shape, array.strides, strict=True)):
        places += (np.arange(n) * s).reshape([-1 if i == axis else 1 for i in range(array.ndim)])
    return np.unique(places).size < places.size


@dataclass(frozen=True)
class Step:
    """One line in both forms. `makes`: the name that it defines; `uses`: those that it reads or writes."""

    weft: str
    numpy: str
    makes: str | None
    uses: tuple[str, ...]


@dataclass(frozen=True)
class Program:
    """bases: sizes and dtype of each memory; arguments: how each is shown, as text of a base's name, in both forms."""

    seed: int
    bases: tuple[tuple[tuple[int, ...], str], ...]
    arguments: tuple[tuple[str, str], ...]
    steps: tuple[Step, ...]
    watch: bool = True

    def without(self, index: int) -> Program:
        """The program without a step and all that hangs on it."""
        gone: set[str | None] = {self.steps[index].makes} - {None}
        kept = []
        for i, s in enumerate(self.steps):
            if i == index or gone & set(s.uses):
                gone |= {s.makes} - {None}
                continue
            kept.append(s)
        return replace(self, steps=tuple(kept))

    def names(self) -> list[str]:
        """All aliases at the end."""
        return [f"a{i}" for i in range(len(self.arguments))] + [s.makes for s in self.steps if s.makes is not None]

    def source(self, form: str, between: Callable[[int], str] = lambda step: "") -> str:
        """`program(a0, ...)`, which returns its aliases and, if they are watched, copies of all after each step.
        between: a statement that comes after a step."""
        names = [f"a{i}" for i in range(len(self.arguments))]
        lines = [f"def program({', '.join(names)}):", "    seen = []"]
        for s in self.steps:
            lines.append(f"    {getattr(s, form)}")
            if s.makes is not None:
                names.append(s.makes)
            if self.watch:
                copy = "clone" if form == "weft" else "copy"
                lines.append(f"    seen.append([t.{copy}() for t in ({', '.join(names)},)])")
            if between(len(lines)):
                lines.append(f"    {between(len(lines))}")
        lines.append(f"    return [{', '.join(names)}], seen")
        return "\n".join(lines)

    def made(self) -> tuple[dict[str, Array], list[Array]]:
        """The bases, and the arguments as NumPy shows them."""
        rng = np.random.default_rng(self.seed)
        bases = {f"b{i}": rng.integers(-4, 5, dims).astype(dtype) for i, (dims, dtype) in enumerate(self.bases)}
        return bases, [eval(text, {**NUMPY, **bases}) for _, text in self.arguments]


@dataclass
class Maker:
    """Draws one program, and runs its NumPy form along with it."""

    rng: Rng
    scope: dict[str, Any]
    names: list[str] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)

    def pick(self, choices: Any) -> Any:
        """One of several."""
        return choices[int(self.rng.integers(len(choices)))]

    def of(self, name: str) -> Array:
        """An alias as NumPy has it."""
        return self.scope[name]

    def alias(self, test: Callable[[Array], bool] = lambda a: True) -> str | None:
        """An alias with a property, later ones more often."""
        found = [n for n in self.names if test(self.of(n))]
        if not found:
            return None
        weights = np.arange(1, len(found) + 1, dtype=float)
        return str(found[int(self.rng.choice(len(found), p=weights / weights.sum()))])

    def integer(self, low: int, high: int) -> int:
        """From low to high, both included."""
        return int(self.rng.integers(low, high + 1))

    def add(self, weft: str, numpy: str, uses: tuple[str, ...], makes: str | None = None) -> None:
        """Add a step, and run it."""
        exec(numpy, self.scope)
        self.steps.append(Step(weft, numpy, makes, uses))
        if makes is not None:
            self.names.append(makes)

    def view(self, source: str, weft: str, numpy: str) -> None:
        """Add a step that makes a view."""
        name = f"v{len(self.names)}"
        self.add(f"{name} = {weft}", f"{name} = {numpy}", (source,), name)

    def write(self, target: str, weft: str, numpy: str, *others: str) -> None:
        """Add a step that writes."""
        self.add(weft, numpy, (target, *others))


def is_small(array: Array) -> bool:
    """Whether a view of it may have another dim."""
    return array.ndim < 4 and array.size < 100


def draw(seed: int, length: int = 12) -> Program:
    """The program of a seed."""
    from tests.agree.alias_steps import VIEWS, WRITES  # they are written in terms of Maker

    rng = np.random.default_rng(seed)
    bases = []
    for _ in range(int(rng.choice([1, 1, 2]))):
        dims = tuple(int(n) for n in rng.choice([1, 2, 3, 4, 6], int(rng.integers(1, 4))))
        bases.append((dims, str(rng.choice(["float32", "float32", "float64", "int32", "complex64"]))))
    program = Program(seed, tuple(bases), (), (), bool(rng.random() < 0.5))
    arrays = program.made()[0]
    arguments = []
    for _ in range(int(rng.choice([1, 1, 2, 3]))):
        at = int(rng.integers(len(bases)))
        base = arrays[f"b{at}"]
        forms = [(f"b{at}", f"b{at}")] * 3 + [(f"b{at}[1:]", f"b{at}[1:]")]
        if base.ndim > 1:
            forms += [
                (f"b{at}.transpose(0, 1)", f"b{at}.swapaxes(0, 1)"), (f"b{at}[:, ::2]", f"b{at}[:, ::2]"),
                (f"b{at}[0]", f"b{at}[0]"),
            ]
        arguments.append(forms[int(rng.integers(len(forms)))])
    program = replace(program, arguments=tuple(arguments))
    maker = Maker(rng, dict(NUMPY))
    for i, array in enumerate(program.made()[1]):
        maker.scope[f"a{i}"] = array
        maker.names.append(f"a{i}")
    while len(maker.steps) < length:
        steps = VIEWS if rng.random() < 0.5 else WRITES
        steps[int(rng.integers(len(steps)))](maker)
    return replace(program, steps=tuple(maker.steps))

"""Random programs whose tensors get other sizes and other memory: resize_, set_, and storages that grow and shrink.

The oracle is a model of PyTorch's storages: a memory is a row of elements, a tensor is sizes, strides and an offset in
one. What a storage gets is 0; a tensor that shows more than there is is not read.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

Array = np.ndarray
Dims = tuple[int, ...]


@dataclass(eq=False)
class Memory:
    """A row of elements."""

    row: Array

    def resize(self, count: int) -> None:
        """Have so many."""
        kept = self.row[:count]
        self.row = np.concatenate([kept, np.zeros(count - len(kept), self.row.dtype)])


@dataclass(frozen=True)
class Shown:
    """A tensor."""

    memory: Memory
    dims: Dims
    strides: Dims
    offset: int = 0

    @property
    def reach(self) -> int:
        """How many elements of the memory there must be."""
        if 0 in self.dims:
            return 0
        return self.offset + sum((n - 1) * s for n, s in zip(self.dims, self.strides, strict=True)) + 1

    @property
    def is_there(self) -> bool:
        """Whether it can be read."""
        return self.reach <= len(self.memory.row)

    def places(self) -> Array:
        """The place of each element."""
        found = np.full((), self.offset)
        for n, s in zip(self.dims, self.strides, strict=True):
            found = found[..., None] + np.arange(n) * s
        return found

    def read(self) -> Array:
        """Its elements."""
        return self.memory.row[self.places()]

    def write(self, value: Any) -> None:
        """Give it other elements."""
        self.memory.row[self.places()] = value


def packed(dims: Dims) -> Dims:
    """Row-major strides."""
    return tuple(int(np.prod(dims[i + 1 :])) for i in range(len(dims)))


@dataclass
class Drawn:
    """A program and what it gives. bases: sizes of the memories; lines: the body; seen: what tensors that can be read
    hold after each line, by name; memories: what the bases hold at the end, None where they cannot be read.
    """

    seed: int
    bases: list[Dims]
    lines: list[str] = field(default_factory=list)
    seen: list[dict[str, Array]] = field(default_factory=list)
    memories: list[Array | None] = field(default_factory=list)

    def source(self, is_inside: bool, between: Callable[[int], str] = lambda step: "") -> str:
        """The function. is_inside: it makes the bases itself, else it is given them. between: a line after a step."""
        names = [f"b{i}" for i in range(len(self.bases))]
        text = [f"def program({'' if is_inside else ', '.join(names)}):", "    seen = []"]
        if is_inside:
            text += [f"    {n} = {made(d)}" for n, d in zip(names, self.bases, strict=True)]
        for at, (line, seen) in enumerate(zip(self.lines, self.seen, strict=True)):
            text += [f"    {line}", f"    seen.append([t.clone() for t in ({''.join(f'{n}, ' for n in seen)})])"]
            if between(at):
                text.append(f"    {between(at)}")
        return "\n".join([*text, f"    return [{', '.join(self.seen[-1])}], seen"])


def made(dims: Dims) -> str:
    """The text of a base."""
    return f"(weft.arange({int(np.prod(dims))}) * 1.0).reshape({dims}).clone()"


def draw(seed: int, length: int = 10, asks_storages: bool = True) -> Drawn:
    """The program of a seed. asks_storages: whether it reads and writes elements of storages without a tensor."""
    rng = np.random.default_rng([seed, 7])
    bases = [tuple(int(n) for n in rng.integers(1, 4, rng.integers(1, 3))) for _ in range(rng.integers(1, 3))]
    program = Drawn(seed, bases)
    scope = {
        f"b{i}": Shown(Memory(np.arange(np.prod(dims), dtype=np.float32)), dims, packed(dims))
        for i, dims in enumerate(bases)
    }
    steps = [*STEPS, *(ELEMENT_STEPS if asks_storages else ())]
    while len(program.lines) < length:
        line = steps[int(rng.integers(len(steps)))](rng, scope)
        if line:
            program.lines.append(line)
            program.seen.append({n: t.read().copy() for n, t in scope.items() if t.is_there})
    program.memories = [scope[f"b{i}"].read() if scope[f"b{i}"].is_there else None for i in range(len(bases))]
    return program


# ---- steps: a line of the program, which the oracle has done; "" where nothing fits
Scope = dict[str, Shown]
Rng = np.random.Generator


def _pick(rng: Rng, scope: Scope, is_there: bool = True) -> str:
    found = [n for n, t in scope.items() if t.is_there or not is_there]
    return str(found[int(rng.integers(len(found)))]) if found else ""


def _add(scope: Scope, shown: Shown, text: str) -> str:
    name = f"v{len(scope)}"
    scope[name] = shown
    return f"{name} = {text}"


def _part(rng: Rng, count: int) -> tuple[Dims, Dims, int] | None:
    """Sizes, strides and an offset within so many elements, none of which is shown twice."""
    dims = tuple(int(n) for n in rng.integers(1, 4, rng.integers(1, 3)))
    step = int(rng.integers(1, 3))
    strides = tuple(s * step for s in packed(dims))
    if len(dims) == 2 and rng.random() < 0.3:
        strides = (step, step * dims[0])
    offset = int(rng.integers(0, 3))
    return (dims, strides, offset) if Shown(Memory(np.empty(0)), dims, strides, offset).reach <= count else None


def _transposed(rng: Rng, scope: Scope) -> str:
    n = _pick(rng, {n: t for n, t in scope.items() if len(t.dims) == 2})
    if not n:
        return ""
    t = scope[n]
    return _add(scope, Shown(t.memory, t.dims[::-1], t.strides[::-1], t.offset), f"{n}.t()")


def _sliced(rng: Rng, scope: Scope) -> str:
    n = _pick(rng, {n: t for n, t in scope.items() if t.dims and t.dims[0] > 1})
    if not n:
        return ""
    t = scope[n]
    shown = Shown(t.memory, (t.dims[0] - 1, *t.dims[1:]), t.strides, t.offset + t.strides[0])
    return _add(scope, shown, f"{n}[1:]")


def _strided(rng: Rng, scope: Scope) -> str:
    n = _pick(rng, scope)
    part = _part(rng, len(scope[n].memory.row)) if n else None
    return "" if part is None else _add(scope, Shown(scope[n].memory, *part), f"{n}.as_strided{part}")


def _detached(rng: Rng, scope: Scope) -> str:
    n = _pick(rng, scope, False)
    return _add(scope, scope[n], f"{n}.{'detach()' if rng.random() < 0.5 else 'data'}")


def _added(rng: Rng, scope: Scope) -> str:
    n = _pick(rng, scope)
    if not n:
        return ""
    number = int(rng.integers(1, 4))
    scope[n].write(scope[n].read() + number)
    return f"{n}.add_({number})"


def _filled(rng: Rng, scope: Scope) -> str:
    n = _pick(rng, scope)
    if not n:
        return ""
    number = int(rng.integers(-3, 4))
    scope[n].write(number)
    return f"{n}.fill_({number})"


def _resized(rng: Rng, scope: Scope) -> str:
    n = _pick(rng, scope, False)
    t = scope[n]
    dims = tuple(int(d) for d in rng.integers(1, 5, rng.integers(1, 3)))
    if dims == t.dims:  # then it shows what it showed
        return ""
    scope[n] = Shown(t.memory, dims, packed(dims), t.offset)
    if scope[n].reach > len(t.memory.row):
        t.memory.resize(scope[n].reach)
    return f"{n}.resize_({', '.join(map(str, dims))})"


def _storage_resized(rng: Rng, scope: Scope) -> str:
    n = _pick(rng, scope, False)
    memory = scope[n].memory
    count = int(rng.choice([0, max(t.reach for t in scope.values() if t.memory is memory), rng.integers(0, 20)]))
    memory.resize(count)
    return f"{n}.untyped_storage().resize_({count * 4})"


def _element_written(rng: Rng, scope: Scope) -> str:
    n = _pick(rng, scope, False)
    row, number = scope[n].memory.row, int(rng.integers(-3, 4))
    if not len(row):
        return ""
    i = int(rng.integers(-len(row), len(row)))
    row[i] = number
    if rng.random() < 0.5:
        return f"{n}.storage()[{i}] = {number}"
    first = i % len(row) * 4  # of its bytes
    return f"exec('for i, b in enumerate({list(np.float32(number).tobytes())}): s[{first} + i] = b', " \
        f"{{'s': {n}.untyped_storage()}})"


def _element_read(rng: Rng, scope: Scope) -> str:
    n, other = _pick(rng, scope), _pick(rng, scope, False)
    row = scope[other].memory.row
    if not n or not len(row):
        return ""
    i = int(rng.integers(-len(row), len(row)))
    scope[n].write(row[i])
    element = rng.choice([f"[{i}]", f".tolist()[{i}]"])
    return f"{n}.fill_({other}.storage(){element})"


def _set(rng: Rng, scope: Scope) -> str:
    n, other = _pick(rng, scope, False), _pick(rng, scope)
    if not other:
        return ""
    t = scope[other]
    part = _part(rng, len(t.memory.row)) if rng.random() < 0.6 else None
    if part is None and rng.random() < 0.3:
        first = int(rng.integers(0, len(t.memory.row)))
        last = int(rng.integers(first, len(t.memory.row))) + 1
        scope[n] = Shown(t.memory, (last - first,), (1,), first)
        return f"{n}.set_({other}.untyped_storage()[{first * 4}:{last * 4}])"
    if part is None:
        scope[n] = t
        return f"{n}.set_({other})"
    dims, strides, offset = part
    scope[n] = Shown(t.memory, dims, strides, offset)
    source = rng.choice(["", "", ".storage()", ".untyped_storage()", ".data.storage()", ".data.untyped_storage()"])
    return f"{n}.set_({other}{source}, {offset}, {dims}, {strides})"


STEPS: list[Callable[[Rng, Scope], str]] = [
    _transposed, _sliced, _strided, _detached, _added, _added, _added, _filled, _resized, _resized, _storage_resized,
    _set,
]
ELEMENT_STEPS = [_element_written, _element_read]

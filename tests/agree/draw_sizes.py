"""Drawing programs of size_programs.py: each statement is tried on tensors of the example's sizes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

import weft
from tests.agree.size_programs import DTYPES, Number, Program, Ref, Shape, Size, Sizes, Statement, call, last_number
from weft.support.errors import WeftError
from weft.types import dtype as dt

VIEWS = (
    "view", "reshape", "permute", "transpose", "unsqueeze", "squeeze", "squeeze_dim", "expand", "slice", "slice",
    "select", "narrow", "flatten", "diagonal", "unfold", "expand_as", "as_strided", "chunk",
)


def draw(seed: int) -> Program:
    """The program of a seed: it runs on its example."""
    return _Drawing(seed).program()


class _Drawing:
    def __init__(self, seed: int) -> None:
        self.seed, self.rng = seed, np.random.default_rng([seed, 3])
        # how often an integer is a size of something, or else what the caller gives
        self.named = float(self.rng.choice([0.0, 0.3, 0.6, 0.9]))
        self.lifted = self.named + float(self.rng.choice([0.0, 0.1, 0.3]))
        self.numbers: list[int] = []
        self.statements: list[Statement] = []
        self.values: list[weft.Tensor] = []

    def program(self) -> Program:
        rng = self.rng
        pool = [int(n) for n in rng.choice([0, 1, 1, 1, 2, 2, 3, 4, 5, 9, 20], size=rng.integers(1, 4))]
        count = int(rng.integers(1, 4))
        dtypes = [str(d) for d in rng.choice(list(DTYPES), count, p=[0.4, 0.15, 0.15, 0.2, 0.1])]
        if rng.random() < 0.6:
            dtypes = [dtypes[0]] * count
        ranks = rng.choice([0, 1, 1, 2, 2, 2, 3, 3], size=count)
        shapes = [tuple(self.one_of(pool) for _ in range(rank)) for rank in ranks]
        if rng.random() < 0.3:  # the same sizes under other names
            shapes[-1] = shapes[0]
        made = Program(tuple(dtypes), Sizes(tuple(shapes)), seed=self.seed)
        self.values = [weft.from_numpy(a) for a in made.arrays(made.example)]
        wanted, tries = int(rng.integers(1, 12)), 0
        while len(self.statements) < wanted and tries < 60:
            tries += 1
            before = len(self.numbers)
            try:
                self.step()
            except (WeftError, TypeError, ValueError, IndexError, NotImplementedError):
                del self.numbers[max(before, 1 + max(map(last_number, self.statements), default=-1)) :]
        statements = self.statements
        last = range(count, count + len(statements)) if statements else range(count)
        results = {int(last[-1]), *(int(i) for i in last if rng.random() < 0.35)}
        return replace(
            made, statements=tuple(statements), results=tuple(sorted(results)),
            example=replace(made.example, numbers=tuple(self.numbers)),
        )

    # ---- parts
    def one_of(self, items: Sequence[Any]) -> Any:
        return items[int(self.rng.integers(len(items)))]

    def value(self, at_least: int = 0) -> int:
        """A value of so many dims, late ones more often."""
        fitting = [i for i, v in enumerate(self.values) if v.ndim >= at_least]
        if not fitting:
            return 0
        at = max(self.rng.random(), self.rng.random())
        return fitting[int(at * len(fitting))]

    def spelled(self, n: int) -> Any:
        """An integer as a size of something, as a symbol or as a constant."""
        sizes = [Size(i, a) for i, v in enumerate(self.values) for a, d in enumerate(v.shape) if d == n]
        roll = self.rng.random()
        if sizes and roll < self.named:
            return self.one_of(sizes)
        if roll < self.lifted:
            self.numbers.append(n)
            return Number(len(self.numbers) - 1)
        return n

    def shows(self, i: int) -> bool:
        """Whether a value may lie in memory of another, or otherwise than row-major."""
        return i >= len(self.values) - len(self.statements)

    def dim(self, i: int) -> int:
        ndim = self.values[i].ndim
        return int(self.rng.integers(-ndim, ndim)) if ndim else 0

    def dims(self, i: int) -> tuple[int, ...]:
        ndim = self.values[i].ndim
        return tuple(int(d) for d in self.rng.permutation(ndim)[: self.rng.integers(0, ndim + 1)])

    def shape_of(self, shape: Sequence[int]) -> tuple[Any, ...]:
        return tuple(self.spelled(int(n)) for n in shape)

    def same_shape(self, shape: Shape) -> int:
        """A value of a shape, or of one that broadcasts to it."""
        fits = [i for i, v in enumerate(self.values) if _broadcasts(tuple(v.shape), shape)]
        return self.one_of(fits) if fits else self.value()

    def regrouped(self, shape: Shape) -> tuple[Any, ...]:
        """Other dims of the same number of elements."""
        total = int(np.prod(shape))
        dims = list(shape)
        for _ in range(int(self.rng.integers(1, 4))):
            if len(dims) > 1 and self.rng.random() < 0.5:
                at = int(self.rng.integers(len(dims) - 1))
                dims[at : at + 2] = [dims[at] * dims[at + 1]]
            else:
                at = int(self.rng.integers(len(dims) + 1))
                n = dims[at - 1] if dims and at else 1
                divisors = [k for k in range(1, n + 1) if n % k == 0] or [1]
                k = int(self.one_of(divisors))
                dims[max(at - 1, 0) : at] = [k, n // k]
        spelled = list(self.shape_of(dims))
        if spelled and total and self.rng.random() < 0.4:
            spelled[int(self.rng.integers(len(spelled)))] = -1
        return tuple(spelled)

    def bounds(self, n: int) -> tuple[Any, Any, Any]:
        a, b = sorted(int(x) for x in self.rng.integers(0, n + 1, 2))
        start: Any = None if a == 0 and self.rng.random() < 0.7 else self.spelled(a)
        end: Any = None if b == n and self.rng.random() < 0.7 else self.spelled(b)
        if self.rng.random() < 0.2 and b < n:
            end = self.spelled(b - n)
        return start, end, 1 if self.rng.random() < 0.7 else self.spelled(2)

    # ---- statements
    def step(self) -> None:
        """One more statement, or a write through a view: what the view shows, the new part, the new base."""
        kind = self.one_of((
            self.view, self.view, self.view, self.pointwise, self.pointwise, self.pointwise, self.reduction, self.copy,
            self.copy, self.write, self.write, self.by_index, self.product, self.new,
        ))
        if kind == self.write:
            self.write()
        else:
            self.add(*kind())

    def add(self, name: str, args: tuple[Any, ...]) -> int:
        """Run a statement on the example and keep it; the number of its value. Raises what it raises."""
        statement = Statement(name, args)
        value = call(statement, self.values, self.numbers)
        if value.numel() > 5000:
            raise ValueError("too large")
        self.values.append(value)
        self.statements.append(statement)
        return len(self.values) - 1

    def view(self) -> tuple[str, tuple[Any, ...]]:
        i = self.value()
        x, ref, rng = self.values[i], Ref(i), self.rng
        shape = tuple(x.shape)
        # of a view, as_strided shows the memory of its base over tensors, and in a graph its own
        name = self.one_of([n for n in VIEWS if n != "as_strided" or not self.shows(i)])
        if name in ("view", "reshape"):
            return name, (ref, self.regrouped(shape))
        if name == "permute":
            return name, (ref, tuple(int(d) for d in rng.permutation(x.ndim)))
        if name == "transpose":
            return name, (ref, self.dim(i), self.dim(i))
        if name == "unsqueeze":
            return name, (ref, int(rng.integers(-x.ndim - 1, x.ndim + 1)))
        if name == "squeeze":
            return name, (ref,)
        if name == "squeeze_dim":
            return "squeeze", (ref, self.dim(i))
        if name == "expand":
            lead = tuple(int(n) for n in rng.integers(0, 4, rng.integers(0, 2)))
            wanted = [int(rng.integers(0, 4)) if d == 1 and rng.random() < 0.6 else d for d in shape]
            stays = [d == n and rng.random() < 0.4 for d, n in zip(shape, wanted, strict=True)]
            kept = [-1 if s else self.spelled(n) for s, n in zip(stays, wanted, strict=True)]
            return name, (ref, (*self.shape_of(lead), *kept))
        if name == "expand_as":
            return name, (ref, Ref(self.value()))
        if name == "flatten":
            return name, (ref, self.dim(i), self.dim(i))
        if name == "diagonal":
            return name, (ref, int(rng.integers(-1, 2)), self.dim(i), self.dim(i))
        if name == "as_strided":
            dims = tuple(int(n) for n in rng.integers(0, 4, rng.integers(0, 3)))
            return name, (ref, self.shape_of(dims), self.shape_of([int(n) for n in rng.integers(0, 3, len(dims))]), 0)
        d = self.dim(i)
        n = shape[d] if shape else 0
        if name == "slice":
            return name, (ref, d, *self.bounds(n))
        if name == "select":
            return name, (ref, d, self.spelled(int(rng.integers(-n, n)) if n else 0))
        if name == "narrow":
            start = int(rng.integers(0, n + 1))
            return name, (ref, d, self.spelled(start), self.spelled(int(rng.integers(0, n - start + 1))))
        if name == "chunk":
            return name, (ref, int(rng.integers(1, 4)), d)
        return name, (ref, d, self.spelled(int(rng.integers(0, n + 1))), self.spelled(int(rng.integers(1, 3))))

    def pointwise(self) -> tuple[str, tuple[Any, ...]]:
        rng, i = self.rng, self.value()
        name = self.one_of((
            "neg", "relu", "abs", "add", "add", "mul", "sub", "maximum", "where", "lt", "eq", "masked_fill",
            "add_number", "mul_number", "clamp", "cast", "addcmul",
        ))
        if name in ("neg", "relu", "abs"):
            return name, (Ref(i),)
        if name in ("add_number", "mul_number"):
            return name[:3], (Ref(i), self.spelled(int(rng.integers(0, 4))))
        if name == "clamp":
            return name, (Ref(i), self.spelled(0), self.spelled(int(rng.integers(0, 4))))
        if name == "cast":
            return "_to_copy", (Ref(i), dt.by_short(self.one_of(("f32", "f64", "i64", "b1"))))
        j = self.same_shape(tuple(self.values[i].shape)) if rng.random() < 0.7 else self.value()
        pair = (Ref(i), Ref(j)) if rng.random() < 0.5 else (Ref(j), Ref(i))
        if name == "where":
            masks = [k for k, v in enumerate(self.values) if v.dtype is weft.bool]
            return name, (Ref(self.one_of(masks) if masks else i), *pair)
        if name == "masked_fill":
            masks = [k for k, v in enumerate(self.values) if v.dtype is weft.bool]
            return name, (Ref(i), Ref(self.one_of(masks) if masks else i), self.spelled(int(rng.integers(0, 4))))
        return name, (*pair, Ref(self.value())) if name == "addcmul" else pair

    def reduction(self) -> tuple[str, tuple[Any, ...]]:
        rng, i = self.rng, self.value()
        keep = bool(rng.random() < 0.4)
        name = self.one_of((
            "sum", "sum", "amax", "mean", "prod", "argmax", "any", "all", "cumsum", "softmax", "sum_to_size", "amin",
        ))
        if name in ("prod", "argmax"):
            return name, (Ref(i), self.one_of((None, self.dim(i))), keep)
        if name == "cumsum":
            return name, (Ref(i), self.dim(i))
        if name == "softmax":
            return name, (Ref(i), self.dim(i))
        if name == "sum_to_size" and self.values[i].is_floating_point():
            shape = tuple(1 if rng.random() < 0.4 else d for d in self.values[i].shape)
            dropped = int(rng.integers(0, len(shape) + 1)) if rng.random() < 0.3 else 0
            return name, (Ref(i), self.shape_of(shape[dropped:]))
        return name.removesuffix("_to_size"), (Ref(i), self.one_of((None, self.dims(i), self.dims(i))), keep)

    def copy(self) -> tuple[str, tuple[Any, ...]]:
        rng, i = self.rng, self.value()
        x, d = self.values[i], self.dim(i)
        name = self.one_of((
            "copy", "copy", "clone", "cat", "cat", "stack", "repeat", "flip", "roll", "constant_pad_nd", "tril", "triu",
            "repeat_interleave",
        ))
        if name == "copy":
            return name, (Ref(i), Ref(self.same_shape(tuple(x.shape))))
        if name == "clone":
            return name, (Ref(i),)
        if name in ("cat", "stack"):
            others = [Ref(self.one_of([k for k, v in enumerate(self.values) if v.ndim == x.ndim])) for _ in range(2)]
            return name, (tuple([Ref(i), *others[: int(rng.integers(0, 3))]]), d)
        if name == "repeat":
            return name, (Ref(i), self.shape_of([int(n) for n in rng.integers(0, 3, x.ndim + rng.integers(0, 2))]))
        if name == "flip":
            return name, (Ref(i), self.dims(i))
        if name == "roll":
            return name, (Ref(i), (self.spelled(int(rng.integers(-3, 4))),), (d,) if rng.random() < 0.7 else ())
        if name == "constant_pad_nd":
            count = 2 * int(rng.integers(0, x.ndim + 1))
            return name, (Ref(i), self.shape_of([int(n) for n in rng.integers(-1, 3, count)]), 0.5)
        if name == "repeat_interleave":
            return name, (Ref(i), self.spelled(int(rng.integers(0, 3))), self.one_of((None, d)))
        return name, (Ref(i), self.spelled(int(rng.integers(-1, 2))))

    def write(self) -> None:
        """What a write through a view gives of its base, in functional form."""
        rng, i = self.rng, self.value(at_least=1)
        view = self.one_of(("slice", "slice", "select", "diagonal", "view", "view", "permute", "as_strided"))
        if view == "as_strided" and self.shows(i):
            view = "slice"
        args = self.arguments_of(view, i)
        part = self.add(view, (Ref(i), *args))
        shape, shown = tuple(self.values[part].shape), part
        if rng.random() < 0.4:
            shown = self.add("view", (Ref(part), self.regrouped(shape) if rng.random() < 0.5 else self.shape_of(shape)))
        name = self.one_of(("neg", "copy", "add", "fill", "copy"))
        if name == "neg":
            new = self.add(name, (Ref(shown),))
        elif name == "fill":
            new = self.add("mul", (Ref(shown), self.spelled(int(rng.integers(0, 3)))))
        else:
            new = self.add(name, (Ref(shown), Ref(self.same_shape(tuple(self.values[shown].shape)))))
        if shown != part:
            new = self.add("view", (Ref(new), self.shape_of(shape)))
        self.add(f"{view}_scatter", (Ref(i), Ref(new), *args))

    def arguments_of(self, view: str, i: int) -> tuple[Any, ...]:
        rng, x, d = self.rng, self.values[i], self.dim(i)
        n = x.shape[d]
        if view == "slice":
            return d, *self.bounds(n)
        if view == "select":
            return d, self.spelled(int(rng.integers(-n, n)) if n else 0)
        if view == "diagonal":
            return int(rng.integers(-1, 2)), self.dim(i), self.dim(i)
        if view == "view":
            return (self.regrouped(tuple(x.shape)),)
        if view == "permute":
            return (tuple(int(k) for k in rng.permutation(x.ndim)),)
        dims = tuple(int(k) for k in rng.integers(0, 3, rng.integers(0, 3)))
        return self.shape_of(dims), self.shape_of([int(k) for k in rng.integers(1, 4, len(dims))]), 0

    def by_index(self) -> tuple[str, tuple[Any, ...]]:
        rng, i = self.rng, self.value()
        x, d = self.values[i], self.dim(i)
        whole = [k for k, v in enumerate(self.values) if v.dtype is weft.int64 and v.ndim]
        if not whole or rng.random() < 0.3:
            wanted = [k for k, v in enumerate(self.values) if v.dtype is weft.int64]
            if wanted and x.ndim:
                return "remainder", (Ref(self.one_of(wanted)), Size(i, d % x.ndim))
            return "arange", (self.spelled(int(rng.integers(0, 5))),)
        index = Ref(self.one_of(whole))
        name = self.one_of((
            "index_select", "gather", "scatter", "scatter_add", "index_add", "index", "index_put", "embedding",
        ))
        other = Ref(self.value())
        if name in ("index_select", "gather"):
            return name, (Ref(i), d, index)
        if name in ("scatter", "scatter_add"):
            return name, (Ref(i), d, index, other)
        if name == "index_add":
            return name, (Ref(i), d, index, other)
        if name == "index":
            return name, (Ref(i), (None,) * int(rng.integers(0, 2)) + (index,))
        if name == "index_put":
            return name, (Ref(i), (index,), other, bool(rng.random() < 0.5))
        return name, (Ref(i), index)

    def product(self) -> tuple[str, tuple[Any, ...]]:
        name = self.one_of(("matmul", "matmul", "mm", "bmm", "addmm"))
        i = self.value()
        j = self.value()
        if name == "addmm":
            return name, (Ref(self.value()), Ref(i), Ref(j))
        return name, (Ref(i), Ref(j))

    def new(self) -> tuple[str, tuple[Any, ...]]:
        rng = self.rng
        name = self.one_of(("full", "zeros", "arange"))
        if name == "arange":
            return name, (self.spelled(int(rng.integers(0, 5))),)
        shape = self.shape_of([int(n) for n in rng.integers(0, 4, rng.integers(0, 3))])
        return name, (shape, self.spelled(int(rng.integers(0, 4)))) if name == "full" else (shape,)


def _broadcasts(small: Shape, large: Shape) -> bool:
    if len(small) > len(large):
        return False
    return all(a in (1, b) for a, b in zip(small[::-1], large[::-1], strict=False))

# ruff: noqa: UP045  (programs as people write them)
"""Classes in programs: what plain Python does with their objects, a scripted program does too."""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple, Optional

import pytest

import weft
import weft.jit
from weft import Tensor, nn


@weft.jit.script
class Counter:
    STEP = 2

    def __init__(self, start: int, by: int = 1) -> None:
        self.value = start
        self.by = by
        self.seen: list[int] = []

    def up(self, times: int = 1) -> int:
        for _ in range(times):
            self.value += self.by
            self.seen.append(self.value)
        return self.value

    @property
    def twice(self) -> int:
        return self.value * Counter.STEP

    @twice.setter
    def twice(self, value: int) -> None:
        self.value = value // 2

    @staticmethod
    def halved(n: int) -> int:
        return n // 2


class Node:
    after: Optional[Node]

    def __init__(self, value: int) -> None:
        self.value = value
        self.after = None


class Vector:
    def __init__(self, x: int, y: int) -> None:
        self.x, self.y = x, y

    def __add__(self, other: Vector) -> Vector:
        return Vector(self.x + other.x, self.y + other.y)

    def __mul__(self, k: int) -> Vector:
        return Vector(self.x * k, self.y * k)

    def __neg__(self) -> Vector:
        return Vector(-self.x, -self.y)

    def __eq__(self, other: Vector) -> bool:  # type: ignore[override]
        return self.x == other.x and self.y == other.y

    def __lt__(self, other: Vector) -> bool:
        return self.x < other.x

    def __getitem__(self, i: int) -> int:
        return self.x if i == 0 else self.y

    def __setitem__(self, i: int, value: int) -> None:
        if i == 0:
            self.x = value
        else:
            self.y = value

    def __len__(self) -> int:
        return 2

    def __contains__(self, value: int) -> bool:
        return value == self.x or value == self.y

    def __call__(self, k: int) -> int:
        return self.x * k + self.y


@dataclasses.dataclass(order=True)
class Item:
    weight: int
    size: int = 4
    tags: list[int] = dataclasses.field(default_factory=list)

    def __post_init__(self) -> None:
        self.size = self.size + self.weight


class Settings(NamedTuple):
    rate: float = 0.5
    steps: list[int] = [1, 2]  # noqa: RUF012
    name: Optional[str] = None


class Traced:
    """Notes when a block is entered and left."""

    def __init__(self, log: list[int]) -> None:
        self.log = log

    def __enter__(self) -> int:
        self.log.append(1)
        return len(self.log)

    def __exit__(self, kind: Any, value: Any, trace: Any) -> None:
        self.log.append(2)


def counted(n: int):
    c = Counter(n, by=3)
    d = c
    d.up(2)
    c.twice = c.twice + 10
    return c.up(), c.twice, c.seen, Counter.halved(9), c is d, c is not Counter(n)


def replaced_in_a_loop(n: int):
    c = Counter(0)
    for i in range(n):
        c.up()
        if i == 3:
            c = Counter(100)
    return c.value


def linked(n: int):
    first: Optional[Node] = None
    for i in range(n):
        node = Node(i)
        node.after = first
        first = node
    found: list[int] = []
    while first is not None:
        found.append(first.value)
        first = first.after
    return found


def operators(n: int):
    a, b = Vector(n, 2), Vector(1, n)
    c = a + b * 3
    c += -b
    c[1] = c[0] + c[1]
    return c.x, c.y, a == b, a != b, a < b, a > b, len(c), n in a, c(n)


def in_order(n: int):
    items = [Vector((i * 7) % 5, i) for i in range(n)]
    ordered = sorted(items)
    items.sort(reverse=True)
    return [v.y for v in ordered], [v.y for v in items]


def size_of(text: str) -> int:
    return len(text)


def by_key(n: int):
    texts = ["ccc", "a", "bb", "dd", "e"]
    texts.sort(key=len, reverse=n > 2)
    return texts, sorted(texts, key=size_of)


def dataclasses_compared(n: int):
    a, b = Item(n), Item(weight=3, size=n)
    a.tags.append(1)
    return a.size, b.size, len(b.tags), a < b, a >= b, a == Item(n), Item(1, 2) == Item(1, 2), a != b


def defaults(n: int):
    s, t = Settings(), Settings(rate=2.0)
    s.steps.append(n)
    return s.rate, t.rate, len(t.steps) >= 2, s.name is None


def entered(n: int):
    log: list[int] = []
    with Traced(log) as k, Traced(log):
        if n > 2:
            return log, k
        log.append(n)
    return log, -k


def left_by_an_exception(around: Traced, n: int) -> int:
    with around:
        for i in range(n):
            with Traced(around.log):
                if i == 2:
                    raise ValueError("third")
    return len(around.log)


def test_an_exception_leaves_the_blocks_it_passes() -> None:
    scripted = weft.jit.script(left_by_an_exception)
    for n in (1, 5):
        logs: list[list[int]] = [[], []]
        for function, log in zip((scripted, left_by_an_exception), logs, strict=True):
            if n > 2:
                with pytest.raises(ValueError, match="third"):
                    function(Traced(log), n)
            else:
                assert function(Traced(log), n) == 4
        assert logs[0] == logs[1]


PROGRAMS = [counted, replaced_in_a_loop, linked, operators, in_order, by_key, dataclasses_compared, entered]


@pytest.mark.parametrize("function", PROGRAMS, ids=lambda f: f.__name__)
def test_as_in_python(function) -> None:
    scripted = weft.jit.script(function)
    for n in (0, 1, 2, 3, 6):
        assert scripted(n) == function(n)


def test_defaults_of_named_tuples_are_new_objects() -> None:
    scripted = weft.jit.script(defaults)
    assert scripted(4) == scripted(4) == (0.5, 2.0, True, True)


class Weighted:
    def __init__(self, w: Tensor) -> None:
        self.w = w

    def of(self, x: Tensor) -> Tensor:
        return (self.w * x).sum()


def through_an_object(w: Tensor, x: Tensor) -> Tensor:
    return Weighted(w * 2).of(x)


def test_gradients_flow_through_attributes(rng) -> None:
    w = weft.tensor(rng.standard_normal(3), requires_grad=True)
    x = weft.tensor(rng.standard_normal(3))
    weft.jit.script(through_an_object)(w, x).backward()
    assert weft.allclose(w.grad, 2 * x)


class Holding(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.counter = Counter(1)

    def forward(self, x: Tensor) -> Tensor:
        self.counter.up()
        return x + self.counter.value


def raised(c: Counter) -> int:
    c.up()
    return c.value


def made(n: int) -> Counter:
    return Counter(n)


def test_objects_go_in_and_out() -> None:
    counter = Counter(5)
    assert weft.jit.script(raised)(counter) == 6 and counter.value == 6
    found = weft.jit.script(made)(3)
    assert type(found) is Counter and found.up() == 4
    module = weft.jit.script(Holding())
    assert module(weft.zeros(1)).item() == 2 and module(weft.zeros(1)).item() == 3 and module.counter.value == 3
    with pytest.raises(TypeError, match="expected a value of type"):
        weft.jit.script(raised)(3)


class Derived(Counter):
    pass


class Branching:
    def __init__(self, flag: bool) -> None:
        if flag:
            self.x = 1


class Plain:
    def __init__(self, x: int) -> None:
        self.x = x

    def spoil(self) -> None:
        self.x = "text"


def read_missing(n: int):
    return Plain(n).y


def write_missing(n: int):
    p = Plain(n)
    p.y = n
    return p.x


def spoiled(n: int):
    p = Plain(n)
    p.spoil()
    return p.x


def added(n: int):
    return Plain(n) + n


def unsorted(n: int):
    return sorted([Plain(n), Plain(2)])[0].x


def wrong_argument(n: int):
    return Plain("a").x


def other_class(n: int):
    p = Plain(n) if n > 1 else Counter(n)
    return p.x


REFUSED = [
    (Derived, "do not support inheritance"),
    (Branching, "must be defined where __init__ always comes"),
    (read_missing, "'Plain' has no attribute or method 'y'"),
    (write_missing, "Tried to set nonexistent attribute: y"),
    (spoiled, "attribute 'x' is of type str, not of type int"),
    (added, "'Plain' has no method '__add__'"),
    (unsorted, "'Plain' has no method '__lt__'"),
    (wrong_argument, "argument 'x' of __init__"),
    (other_class, "must be of one type"),
]


@pytest.mark.parametrize(("obj", "message"), REFUSED, ids=lambda c: getattr(c, "__name__", ""))
def test_what_a_class_does_not_offer_is_refused_by_name(obj, message) -> None:
    with pytest.raises(weft.jit.CompileError, match=message):
        weft.jit.script(obj)


def test_annotations_are_what_python_made_of_them() -> None:
    kind = Tensor  # no name that a function closes over

    class Held:
        def __init__(self) -> None:
            self.n = 3

    class Holder:
        def __init__(self) -> None:
            self.n = 1

        def put(self, held: Held, x: kind) -> kind:
            self.n += held.n
            return x * self.n

    Holder.put.__annotations__.update(held=Held, x=kind)  # as without the import from __future__
    Holder.put.__annotations__["return"] = kind

    def used(x: Tensor):
        return Holder().put(Held(), x)

    assert weft.jit.script(used)(weft.ones(1)).item() == 4


class Made:
    __jit_unused_properties__ = ("listed",)

    def __init__(self, a: int) -> None:
        self.a = a

    @classmethod
    def of(cls, a: int, more: int = 2) -> Made:
        return cls(a + more)

    @property
    def listed(self) -> int:
        return exec("1")  # type: ignore[func-returns-value]

    @weft.jit.unused
    def anything(self, x: int, *args, **kwargs) -> int:
        return exec("1")  # type: ignore[func-returns-value]

    @weft.jit.unused  # type: ignore[prop-decorator]
    @property
    def marked(self) -> int:
        return exec("1")  # type: ignore[func-returns-value]


def test_class_methods_and_what_is_left_out() -> None:
    weft.jit.script(Made)

    def made(a: int) -> int:
        return Made.of(a).a * 10 + Made(0).of(a, more=3).a

    assert weft.jit.script(made)(4) == made(4)

    def reached(m: Made, which: int) -> int:
        if which == 0:
            return m.anything(3)
        if which == 1:
            return m.marked
        return m.listed if which == 2 else m.a

    scripted = weft.jit.script(reached)
    assert scripted(Made(7), 3) == 7
    for which in range(3):
        with pytest.raises(weft.jit.Error, match="must not be called"):
            scripted(Made(7), which)

"""Objects that are arguments, others at each call: one program serves them, what it reads and writes is the caller's
object, and where it counts which object it is, each has a program of its own. Values, state and draws of eager mode."""

from __future__ import annotations

import copy
import gc
import threading
import weakref
from collections import UserDict, deque
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import weft
from tests.symbols_left import symbols_left

CALLS = 5
kept: dict[str, Any] = {}


class Batch:
    def __init__(self, k: int, n: int = 3) -> None:
        self.x, self.n, self.name, self.flag = weft.arange(n).float() * (k + 1), k, "b", True
        self.w = weft.ones(n, requires_grad=True)
        self.items, self.table, self.empty = [self.x + 1], {"a": self.x * 2}, []
        self.nested, self.recent = {"rows": [[]]}, deque([self.x + 2, self.x + 3], 2)

    def total(self) -> Any:
        return (self.x * self.n).sum()

    @property
    def twice(self) -> Any:
        return self.x * 2

    def __getattr__(self, name: str) -> int:
        if name.startswith("_"):
            raise AttributeError(name)
        return 5


# ---- functions that have one program for every object (behind that for the first one)
def reads(b: Batch) -> Any:
    return b.total() + b.table["a"].sum() + b.items[0].sum() + b.twice.sum() + getattr(b, "absent", 0)


def counts(b: Batch) -> Any:
    b.n += 1
    b.x.add_(b.n)
    return b.x.clone()


def assigns(b: Batch) -> Any:
    b.new, b.name = b.x * 3, b.name + "x"
    del b.flag
    return b.new + len(b.name)


def returned(b: Batch) -> Any:
    b.x = b.x + 1
    return {"b": b, "s": b.total()}


def stores(b: Batch) -> Any:
    kept["last"] = b
    return b.total()


def backward(b: Batch) -> Any:
    b.w.grad = None
    loss = (b.w * b.x).sum()
    loss.backward()
    return loss.detach()


def history(b: Batch) -> Any:
    return (b.w * b.x).sum() * b.n


def draws(b: Batch) -> Any:
    b.noise = weft.randn(3)
    return b.x + b.noise


def copies(b: Batch) -> Any:
    return copy.copy(b).x + 1


def appends(b: Batch) -> Any:
    b.items.append(b.x * 2)
    b.empty.append(b.items[-1] + b.items[0])
    return b.empty[0] * len(b.items)


def sets_items(b: Batch) -> Any:
    b.table["a"], b.table["new"] = b.table["a"] + b.x, b.x * 4
    b.nested["rows"][0].append(b.table["new"])
    del b.items[0]
    return b.nested["rows"][0][-1] * 2


def keeps_last(b: Batch) -> Any:
    b.recent.append(b.x)
    return sum(b.recent) * b.recent.maxlen


def gives_containers(b: Batch) -> Any:
    b.items.append(b.x)
    b.also = b.items
    return b.items, {"t": b.table}, b.nested["rows"]


def holds_itself(b: Batch) -> Any:
    b.items.append(b.x)
    b.empty.append(b.items)
    b.table["items"] = b.items
    return b.empty[0][1] * 1


ONE_PROGRAM = [
    reads, counts, assigns, returned, stores, backward, history, draws, copies, appends, sets_items, keeps_last,
    gives_containers, holds_itself,
]


# ---- and that may have one each
def compares(b: Batch) -> Any:
    return b.x if b is kept.get("last") else b.x * 2


def reaches(b: Batch) -> Any:
    kept["last"].n += 1
    return b.x * b.n + kept["last"].x


def finds(b: Batch) -> Any:
    return b.x * (2 if b in kept.get("list", ()) else 3)


def key_of(b: Batch) -> Any:
    kept["table"] = {b: b.x}
    return b.x * 1


def hashes(b: Batch) -> Any:
    return b.x * (hash(b) == kept.get("hash"))


def attributes(b: Batch) -> Any:
    return sum(v.sum() for v in vars(b).values() if isinstance(v, weft.Tensor)) + b.__dict__["n"]


def fails(b: Batch) -> Any:
    b.n += 10
    if b.n == 13:
        raise ValueError("stopped")
    return b.x * b.n


def seen(value: Any, names: dict[int, int]) -> Any:
    """A value to compare, objects by their numbers."""
    if isinstance(value, weft.Tensor):
        return value.detach().numpy().round(5).tolist(), value.requires_grad
    if isinstance(value, Batch):
        return f"batch {names[id(value)]}"
    if isinstance(value, dict):
        return {seen(k, names): seen(v, names) for k, v in value.items()}
    return [seen(v, names) for v in value] if isinstance(value, (list, tuple, deque)) else value


def calls(function: Any, step: Callable[..., Any]) -> list[Any]:
    kept.clear()
    weft.manual_seed(0)
    rows, batches = [], []
    for k in range(CALLS):
        b = Batch(k)
        batches.append(b)
        if k == 0 or (k == 3 and function is not hashes):
            kept["last"], kept["list"] = (Batch(9) if k == 0 and function is reaches else b), [b]
            batches += [kept["last"]]
        names = {id(each): i for i, each in enumerate(batches)}
        kept["hash"] = hash(b) if k in (0, 3) else 0
        try:
            out = step(b)
            if function is history:
                out.backward()
        except ValueError as error:
            out, b.n = str(error), b.n % 10  # (a compiled call that fails leaves nothing)
        state = [{n: seen(v, names) for n, v in sorted(vars(each).items())} for each in batches]
        kept.pop("hash")
        rows.append([
            seen(out, names), state, seen(kept, names), None if b.w.grad is None else b.w.grad.tolist(),
            weft.rand(1).item(),
        ])
        assert not symbols_left(*batches, kept, out)
    return rows


@pytest.mark.parametrize("function", [
    *ONE_PROGRAM, compares, reaches, finds, key_of, hashes, attributes, fails,
])  # fmt: skip
def test_calls_are_those_of_eager_mode(function: Any) -> None:
    expected = calls(function, function)
    step = weft.compile(function, backend="interpret")
    assert calls(function, step) == expected
    assert function not in ONE_PROGRAM or len(step.entries) == 2
    assert calls(function, weft.compile(function, split=True)) == expected


def test_a_container_that_is_in_two_places(rng: np.random.Generator) -> None:
    """Which containers of an object are one, or one of Python's state, is as in eager mode at every call."""

    def step(b: Batch) -> Any:
        b.items.append(b.x)
        b.empty.append(b.x * 2)
        kept["all"].append(b.x * 3)
        return b.items[-1] + len(b.items) + len(kept["all"])

    compiled = weft.compile(step, backend="interpret")
    for k in rng.permutation(12).tolist():
        rows = []
        for call in (step, compiled):
            b = Batch(k)
            kept["all"] = [b.items, b.empty, []][k % 3] if k % 2 else []
            if k % 4 == 0:
                b.empty = b.items
            before = b.items, b.empty, kept["all"]
            rows.append([seen(call(b), {}), seen([b.items, b.empty, kept["all"]], {})])
            assert before[0] is b.items and before[1] is b.empty and before[2] is kept["all"]
        assert rows[0] == rows[1]


class Inner:
    def __init__(self, k: int) -> None:
        self.x, self.n = weft.ones(2) * k, k


class Outer:
    def __init__(self, k: int) -> None:
        self.a, self.b, self.d = Inner(k), [Inner(k + 1), Inner(k + 2)], {"p": (Inner(k + 3), 1)}
        self.settings = settings


settings = Inner(2)


def reads_inner(o: Outer) -> Any:
    return o.a.x * o.b[1].n + o.d["p"][0].x * o.settings.x


def writes_inner(o: Outer) -> Any:
    o.a.n += 1
    o.b[0].x = o.a.x * 2
    o.d["p"][0].new = o.b[0].x + o.a.n
    for each in o.b:
        each.n *= 2
    return o.b[0].x.sum() + o.b[1].n


def gives_inner(o: Outer) -> Any:
    o.last, kept["inner"] = o.a, o.b[0]
    return o.a, {"p": o.d["p"]}


def swaps_inner(o: Outer) -> Any:
    o.a, o.b[0] = o.b[0], o.a
    return o.a.x + o.b[0].n


def reaches_inner(o: Outer) -> Any:
    kept["inner"].n += 1
    return o.a.x * o.a.n + kept["inner"].x


def shares_inner(o: Outer) -> Any:
    o.a.n += 1
    return o.a.x * o.b[0].n


@pytest.mark.parametrize("function", [
    reads_inner, writes_inner, gives_inner, swaps_inner, reaches_inner, shares_inner,
])  # fmt: skip
def test_objects_in_objects(function: Any) -> None:
    def named(value: Any, names: dict[int, int]) -> Any:
        if isinstance(value, (Inner, Outer)):
            first = id(value) not in names
            number = names.setdefault(id(value), len(names))
            return number, [(k, named(v, names)) for k, v in sorted(vars(value).items())] if first else None
        if isinstance(value, dict):
            return [(k, named(v, names)) for k, v in value.items()]
        if isinstance(value, (list, tuple)):
            return [named(v, names) for v in value]
        return value.tolist() if isinstance(value, weft.Tensor) else value

    rows: list[list[Any]] = [[], []]
    step = weft.compile(function, backend="interpret")
    for row, called in zip(rows, (function, step), strict=True):
        kept.clear()
        kept["inner"] = Inner(50)
        for k in range(5):
            o = Outer(k)
            if function is shares_inner and k % 3 == 1:
                o.b[0] = o.a
            if function is reaches_inner and k == 3:
                kept["inner"] = o.a
            out = called(o)
            row.append(named([out, o, kept], {}))
            assert not symbols_left(out, o, kept)
    assert rows[0] == rows[1]
    assert function not in (reads_inner, writes_inner, gives_inner) or len(step.entries) == 2


def test_lists_of_objects_and_containers_written_in_python() -> None:
    def step(batches: list[Batch], more: UserDict[str, Any]) -> Any:
        for b in batches:
            b.n += 1
        return sum(b.total() for b in batches) + more["t"].sum()

    compiled = weft.compile(step, backend="interpret")
    for k in range(6):
        batches = [Batch(k + i) for i in range(2)]
        got = compiled(batches, UserDict(t=weft.ones(2) * k)).item()
        assert got == pytest.approx(sum(3.0 * (k + i + 1) ** 2 for i in range(2)) + 2 * k)
        assert [b.n for b in batches] == [k + 1, k + 2]
    assert len(compiled.entries) == 2


def test_the_same_object_twice_is_one() -> None:
    def step(a: Batch, b: Batch) -> Any:
        a.x = a.x + 1
        return a.x + b.x

    compiled = weft.compile(step, backend="interpret")
    for k in range(5):
        a = Batch(k)
        b = a if k in (2, 4) else Batch(k)
        before = a.x.numpy().copy()
        np.testing.assert_allclose(compiled(a, b).numpy(), 2 * before + (2 if a is b else 1))


def test_threads_have_their_own_objects() -> None:
    def step(b: Batch) -> Any:
        b.n += 1
        b.y = b.x * b.n
        return b.y.sum()

    compiled, wrong = weft.compile(step), []

    def work(first: int) -> None:
        for k in range(first, first + 30):
            b = Batch(k)
            y = np.arange(3) * (k + 1.0) ** 2
            if abs(compiled(b).item() - y.sum()) > 1e-3 * y.sum() or not np.allclose(b.y.numpy(), y):
                wrong.append(k)

    threads = [threading.Thread(target=work, args=(100 * i,)) for i in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_calls_within_calls_and_objects_that_go() -> None:
    def step(b: Batch, depth: int) -> Any:
        b.n += 1
        return b.x * b.n + (compiled(Batch(b.n), depth - 1) if depth else 0)

    compiled = weft.compile(step, backend="interpret")
    for k in range(4):
        b = Batch(k)
        assert compiled(b, 2).tolist() == step(Batch(k), 2).tolist() and b.n == k + 1
    gone = weakref.ref(b), weakref.ref(b.x)
    del b
    gc.collect()
    assert gone[0]() is None and gone[1]() is None


def test_a_cache_of_a_module_is_written_in_place() -> None:
    class Cache:
        def __init__(self) -> None:
            self.rows, self.length = weft.zeros(6, 2), 0

    class Reader(weft.nn.Module):
        def forward(self, x: Any, cache: Cache) -> Any:
            cache.rows[cache.length] = x
            cache.length += 1
            return cache.rows[: cache.length].sum(0)

    model = weft.compile(Reader(), backend="interpret")
    before = weft.counters.captures
    for k in range(4):
        cache, total = Cache(), np.zeros(2, np.float32)
        for t in range(6):
            x = np.array([k, t], np.float32)
            total += x
            np.testing.assert_allclose(model(weft.tensor(x), cache).numpy(), total)
        assert cache.length == 6 and np.allclose(cache.rows.sum(0).numpy(), total)
    assert weft.counters.captures - before <= 4


def test_what_has_a_will_of_its_own_is_left_as_it_is() -> None:
    class Slots:
        __slots__ = ("x",)

    class Closing(Batch):
        def __del__(self) -> None:
            closed.append(1)

    closed: list[int] = []

    def step(b: Any) -> Any:
        return b.x * 2

    for cls in (Slots, Closing):
        compiled = weft.compile(step, backend="interpret")
        for k in range(3):
            b = Slots() if cls is Slots else Closing(k)
            b.x = weft.ones(2) * k
            assert compiled(b).tolist() == [2.0 * k] * 2
        assert len(compiled.entries) == 3 and not compiled.objects

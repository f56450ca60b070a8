"""Compiled methods: instances that are alike share programs, each call reads and writes its own instance, and no
program keeps one alive. Values, state and draws of eager mode."""

from __future__ import annotations

import copy
import gc
import pickle
import threading
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import weft
from tests.symbols_left import symbols_left
from tests.unit.compile import test_object_arguments as objects
from weft.support.counters import counters


def method_of(function: Callable[..., Any], **options: Any) -> type[Any]:
    """A class of objects.Batch whose compiled method `step` is this function."""
    return type("Batched", (objects.Batch,), {"step": weft.compile(function, **options)})


@pytest.mark.parametrize("function", [
    *objects.ONE_PROGRAM, objects.compares, objects.reaches, objects.finds, objects.key_of, objects.hashes,
    objects.attributes, objects.fails,
])  # fmt: skip
@pytest.mark.parametrize("options", [{"backend": "interpret"}, {"split": True}], ids=["whole", "split"])
def test_calls_are_those_of_eager_mode(
    function: Any, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = objects.calls(function, function)
    cls = method_of(function, **options)
    copy.copy(cls(0))  # (which gives the class an attribute)
    monkeypatch.setattr(objects, "Batch", cls)
    monkeypatch.setattr(objects, "vars", lambda v: {k: w for k, w in v.__dict__.items() if k[0] != "_"}, raising=False)
    before = counters.captures
    assert objects.calls(function, lambda b: b.step()) == expected
    assert function not in objects.ONE_PROGRAM or "split" in options or counters.captures == before + 2


class Env:
    def __init__(self, k: int) -> None:
        self.x, self.n, self.log = weft.ones(3) * k, k, [weft.zeros(3)]

    @weft.compile
    def step(self, y: Any) -> Any:
        self.n += 1
        self.x = self.x + y * self.n
        self.log.append(self.x)
        return self.x.sum()


def expected_of(k: int, calls: int) -> tuple[float, int]:
    x = float(k)
    for i in range(calls):
        x += k + 1 + i
    return 3 * x, k + calls


@pytest.mark.parametrize("stays", [True, False])
def test_many_instances_take_few_captures(stays: bool) -> None:
    before, kept = counters.captures, []
    for k in range(30):
        env = Env(k)
        out = env.step(weft.ones(3))
        assert (out.item(), env.n) == expected_of(k, 1) and not symbols_left(env, out)
        if stays:
            kept.append(env)
        else:
            del env
            gc.collect() if k % 3 == 0 else None
    assert counters.captures - before <= 2
    for k, env in enumerate(kept):
        env.step(weft.ones(3))
        assert (env.step(weft.ones(3)).item(), env.n) == expected_of(k, 3) and len(env.log) == 4
    assert len(Env.step.entries) >= 1


def test_what_is_read_only_later_is_shared_too() -> None:
    class Late:
        def __init__(self, k: int) -> None:
            self.first, self.rows, self.table = weft.ones(3) * k, [], {"x": weft.ones(3) * k}
            self.part = Env(k)

        @weft.compile(backend="interpret")
        def step(self, what: str) -> Any:
            if what == "rows":
                self.rows.append(self.first)
                return sum(self.rows)
            if what == "table":
                self.table["y"] = self.table["x"] * 2
                return self.table["y"]
            return self.first + (self.part.x if what == "part" else 1)

    before = counters.captures
    for k in range(1, 13):
        late = Late(k)
        for what in ("", "rows", "table", "part")[: (k + 2) // 3]:
            assert late.step(what).tolist() == Late.step.function(Late(k), what).tolist()
    assert len(late.rows) == 1 and late.table["y"].tolist() == [24.0] * 3
    assert counters.captures - before <= 3 * 4


def test_no_program_keeps_an_instance_or_what_it_holds() -> None:
    class Part:
        def __init__(self, k: int) -> None:
            self.x, self.k, self.names = weft.ones(2) * k, k, {"a", str(k)}

    class Whole:
        def __init__(self, k: int) -> None:
            self.part, self.parts, self.lone = Part(k), [Part(k + 1)], Slotted(k)
            self.call = lambda x: x * self.part.k

        @weft.compile(backend="interpret")
        def step(self, what: str) -> Any:
            self.part.k += 1
            if what == "names":
                return self.part.x * len(self.part.names)
            if what == "lone":
                return self.parts[0].x * self.lone.k
            if what == "call":
                return self.call(self.parts[0].x)
            return self.part.x * self.part.k + self.parts[0].x

    refs: list[Any] = []
    for k in range(1, 8):
        whole = Whole(k)
        for what in ("sum", "names", "lone", "call")[: 1 + k % 4]:
            got, plain = whole.step(what), Whole.step.function(Whole(k), what)
            if what == "sum":
                assert got.tolist() == plain.tolist()
        refs += map(weakref.ref, (whole, whole.part, whole.parts[0], whole.part.x, whole.lone))
    del whole, got, plain
    gc.collect()
    assert [ref() for ref in refs] == [None] * len(refs)


class Slotted:
    __slots__ = ("__weakref__", "k")

    def __init__(self, k: int) -> None:
        self.k = k

    @weft.compile
    def times(self, x: Any) -> Any:
        self.k += 1
        return x * self.k


def test_instances_that_hold_one_object() -> None:
    class Settings:
        def __init__(self, scale: float) -> None:
            self.scale, self.owners = scale, []

    class User:
        def __init__(self, settings: Settings, net: Any, k: int) -> None:
            self.settings, self.net, self.x = settings, net, weft.ones(3) * k
            settings.owners.append(self)  # (what keeps the settings alive keeps all of them)

        @weft.compile(backend="interpret")
        def step(self, y: Any) -> Any:
            self.x = self.net(self.x + y) * self.settings.scale
            return self.x.sum()

    refs = []
    for scale in (2.0, 3.0):
        settings, net = Settings(scale), weft.nn.Linear(3, 3)
        before = counters.captures
        for k in range(6):
            user = User(settings, net, k)
            with weft.no_grad():
                expected = (net(weft.ones(3) * k + 1) * scale).sum().item()
                assert user.step(weft.ones(3)).item() == pytest.approx(expected)
        assert counters.captures - before == 2
        refs += [weakref.ref(settings), weakref.ref(net), weakref.ref(user)]
        settings.scale = 5.0
        with weft.no_grad():
            expected = (net(user.x) * 5).sum().item()
            assert user.step(weft.zeros(3)).item() == pytest.approx(expected, 1e-4, 1e-4)
    del settings, net, user
    gc.collect()
    assert [ref() for ref in refs] == [None] * len(refs)
    assert len(User.step.entries) == 0


def test_two_instances_in_one_call_and_the_same_one_twice() -> None:
    class Point:
        def __init__(self, k: int) -> None:
            self.x, self.n = weft.ones(2) * k, k

        @weft.compile(backend="interpret")
        def meet(self, other: Point) -> Any:
            self.n += other.n
            other.x = self.x + other.x
            self.x = self.x * 2
            return other.x * self.n + (1 if self is other else 0)

    before = counters.captures
    for k in range(1, 9):
        rows = []
        for meet in (Point.meet.function, lambda a, b: a.meet(b)):
            a, b = Point(k), Point(k + 3)
            outs = [meet(a, b), meet(b, a)] + ([meet(a, a)] if k % 3 == 0 else [])
            rows.append([o.tolist() for o in outs] + [a.x.tolist(), b.x.tolist(), a.n, b.n])
        assert rows[0] == rows[1]
    assert counters.captures - before <= 8


@pytest.mark.parametrize("knows_parent", [False, True])
def test_trees_of_instances(knows_parent: bool) -> None:
    class Node:
        def __init__(self, depth: int, k: int, parent: Any = None) -> None:
            self.x, self.n, self.parent = weft.ones(2) * k, 0, parent if knows_parent else None
            self.children = [Node(depth - 1, 2 * k + i, self) for i in range(2)] if depth else []

        @weft.compile(backend="interpret")
        def total(self, y: Any) -> Any:
            self.n += 1
            own = self.x * y * self.n + (0 if self.parent is None else self.parent.x)
            return sum([child.total(y) for child in self.children], own)

        def expected(self) -> float:
            self.n += 1
            own = self.x[0].item() * self.n + (0 if self.parent is None else self.parent.x[0].item())
            return own + sum([child.expected() for child in self.children])

    before, refs = counters.captures, []
    for k in range(1, 9):
        tree, other = Node(2, k), Node(2, k)
        for one, plain in ((tree, other), (tree.children[1], other.children[1]), (tree, other)):
            assert one.total(weft.ones(2)).tolist() == [plain.expected()] * 2
            assert [c.n for c in tree.children] == [c.n for c in other.children]
        refs += [weakref.ref(tree), weakref.ref(tree.children[0])]
    assert knows_parent or counters.captures - before <= 4
    del tree, other, one, plain
    gc.collect()
    assert [ref() for ref in refs] == [None] * len(refs)


def test_inheritance_properties_and_methods_of_the_class() -> None:
    class Shape:
        scale = 2.0

        def __init__(self, k: float) -> None:
            self._k, self.x = k, weft.ones(2) * k

        @property
        def k(self) -> float:
            return self._k * 10

        @k.setter
        def k(self, value: float) -> None:
            self._k = value

        def area(self) -> Any:
            return self.x * self.k

        @weft.compile(backend="interpret")
        def step(self, y: Any) -> Any:
            self.k = self._k + 1
            return self.area() * self.scale + y

        @staticmethod
        @weft.compile(backend="interpret")
        def apart(y: Any) -> Any:
            return y * 3

        @classmethod
        @weft.compile(backend="interpret")
        def whole(cls, y: Any) -> Any:
            return y * cls.scale

    class Square(Shape):
        scale = 3.0

        def area(self) -> Any:
            return self.x * self.x

    class Louder(Square):
        @weft.compile(backend="interpret")
        def step(self, y: Any) -> Any:
            return super().step(y) * 2

    plain = {
        Shape: lambda k: k * (k + 1) * 10 * 2 + 1, Square: lambda k: k * k * 3 + 1,
        Louder: lambda k: 2 * (k * k * 3 + 1),
    }
    for cls, value in plain.items():
        before = counters.captures
        for k in range(1, 7):
            shape = cls(float(k))
            assert shape.step(weft.ones(2)).tolist() == [value(k)] * 2 and shape._k == k + 1
        assert counters.captures - before == 2
        assert cls.whole(weft.ones(1)).item() == cls(1.0).whole(weft.ones(1)).item() == cls.scale
        assert cls.apart(weft.ones(1)).item() == cls(1.0).apart(weft.ones(1)).item() == 3
    one = Shape(4.0)  # of another class from one call to the next, and with a method of its own
    assert one.step(weft.ones(2)).tolist() == [4 * 50 * 2 + 1.0] * 2
    one.__class__ = Square
    assert one.step(weft.ones(2)).tolist() == [49.0] * 2
    one.area = lambda: one.x  # type: ignore[method-assign]
    assert one.step(weft.ones(2)).tolist() == [13.0] * 2


def test_instances_of_other_kinds_have_other_programs() -> None:
    class Kept:
        def __init__(self, value: Any) -> None:
            self.value = value

        @weft.compile(backend="interpret")
        def step(self, x: Any) -> Any:
            if self.value is None:
                return x
            return x + sum(self.value) if isinstance(self.value, (list, tuple)) else x * self.value

    values: list[Callable[[int], Any]] = [
        lambda k: None, lambda k: k, lambda k: k / 2, lambda k: weft.ones(2) * k, lambda k: weft.ones(3, 2) * k,
        lambda k: [weft.ones(2) * k], lambda k: (weft.ones(2), weft.ones(2) * k), lambda k: [k, k + 1],
        lambda k: weft.ones(2, dtype=weft.float64) * k,
    ]
    before = counters.captures
    for k in range(2, 7):
        for make in values:
            got, expected = Kept(make(k)).step(weft.ones(2)), Kept.step.function(Kept(make(k)), weft.ones(2))
            assert got.tolist() == expected.tolist() and got.dtype == expected.dtype
    assert counters.captures - before <= 3 * len(values)


def test_gradients_by_attributes_at_orders_one_and_two(rng: np.random.Generator) -> None:
    class Fit:
        def __init__(self, w: Any) -> None:
            self.w = weft.tensor(w, requires_grad=True)

        @weft.compile
        def loss(self, x: Any) -> Any:
            return (self.w * x).tanh().square().sum()

        @weft.compile
        def train(self, x: Any) -> Any:
            self.w.grad = None
            loss = (self.w * x).tanh().square().sum()
            (grad,) = weft.autograd.grad(loss, self.w, create_graph=True)
            grad.square().sum().backward()
            return grad.detach()

    before = counters.captures
    for _ in range(5):
        w, x = rng.normal(size=4), rng.normal(size=4)
        fit, plain = Fit(w), Fit(w)
        fit.loss(weft.tensor(x)).backward()
        plain.loss.function(weft.tensor(x)).backward()
        np.testing.assert_allclose(fit.w.grad.numpy(), plain.w.grad.numpy(), 1e-10)
        got, expected = fit.train(weft.tensor(x)), plain.train.function(weft.tensor(x))
        np.testing.assert_allclose(got.numpy(), expected.numpy(), 1e-10)
        np.testing.assert_allclose(fit.w.grad.numpy(), plain.w.grad.numpy(), 1e-10)
    assert counters.captures - before == 4


def test_what_has_a_will_of_its_own_has_programs_of_its_own() -> None:
    class Closing(Env):
        def __del__(self) -> None:
            closed.append(self.n)

    closed: list[int] = []
    for k in range(3):
        env = Closing(k)
        assert env.step(weft.ones(3)).item() == expected_of(k, 1)[0] and len(env.step.entries) == 1
    del env
    gc.collect()
    assert sorted(closed) == [1, 2, 3]
    for k in (2, 3, 2):
        assert Slotted(k).times(weft.ones(1)).item() == k + 1


def test_dataclasses_and_modules_have_programs_of_their_own() -> None:
    @dataclass
    class State:
        x: Any
        n: int = 0

        @weft.compile(backend="interpret")
        def step(self, y: Any) -> Any:
            self.n += 1
            self.x = self.x + y
            return self.x * self.n

    class Layer(weft.nn.Module):
        def __init__(self, k: int) -> None:
            super().__init__()
            self.linear, self.n = weft.nn.Linear(2, 2), k

        @weft.compile(backend="interpret")
        def forward(self, x: Any) -> Any:
            self.n += 1
            return self.linear(x) * self.n

    for k in range(4):
        state, layer, x = State(weft.ones(2) * k), Layer(k), weft.ones(1, 2)
        assert [state.step(weft.ones(2)).tolist() for _ in range(2)] == [[k + 1.0] * 2, [2 * k + 4.0] * 2]
        np.testing.assert_allclose(
            layer(x).detach().numpy(), layer.linear(x).detach().numpy() * (k + 1), 1e-5
        )
        assert state.n == 2 and layer.n == k + 1 and len(layer.forward.entries) == 1


def test_copies_and_pickles_of_instances_that_share() -> None:
    first, second, y = Env(1), Env(2), weft.ones(3)
    first.step(y), second.step(y)
    before = counters.captures
    for other in (copy.copy(second), copy.deepcopy(second), pickle.loads(pickle.dumps(second)), copy.copy(first)):
        k = 1 if other.x.tolist() == first.x.tolist() else 2
        assert other.step(y).item() == expected_of(k, 2)[0] and other.step is other.step is not second.step
    assert second.n == 3 and counters.captures - before <= 1
    again = pickle.loads(pickle.dumps(second.step))
    assert again(y).item() == second.step(y).item()


def test_threads_have_their_own_instances() -> None:
    wrong: list[int] = []

    def work(first: int) -> None:
        for k in range(first, first + 30):
            env = Env(k)
            outs = [env.step(weft.ones(3)).item() for _ in range(2)]
            if outs != [expected_of(k, 1)[0], expected_of(k, 2)[0]] or env.n != k + 2:
                wrong.append(k)

    threads = [threading.Thread(target=work, args=(100 * i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_what_a_method_says_of_its_programs() -> None:
    class Said:
        def __init__(self, k: int, kind: str) -> None:
            self.x, self.kind = weft.ones(3) * k, kind

        @weft.compile
        def step(self, y: Any) -> Any:
            return self.x.sum() + y if self.kind == "sum" else self.x.mean() * y

    one, two, three = [Said(k, "sum") for k in range(3)]
    y = weft.ones(3)
    assert [len(said.step.entries) for said in (one, two)] == [0, 0]
    for said in (one, two, three):
        said.step(y)
    assert [len(said.step.entries) for said in (two, three)] == [1, 1] and len(Said.step.entries) == 1
    assert two.step.entries[0] is three.step.entries[0]
    assert "1 program" in repr(three.step) and list(three.step.stages(y)) == list(one.step.stages(y))
    before = counters.captures
    assert len(weft.explain(three.step, y).programs) == 1 and counters.captures == before
    three.kind = "mean"
    assert three.step(y).tolist() == [2.0] * 3
    assert len(three.step.entries) == 2 and not one.step.misses
    assert "self.kind was 'sum', is now 'mean'" in three.step.misses[-1]


def test_an_instance_that_shares_is_shipped_with_its_own_state(tmp_path: Any) -> None:
    class Sums:
        def __init__(self, k: int) -> None:
            self.x = weft.ones(3) * k

        @weft.compile
        def step(self, y: Any) -> Any:
            self.x.add_(y)
            return self.x.sum()

    one, two, y = Sums(1), Sums(2), weft.ones(3)
    assert [one.step(y).item(), two.step(y).item()] == [6.0, 9.0]
    with pytest.raises(weft.WeftError, match="shares with other instances; give arguments"):
        two.step.export(tmp_path / "two")
    two.step.export(tmp_path / "two", (y,))
    assert weft.tensor([3.0] * 3).numpy().tobytes() in (tmp_path / "two.state").read_bytes()
    assert two.x.tolist() == [3.0] * 3


def test_a_failed_call_leaves_the_instance_as_it_was() -> None:
    class Failing:
        def __init__(self, k: int) -> None:
            self.x, self.n = weft.ones(2) * k, k

        @weft.compile(backend="interpret")
        def step(self, at: int) -> Any:
            self.n += 1
            self.x = self.x * 2
            if self.n == at:
                raise ValueError("stopped")
            return self.x * self.n

    for k in range(1, 8):
        one = Failing(k)
        if k % 2:
            with pytest.raises(ValueError, match="stopped"):
                one.step(k + 1)
            assert one.n == k and one.x.tolist() == [float(k)] * 2
        assert one.step(100).tolist() == [2.0 * k * (k + 1)] * 2 and not symbols_left(one)

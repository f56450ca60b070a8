"""What scripts of older programs use: objects of plain classes in Modules, dataclasses, older constructors of tensors,
memory formats, signatures in comments; and traces whose example inputs leave parameters out.
"""

from __future__ import annotations

import cmath
import io
import math
from dataclasses import InitVar, dataclass
from typing import ClassVar

import pytest

import weft
from weft import nn


def _loaded(program):
    held = io.BytesIO()
    weft.jit.save(program, held)
    held.seek(0)
    return weft.jit.load(held)


class Scale:
    def __init__(self, factor: int, weight: weft.Tensor):
        self.factor = factor
        self.weight = weight

    def apply(self, x: weft.Tensor) -> weft.Tensor:
        return x * self.weight * self.factor


class Step:
    def __init__(self, by: float):
        self.by = by


class NotCompilable:
    def __init__(self, a: int):
        self.a = a

    def is_number(self) -> bool:
        return issubclass(self.a, int)


class Holder(nn.Module):
    def __init__(self, held):
        super().__init__()
        self.held = held


def test_an_object_of_a_plain_class_is_an_attribute_of_a_module():
    class Scaled(Holder):
        def forward(self, x):
            return self.held.apply(x) + self.held.factor

    module = Scaled(Scale(3, weft.ones(2) * 2))
    scripted = weft.jit.script(module)
    for n in (2, 1, 2):
        x = weft.rand(n)
        assert weft.equal(scripted(x), module(x)) and weft.equal(_loaded(scripted)(x), module(x))
    module.held.factor = 7
    assert weft.equal(scripted(x), module(x))


def test_objects_of_a_plain_class_stand_in_a_list():
    class Steps(Holder):
        def forward(self, x):
            for step in self.held:
                x = x + step.by
            return x

    module = Steps([Step(0.5), Step(2.0)])
    assert weft.equal(weft.jit.script(module)(weft.ones(3)), module(weft.ones(3)))


def test_an_object_that_no_program_uses_may_be_of_any_class():
    class Unused(Holder):
        def forward(self, x):
            return x + 1

    class Used(Holder):
        def forward(self, x):
            if self.held.is_number():
                return x
            return x + 1

    scripted = weft.jit.script(Unused(NotCompilable(3)))
    assert weft.equal(_loaded(scripted)(weft.ones(2)), weft.ones(2) * 2)
    with pytest.raises(weft.jit.CompileError, match="issubclass"):
        weft.jit.script(Used(NotCompilable(3)))


class Value:
    def __init__(self, value):
        self.value = value


def test_an_object_s_attribute_is_of_the_type_that_its_class_gives_it():
    class Adds(Holder):
        def forward(self, x):
            return x + self.held.value

    assert weft.equal(weft.jit.script(Adds(Value(weft.ones(2))))(weft.ones(2)), weft.ones(2) * 2)
    with pytest.raises(weft.jit.CompileError, match="attribute 'value' of Value is a str, where its class says Tensor"):
        weft.jit.script(Adds(Value("1")))


@dataclass
class Powered:
    x: float
    y: float
    power: InitVar[int] = 2
    total: weft.Tensor | None = None
    unit: ClassVar[int] = 3

    def __post_init__(self, power: int):
        self.total = weft.tensor(self.x) ** power + weft.tensor(self.y) ** power


def test_a_dataclass_passes_what_it_only_takes_to_post_init():
    def run(x: float, y: float, p: int):
        return Powered(x, y, p).total, Powered(x, y).total

    scripted = weft.jit.script(run)
    for p in (1, 2, 3):
        assert [float(t) for t in scripted(1.5, 2.0, p)] == [float(t) for t in run(1.5, 2.0, p)]


@dataclass(order=True)
class Ranked:
    x: float
    rank: int | None = None


@pytest.mark.parametrize("a, b, u, v", [(1.0, 2.0, None, None), (1.0, 1.0, None, None), (1.0, 1.0, 3, 4),
                                        (2.0, 1.0, 3, None), (1.0, 1.0, 3, 3)])
def test_dataclasses_with_fields_that_may_be_none_are_ordered(a, b, u, v):
    def orders(a: float, b: float, u: int | None, v: int | None):
        p, q = Ranked(a, u), Ranked(b, v)
        return p == q, p < q, p <= q, p > q, p >= q

    assert weft.jit.script(orders)(a, b, u, v) == orders(a, b, u, v)


def test_none_has_no_order():
    def less(u: int | None, v: int | None):
        return Ranked(1.0, u) < Ranked(1.0, v)

    def same(u: int | None, v: int | None):
        return Ranked(1.0, u) == Ranked(1.0, v)

    with pytest.raises(TypeError, match="None has no order"):
        weft.jit.script(less)(1, None)
    assert weft.jit.script(same)(1, None) is False


def _as_list(value):
    return list(value) if isinstance(value, (list, tuple)) else value


def test_older_constructors_of_tensors():
    def run(n: int):
        return (weft.FloatTensor([1.0, 2.0]), weft.LongTensor([3, n]), weft.BoolTensor([2, 0]),
                weft.LongTensor(2, n).shape, weft.DoubleTensor().shape, weft.HalfTensor([n]).dtype)

    scripted = weft.jit.script(run)
    for n in (1, 4):
        for found, expected in zip(scripted(n), run(n), strict=True):
            if isinstance(expected, weft.Tensor):
                assert weft.equal(found, expected)
            else:
                assert _as_list(found) == _as_list(expected)

    def mixed():
        return weft.LongTensor(1, [2])

    with pytest.raises(weft.jit.CompileError, match="takes sizes, or one list"):
        weft.jit.script(mixed)

    def named():
        return weft.LongTensor(size=3)

    with pytest.raises(weft.jit.CompileError, match="takes nothing by name in a program, not size"):
        weft.jit.script(named)


def test_memory_formats_and_layouts_are_constants_of_scripts():
    def run(x):
        y = x.contiguous(memory_format=weft.channels_last)
        return y, weft.zeros([2], layout=weft.strided), x.to(weft.float64, memory_format=weft.preserve_format)

    scripted = weft.jit.script(run)
    for n in (1, 2):
        x = weft.rand(n, 2, 3, 4)
        assert [t.stride() for t in scripted(x)] == [t.stride() for t in run(x)]
        assert weft.equal(scripted(x)[0], x)


def test_questions_about_complex_numbers():
    def run(z: complex):
        return cmath.isinf(z), cmath.isnan(z), cmath.isfinite(z)

    scripted = weft.jit.script(run)
    for z in (1 + 2j, complex(math.inf, 1), complex(1, math.nan)):
        assert scripted(z) == run(z)


def test_complex_of_tensors():
    def run(t, u):
        return complex(t, 2.0), complex(3, t), complex(t, u), complex(True, u)

    scripted = weft.jit.script(run)
    for t, u in ((weft.tensor(4), weft.tensor(0.5)), (weft.tensor([4.5]), weft.tensor(True))):
        assert scripted(t, u) == run(t, u)


def test_a_container_with_a_length_of_its_own():
    class Two(nn.ModuleList):
        def __len__(self) -> int:
            return 2

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.parts = Two([nn.ReLU()])
            self.plain = nn.ModuleList([nn.ReLU(), nn.ReLU(), nn.ReLU()])

        def forward(self, x):
            return x * len(self.parts) + len(self.plain)

    assert weft.equal(weft.jit.script(Model())(weft.ones(2)), Model()(weft.ones(2)))


@weft.jit.interface
class Named(nn.Module):
    def one(self, a, b):
        # type: (Tensor, Tensor) -> Tensor
        pass

    def forward(self, a):
        # type: (Tensor) -> Tensor
        pass


def test_an_interface_has_its_types_in_comments():
    class Added(nn.Module):
        def one(self, a: weft.Tensor, b: weft.Tensor) -> weft.Tensor:
            return a + b

        def forward(self, a: weft.Tensor) -> weft.Tensor:
            return self.one(a, a + 1)

    class Model(nn.Module):
        part: Named

        def __init__(self):
            super().__init__()
            self.part = Added()

        def forward(self, x):
            return self.part.forward(x) + self.part.one(x, x)

    assert weft.equal(weft.jit.script(Model())(weft.ones(2)), Model()(weft.ones(2)))


def test_example_inputs_by_name_leave_parameters_out():
    class Model(nn.Module):
        def forward(self, b=None, c=None, d=None, a=None, e=None):
            return a * 2 + b - (0 if d is None else d)

    example = {"a": weft.ones(1), "b": weft.ones(1) * 2}
    for traced in (
        weft.jit.trace(Model(), example_kwarg_inputs=example),
        weft.jit.trace_module(Model(), {"forward": example}, example_inputs_is_kwarg=True),
    ):
        for n in (1, 3):
            given = {"a": weft.rand(n), "b": weft.rand(n)}
            assert weft.equal(traced(**given), Model()(**given))


def test_a_dict_comprehension_is_of_the_type_that_is_asked_for():
    def of_none():
        x: dict[str, int | None] = {word: None for word in ["a", "b"]}
        x["c"] = 3
        return x

    def returned() -> dict[int, weft.Tensor | None]:
        return {i: None for i in range(3)}

    def of_lists():
        x: dict[int, list[int | None]] = {i: [None] for i in range(2)}
        x[0].append(5)
        return x

    def of_nothing():
        x: dict[int, int | None] = {i: None for i in range(0)}
        x[3] = 4
        return x

    def of_itself(y: list[int | None]):
        return {i: v for i, v in enumerate(y) if i > 0}

    for function, given in (
        (of_none, ()), (returned, ()), (of_lists, ()), (of_nothing, ()), (of_itself, ([1, None, 2],)),
    ):
        scripted = weft.jit.script(function)
        assert scripted(*given) == function(*given) and scripted(*given) == function(*given)


@weft.jit.interface
class OneAndTwo:
    def one(self, x: weft.Tensor) -> weft.Tensor:
        pass

    def two(self, x: weft.Tensor) -> weft.Tensor:
        pass


class OnlyTwo:
    def two(self, x: weft.Tensor) -> weft.Tensor:
        return x


class Both:
    def __init__(self):
        self.factor = 3

    def one(self, x: weft.Tensor) -> weft.Tensor:
        return x

    def two(self, x: weft.Tensor) -> weft.Tensor:
        return x * self.factor


def test_objects_behind_an_interface_are_checked_when_a_program_is_compiled():
    class Calls(nn.Module):
        part: OneAndTwo

        def __init__(self, part):
            super().__init__()
            self.part = part

        def forward(self, x):
            return self.part.two(x)

    assert weft.equal(weft.jit.script(Calls(Both()))(weft.ones(2)), weft.ones(2) * 3)
    with pytest.raises(weft.jit.CompileError, match="'OnlyTwo' has no method 'one' of the interface"):
        weft.jit.script(Calls(OnlyTwo()))
    with pytest.raises(weft.jit.CompileError, match=r"type int does not do what .*OneAndTwo\) asks for"):
        weft.jit.script(Calls(3))

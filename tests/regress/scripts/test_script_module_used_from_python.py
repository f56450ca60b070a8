"""Scripted Modules and the Python around them: methods that stay in Python, what is assigned from outside, Modules that
functions close over.
"""

from __future__ import annotations

import copy
import types
from collections import namedtuple

import pytest

import weft
import weft.jit
from weft import Tensor, nn


class Counting(nn.Module):
    times: weft.jit.Final[int]

    def __init__(self) -> None:
        super().__init__()
        self.seen: int = 0
        self.inner = nn.Linear(2, 2)
        self.times = 3

    @weft.jit.ignore
    def count(self, n: int, *more) -> int:
        self.seen += n
        return self.plain(len(more))

    def plain(self, n: int) -> int:
        return self.seen + n

    def forward(self, x):
        return self.inner(x) * self.times + self.count(5, x, 3)


def test_ignored_methods_work_on_the_object_that_runs() -> None:
    plain = Counting()
    scripted = weft.jit.script(plain)
    other = copy.deepcopy(scripted)
    x = weft.ones(2)
    assert weft.allclose(scripted(x), scripted.inner(x) * 3 + 7)
    assert weft.allclose(other(x), scripted.inner(x) * 3 + 7)
    assert (scripted.seen, other.seen, plain.seen) == (5, 5, 0)
    assert scripted.count(1) == 6 and scripted.plain(1) == 7 and scripted.seen == 6


def test_what_programs_would_not_see_is_refused() -> None:
    scripted = weft.jit.script(Counting())
    with pytest.raises(RuntimeError, match="Cannot re-assign the submodule 'inner'"):
        scripted.inner = nn.Linear(2, 2)
    with pytest.raises(RuntimeError, match="'times' of Counting is a constant"):
        scripted.times = 4
    scripted.seen, scripted.times = 40, 3
    assert weft.allclose(scripted(weft.ones(2)), scripted.inner(weft.ones(2)) * 3 + 47)


class Replaced(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.forward = types.MethodType(Replaced.other, self)  # type: ignore[method-assign]

    def other(self, x):
        return self.scaled(x) + 1

    def scaled(self, x):
        return x * 100

    def forward(self, x):  # type: ignore[no-redef]
        raise AssertionError("this method was replaced")


def test_a_method_that_was_put_in_place_of_forward_is_compiled() -> None:
    assert weft.jit.script(Replaced())(weft.ones(2)).tolist() == [101, 101]


def test_functions_call_modules_from_outside() -> None:
    plain, scripted = nn.Linear(2, 2), weft.jit.script(Counting())
    parts = types.SimpleNamespace(deep=types.SimpleNamespace(flag=True))

    @weft.jit.script
    def total(x):
        if parts.deep.flag:
            x = x * 2
        return plain(x).sum() + scripted(x).sum()

    x = weft.ones(2, requires_grad=True)
    wanted = plain(x * 2).sum() + scripted.inner(x * 2).sum() * 3 + 14
    found = total(x)
    assert weft.allclose(found, wanted)
    found.backward()
    assert plain.weight.grad is not None and scripted.inner.weight.grad is not None and x.grad is not None


class WithAttribute(weft.jit.ScriptModule):
    def __init__(self) -> None:
        super().__init__()
        self.rate = weft.jit.Attribute(1, float)
        assert self.rate == 1  # the value is there at once

    @weft.jit.script_method
    def forward(self):
        return self.rate


class WithoutSelf(weft.jit.ScriptModule):
    @weft.jit.script_method
    def forward():  # type: ignore[misc]
        return 3


def test_attributes_and_methods_of_script_modules() -> None:
    assert isinstance(WithAttribute()(), float)
    with pytest.raises(weft.jit.CompileError, match="a method needs a parameter for its object"):
        WithoutSelf()


Pair = namedtuple("Pair", ["a"])


@weft.jit.unused
def never(x, *args):
    # type: (Tensor) -> Pair
    return Pair(args)


class Point:
    def __init__(self, x: float) -> None:
        self.x = x

    def moved(self, by: float) -> float:
        return self.x + by


def test_what_stays_in_python_may_have_types_in_comments_and_open_arguments() -> None:
    @weft.jit.script
    def chosen(x, flag: bool):
        return never(x) if flag else Pair(x)

    assert chosen(weft.ones(1), False).a.tolist() == [1]
    with pytest.raises(RuntimeError, match="must not be called"):
        chosen(weft.ones(1), True)


def test_objects_and_unbound_methods() -> None:
    point = weft.jit.script(Point(2.0))

    @weft.jit.script
    def asked(p: Point):
        return hasattr(Point, "moved"), hasattr(Point, "turned"), Point.moved(p, 1.0)

    assert asked(point) == (True, False, 3.0)
    with pytest.raises(weft.jit.CompileError, match="not a list"):
        weft.jit.script([1])


def test_frozen_modules_for_pytorch_s_callers() -> None:
    scripted = weft.jit.script(nn.Sequential(nn.Linear(2, 3), nn.Dropout()))
    ready = weft.jit.optimize_for_inference(scripted)
    x: Tensor = weft.randn(4, 2)
    assert weft.equal(ready(x), scripted.eval()(x)) and not list(ready.parameters())
    assert weft.jit.optimize_for_inference(ready) is ready
    weft.jit.run_frozen_optimizations(ready)


def test_graph_for_shows_what_runs() -> None:
    @weft.jit.script
    def f(x, y):
        z = (x * y + x).tanh()
        return (z * y - x).sigmoid() * z

    assert "tanh" in str(f.graph_for(weft.ones(2), weft.ones(2)))

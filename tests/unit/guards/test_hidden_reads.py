"""Reads that Python hides in C, in the standard library, in classes and in absences: a change is noticed by the next
call, at one capture."""

from __future__ import annotations

import functools
import operator
import re
import types
import weakref
from collections import ChainMap, UserDict
from collections.abc import Callable
from typing import Any

import pytest

import weft
from weft import Tensor, nn

Program = tuple[Callable[[Tensor], Tensor], list[Callable[[], Any]]]


def _attrgetter() -> Program:
    config, read = types.SimpleNamespace(inner=types.SimpleNamespace(k=2.0)), operator.attrgetter("inner.k")
    return lambda x: x * read(config), [lambda: setattr(config.inner, "k", 3.0)]


def _absent() -> Program:
    config = types.SimpleNamespace()
    return lambda x: x * (config.k if hasattr(config, "k") else 2.0), [
        lambda: setattr(config, "k", 3.0), lambda: delattr(config, "k")
    ]


def _tried() -> Program:
    config = types.SimpleNamespace()

    def program(x: Tensor) -> Tensor:
        try:
            return x * config.k
        except AttributeError:
            return x

    return program, [lambda: setattr(config, "k", 3.0)]


def _dispatched() -> Program:
    @functools.singledispatch
    def double(x: Any) -> Any:
        return x * 2

    return lambda x: double(x), [lambda: double.register(Tensor, lambda x: x * 5)]


def _other_class() -> Program:
    class One:
        def apply(self, x: Tensor) -> Tensor:
            return x * 2

    class Two(One):
        def apply(self, x: Tensor) -> Tensor:
            return x - 9

    one = One()
    return lambda x: one.apply(x), [lambda: setattr(one, "__class__", Two)]


def _metaclass() -> Program:
    class Meta(type):
        k = 2.0

        @property
        def triple(cls) -> float:
            return cls.k * 3

    class Scale(metaclass=Meta):
        pass

    return lambda x: x * Scale.triple, [lambda: setattr(Meta, "k", 3.0), lambda: setattr(Scale, "k", 4.0)]


def _wrapped_dicts() -> Program:
    settings, layers = UserDict(k=2.0), ChainMap({}, {"j": 3.0})
    return lambda x: x * settings["k"] * layers["j"], [lambda: settings.update(k=5.0), lambda: layers.update(j=7.0)]


def _learning_rate() -> Program:
    opt = weft.optim.SGD([nn.Parameter(weft.ones(3))], lr=0.5)
    return lambda x: x * opt.param_groups[0]["lr"], [lambda: opt.param_groups[0].update(lr=0.25)]


def _reference() -> Program:
    class Parent:
        k = 2.0

    parent = Parent()
    parent.k = 2.0
    reference = weakref.ref(parent)
    return lambda x: x * reference().k, [lambda: setattr(parent, "k", 3.0)]  # type: ignore[union-attr]


PROGRAMS = {f.__name__.strip("_"): f for f in (
    _attrgetter, _absent, _tried, _dispatched, _other_class, _metaclass, _wrapped_dicts, _learning_rate, _reference,
)}


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_change_is_noticed(name: str) -> None:
    program, changes = PROGRAMS[name]()
    compiled = weft.compile(program, backend="interpret")
    for change in (lambda: None, *changes):
        change()
        for _ in range(2):
            x = weft.randn(3)
            weft.testing.assert_close(compiled(x), program(x))
    assert len(compiled.misses) <= len(changes)
    assert all(re.match(r"test_hidden_reads\.py:\d+: .+ was .+, is now .+", miss) for miss in compiled.misses), (
        compiled.misses
    )


def test_an_optimizers_rate_is_one_input_wherever_it_is_read() -> None:
    twins: list[tuple[Any, Any]] = []
    for wrap in (lambda f: f, weft.compile):
        w = nn.Parameter(weft.ones(3))
        opt = weft.optim.SGD([w], lr=0.5)

        def step(x: Tensor, w: nn.Parameter = w, opt: weft.optim.SGD = opt) -> Any:
            opt.zero_grad()
            loss = (w * x).square().sum()
            loss.backward()
            opt.step()
            return loss, [group["lr"] for group in opt.param_groups]

        twins.append((wrap(step), opt))
    for call in range(5):
        x = weft.randn(3)
        for _, opt in twins:
            opt.param_groups[0]["lr"] = 0.5 / (call + 1)
        (found, rates), (expected, their_rates) = twins[1][0](x), twins[0][0](x)
        weft.testing.assert_close(found, expected.detach())
        assert rates == their_rates == [0.5 / (call + 1)]
    assert len(twins[1][0].misses) == 1

"""Compiled functions and modules as objects: copied, pickled, compiled in place;
and what Python's objects hide from a step that reads them."""

from __future__ import annotations

import copy
import functools
import inspect
import pickle
from collections.abc import Callable
from typing import Any

import weft
from weft import Tensor, nn


class Scaled(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(3, 2)
        self.scale = 2.0

    def forward(self, x: Tensor) -> Tensor:
        return self.inner(x) * self.scale


class Shifted(Scaled):
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) + 1


class Between(Scaled):
    pass


class Deeper(Between):
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) - 1


@weft.compile
def doubled(x: Tensor) -> Tensor:
    return x * 2


def test_a_compiled_function_is_pickled_by_name() -> None:
    assert pickle.loads(pickle.dumps(doubled)) is doubled
    again = pickle.loads(pickle.dumps(weft.compile(nn.functional.relu)))
    assert weft.equal(again(weft.tensor([-1.0, 2.0])), weft.tensor([0.0, 2.0]))


def test_an_object_that_holds_compiled_functions_is_copied() -> None:
    class Holder:
        def __init__(self) -> None:
            self.scale = weft.tensor(3.0)
            self.function = weft.compile(nn.functional.relu)
            self.step = weft.compile(self.method)

        def method(self, x: Tensor) -> Tensor:
            return self.function(x) * self.scale

    first = Holder()
    x = weft.randn(4)
    assert weft.equal(first.step(x), x.relu() * 3)
    second = copy.deepcopy(first)
    second.scale = weft.tensor(5.0)
    assert weft.equal(second.step(x), x.relu() * 5) and weft.equal(first.step(x), x.relu() * 3)


def test_a_module_compiled_in_place() -> None:
    model = Shifted()
    expected = copy.deepcopy(model)
    model.compile()
    captured = weft.counters.captures

    def same(x: Tensor) -> bool:
        return weft.allclose(model(x), expected(x), atol=1e-6)

    for size in (4, 2, 1):
        assert same(weft.randn(size, 3))
    assert weft.counters.captures == captured + 1
    for one in (model, expected):
        one.inner.register_forward_hook(lambda module, args, out: out * 2)
    assert same(weft.randn(4, 3)) and weft.counters.captures == captured + 2
    twin = copy.deepcopy(model)
    twin.scale = 5.0
    assert not weft.allclose(twin(weft.ones(1, 3)), model(weft.ones(1, 3))) and same(weft.ones(1, 3))
    assert list(model.state_dict()) == list(expected.state_dict())
    (model(weft.ones(1, 3)).sum() + expected(weft.ones(1, 3)).sum()).backward()
    for p, q in zip(model.parameters(), expected.parameters(), strict=True):
        weft.testing.assert_close(p.grad, q.grad)


def test_a_compiled_module_shows_the_signature_of_its_forward() -> None:
    model = Shifted()
    compiled = weft.compile(model)
    assert inspect.signature(compiled) == inspect.signature(model.forward)
    assert compiled._orig_mod is model and weft.compile(compiled)._orig_mod._orig_mod is model
    assert getattr(model, "_orig_mod", None) is None


def test_a_pickled_module_compiles_again() -> None:
    model = Shifted()
    model.compile(backend="interpret")
    x = weft.randn(4, 3)
    expected = model(x)
    assert weft.equal(pickle.loads(pickle.dumps(model))(x), expected)


def _follows(program: Callable[[Tensor], Tensor], *changes: Callable[[], Any]) -> None:
    compiled = weft.compile(program, backend="interpret")
    x = weft.randn(2, 3)
    for change in (lambda: None, *changes):
        change()
        assert weft.equal(compiled(x), program(x))
    assert len(compiled.misses) == len(changes), compiled.misses


def test_what_super_finds_is_guarded() -> None:
    model, kept = Deeper(), Scaled.forward
    try:
        _follows(
            lambda x: model(x),
            lambda: setattr(Scaled, "forward", lambda self, x: self.inner(x)),
            lambda: setattr(Between, "forward", lambda self, x: self.inner(x) * 7),
        )
    finally:
        Scaled.forward = kept  # type: ignore[method-assign]
        vars(Between).get("forward") and delattr(Between, "forward")


def test_keywords_of_a_partial_are_guarded() -> None:
    scaled = functools.partial(lambda x, k: x * k, k=3.0)
    _follows(lambda x: scaled(x), lambda: scaled.keywords.update(k=4.0))

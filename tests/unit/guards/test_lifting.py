"""Lifting: a number that changed gets a stand-in, the program reads it at run time from then on,
and its value never misses again."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from weft.guards import Kinds, NumberWrite, observe


class Symbol:
    """A stand-in for a number, as a compiler would have it: arithmetic makes text."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __add__(self, other: object) -> Symbol:
        return Symbol(f"({self.text} + {other!r})")

    def __rmul__(self, other: object) -> Symbol:
        return Symbol(f"({other!r} * {self.text})")

    def __repr__(self) -> str:
        return self.text


KINDS = {"symbols": (Symbol,)}
PLACES = {
    "global": ("v = 1.5\ndef f(x): return x * v", "v = new"),
    "cell": (
        (
            "def make(v):\n    def put(new):\n        nonlocal v\n        v = new\n    return (lambda x: x * v), put\n"
            "f, put = make(1.5)"
        ),
        "put(new)",
    ),
    "attribute": ("class C: pass\nc = C(); c.v = 1.5\ndef f(x): return x * c.v", "c.v = new"),
    "slot": ("class C: __slots__ = ('v',)\nc = C(); c.v = 1.5\ndef f(x): return x * c.v", "c.v = new"),
    "class attribute": ("class C: v = 1.5\nc = C()\ndef f(x): return x * c.v", "C.v = new"),
    "dict item": ("d = {'v': 1.5}\ndef f(x): return x * d['v']", "d['v'] = new"),
    "dict item by get": ("d = {'v': 1.5}\ndef f(x): return x * d.get('v')", "d['v'] = new"),
    "list item": ("d = [0, 1.5]\ndef f(x):\n    _, v = d\n    return x * v", "d[1] = new"),
    "frozen dataclass": (
        (
            "import dataclasses\n@dataclasses.dataclass(frozen=True)\nclass C: v: float = 1.5\nc = C()\n"
            "def f(x): return x * c.v"
        ),
        "object.__setattr__(c, 'v', new)",
    ),
    "validating attribute": (
        (
            "class C:\n    def __init__(self): self.__dict__['v'] = 1.5\n"
            "    def __setattr__(self, k, v): raise TypeError\nc = C()\ndef f(x): return x * c.v"
        ),
        "c.__dict__['v'] = new",
    ),
}


@pytest.mark.parametrize("name", PLACES)
def test_a_changed_number_misses_once(name: str, program: Any, number: Any) -> None:
    source, change = PLACES[name]
    module, kinds = program(source), Kinds(**KINDS)

    def put(value: object) -> None:
        module.new = value
        exec(change, module.__dict__)

    _, observation = observe(module.f, (2.0,), kinds=kinds)
    put(first := number())
    miss = observation.guards.first_miss()
    assert miss is not None and miss.is_number and (miss.old, miss.new) == (1.5, first)
    with observation.substitute([(miss.lift_target, Symbol("v"))]) as lifted:
        result, again = observe(module.f, (2.0,), kinds=kinds, substitution=lifted)
    assert repr(result) == "(2.0 * v)"
    assert module.f(2.0) == 2.0 * first
    assert again.guards.check(), again.guards.misses()
    assert [s.key for s in again.lifted] == [miss.lift_target.key] or "list" in name or "get" in name
    for _ in range(3):
        put(value := number())
        assert again.guards.check(), again.guards.misses()
        assert [get() for get in lifted.getters] == [value]
    put(np.float64(value))
    assert again.guards.check()
    assert type(lifted.getters[0]()) is float
    put(3)
    assert not again.guards.check() and again.guards.first_miss().is_number
    put("text")
    assert not again.guards.check() and not again.guards.first_miss().is_number


def test_a_counter_becomes_state(program: Any, rng: np.random.Generator) -> None:
    module, kinds = (
        program(
            "class C: pass\nc = C(); c.n = start\ndef f(x):\n    c.n = c.n + 1\n    return x * c.n",
            start=(start := int(rng.integers(100))),
        ),
        Kinds(**KINDS),
    )
    _, observation = observe(module.f, (2.0,), kinds=kinds)
    (write,) = observation.writes
    assert isinstance(write, NumberWrite) and (write.old, write.value) == (start, start + 1)
    observation.rollback()
    with observation.substitute([(write.target, Symbol("n"))]) as lifted:
        result, again = observe(module.f, (2.0,), kinds=kinds, substitution=lifted)
        (write,) = again.writes
        assert (write.old, repr(write.value), repr(result)) == (start, "(n + 1)", "(2.0 * (n + 1))")
    assert module.c.n == start
    for step in range(3):
        assert again.guards.check()
        write.target.put(lifted.getters[0]() + 1)
        assert module.c.n == start + step + 1


def test_several_numbers_at_once_and_an_error_in_between(program: Any, number: Any) -> None:
    module, kinds = (
        program("a = 1.5\nd = {'b': 2.5}\ndef f(x):\n    if x < 0: raise ValueError(x)\n    return x * a + d['b']"),
        Kinds(**KINDS),
    )
    _, observation = observe(module.f, (2.0,), kinds=kinds)
    module.a, module.d["b"] = a, b = number(), number()
    targets = [m.lift_target for m in observation.guards.misses()]
    assert len(targets) == 2
    with pytest.raises(ValueError), observation.substitute([(t, Symbol("s")) for t in targets]) as lifted:
        observe(module.f, (-1.0,), kinds=kinds, substitution=lifted)
    assert (module.a, module.d["b"]) == (a, b)
    assert observation.guards.misses()[0].new == a


def test_a_bool_is_not_lifted(program: Any) -> None:
    module = program("a = True\ndef f(x): return x * a")
    _, observation = observe(module.f, (2.0,))
    module.a = False
    miss = observation.guards.first_miss()
    assert miss is not None and not miss.is_number and miss.lift_target is None


def test_a_default_argument_is_not_lifted(program: Any, number: Any) -> None:
    module = program("def f(x, k=1.5): return x * k")
    _, observation = observe(module.f, (2.0,))
    module.f.__defaults__ = (number(),)
    miss = observation.guards.first_miss()
    assert miss is not None and miss.lift_target is None and miss.path == "default arguments of f"

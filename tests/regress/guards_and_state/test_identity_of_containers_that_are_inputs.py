"""`is` between containers whose tensors are inputs of a program, a call's arguments or what attributes hold, was
answered from the first call."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

import weft

State = SimpleNamespace
KINDS: dict[str, Callable[[Any], Any]] = {
    "list": lambda x: [x], "dict": lambda x: {"a": x}, "tuple": lambda x: (x, 1.0), "nested": lambda x: [[x], 2],
    "numbers": lambda x: [0.5, 2],
}
QUESTIONS: dict[str, Callable[[State], bool]] = {
    "is": lambda s: s.p is s.q, "is not": lambda s: s.p is not s.q, "id": lambda s: id(s.p) == id(s.q),
    "held": lambda s: s.p is s.kept, "of held": lambda s: s.p is s.outer["p"],
}


def first_of(held: Any) -> Any:
    while isinstance(held, (list, tuple, dict)):
        held = next(iter(held.values())) if isinstance(held, dict) else held[0]
    return held


@pytest.mark.parametrize("mode", [{}, {"split": True}, {"backend": "interpret"}])
@pytest.mark.parametrize("question", QUESTIONS)
@pytest.mark.parametrize("kind", KINDS)
def test_attributes(kind: str, question: str, mode: dict[str, Any]) -> None:
    state, make, ask = State(), KINDS[kind], QUESTIONS[question]

    def step(x: weft.Tensor) -> weft.Tensor:
        return x * (2 if ask(state) else 3) + first_of(state.p)

    compiled = weft.compile(step, **mode)
    state.kept = make(weft.ones(3))
    for i in (0, 1, 0, 2, 1, 1, 0):
        state.p = state.kept if i == 2 else make(weft.ones(3) * (i + 1))
        state.q = state.p if i else make(weft.ones(3))
        state.outer = {"p": state.p if i == 1 else make(weft.zeros(3))}
        assert compiled(weft.arange(3.0)).tolist() == step(weft.arange(3.0)).tolist()


@pytest.mark.parametrize("mode", [{}, {"split": True}, {"backend": "interpret"}])
@pytest.mark.parametrize("kind", KINDS)
def test_arguments(kind: str, mode: dict[str, Any]) -> None:
    state, make = State(), KINDS[kind]

    def step(x: weft.Tensor, p: Any, q: Any) -> weft.Tensor:
        return x * (2 if p is q else 3) * (5 if p is state.p else 7) + first_of(p)

    compiled = weft.compile(step, **mode)
    for i in (0, 1, 0, 2, 3, 3, 1):
        p = make(weft.ones(3) * (i + 1))
        q = p if i % 2 else make(weft.ones(3))
        state.p = p if i > 1 else make(weft.ones(3))
        expected = step(weft.arange(3.0), p, q)
        assert compiled(weft.arange(3.0), p, q).tolist() == expected.tolist()


def test_new_containers_need_no_capture() -> None:
    state = State()

    def step(x: weft.Tensor) -> weft.Tensor:
        return x * (2 if type(x) is weft.Tensor else 3) + (1 if state.p is state.q else 2) * state.p[0]

    compiled = weft.compile(step)
    for i in range(6):
        state.p, state.q = [weft.ones(3) * i], [weft.ones(3)]
        assert compiled(weft.ones(3)).tolist() == [2.0 + 2 * i] * 3
    assert len(compiled.entries) == 2


@pytest.mark.parametrize("mode", [{}, {"split": True}, {"backend": "interpret"}])
def test_a_container_within_one_that_is_kept(mode: dict[str, Any]) -> None:
    """The outer one had to be the very one (a list in it is assigned again), the inner one stayed an input."""
    state = State(pair=(weft.ones(2), weft.ones(2)), items=[weft.ones(2)])
    state.both = (state.pair, state.items)

    def step(x: weft.Tensor) -> weft.Tensor:
        out = x * state.pair[0] * (2 if state.both[0] is state.pair else 3)
        state.pair = (out, out)
        state.both = (state.pair, state.items)
        return out

    compiled = weft.compile(step, **mode)
    assert [compiled(weft.ones(2)).tolist() for _ in range(3)] == [[2.0, 2.0], [4.0, 4.0], [8.0, 8.0]]

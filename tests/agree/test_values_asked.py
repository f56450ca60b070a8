"""Split functions that ask tensors for values do what eager mode does, over six calls whose answers differ: results,
the object, errors, and the generator; and what is a whole program runs as one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import weft
from tests.agree.value_programs import ValueProgram, draw, state_of
from tests.agree.width import times
from tests.symbols_left import symbols_left

SIZES = (2, 3, 3, 5, 2, 3)


def outcome(step: Any, x: Any) -> Any:
    """What a call gives, or the kind of error that it raises."""
    try:
        return step(x)
    except Exception as error:
        return type(error)


def plain(value: Any) -> Any:
    """A result as NumPy and Python have it."""
    if isinstance(value, (tuple, list)):
        return type(value)(map(plain, value))
    return value.detach().numpy().copy() if isinstance(value, weft.Tensor) else value


def same(here: Any, there: Any, what: str) -> None:
    assert type(here) is type(there), (what, here, there)
    if isinstance(here, dict):
        assert here.keys() == there.keys(), (what, here, there)
        here, there = list(here.values()), list(there.values())
    if isinstance(here, (tuple, list)):
        assert len(here) == len(there), (what, here, there)
        for a, b in zip(here, there, strict=True):
            same(a, b, what)
    elif isinstance(here, (float, np.ndarray)):
        np.testing.assert_allclose(here, there, 1e-7, 1e-9, err_msg=what)
    else:
        assert here == there, (what, here, there)


def agree(program: ValueProgram, rng: np.random.Generator) -> bool:
    """Compare six calls. Whether all were whole programs."""
    eager, model = program.make(), program.make()
    step = weft.compile(model.step, split=True)
    for call, size in enumerate(SIZES):
        x, seed = rng.uniform(-1, 1, (size, 3)), int(rng.integers(1000))
        weft.manual_seed(seed)
        expected = plain(outcome(eager.step, weft.tensor(x)))
        place = weft.get_rng_state()
        weft.manual_seed(seed)
        result = outcome(step, weft.tensor(x))
        same(plain(result), expected, f"call {call}, the result")
        same(state_of(model), state_of(eager), f"call {call}, the object")
        assert weft.equal(weft.get_rng_state(), place), f"call {call}: the generator"
        assert not (left := symbols_left(model, result)), f"call {call}: {left}"
    return bool(step.is_whole)


def test_values_that_python_asks_for(rng: np.random.Generator) -> None:
    whole = 0
    for _ in range(times(25)):
        program = draw(rng)
        try:
            whole += agree(program, rng)
        except Exception as error:
            body = program.source.partition("def step")[2]
            raise AssertionError(f"{type(error).__name__}: {error}\n{body}") from error
    assert whole > times(8), f"{whole} of {times(25)} were whole programs"


@pytest.mark.parametrize("answers", [2, 5])
def test_a_program_for_each_answer(answers: int, rng: np.random.Generator) -> None:
    """Programs are captured for answers, not for calls; and each call runs one."""
    w = weft.ones(3, requires_grad=True)

    def step(x: Any) -> Any:
        v, count = (x * w).sum(), 0
        for bound in range(1, answers):
            if v > bound:
                count += 1
            else:
                break
        v.backward()
        gradient, w.grad = w.grad, None
        return count, gradient, v.item()

    compiled = weft.compile(step, split=True)
    before = weft.counters.captures
    for _ in range(8):
        for target in rng.permutation(answers):
            x = weft.tensor([target + 0.5, 0.0, 0.0])
            count, gradient, value = compiled(x)
            assert count == max(target, 0) and value == target + 0.5 and gradient.tolist() == x.tolist()
    assert compiled.is_whole and weft.counters.captures - before <= answers + 1

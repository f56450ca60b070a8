"""Frames: addresses, what is written into words when inputs change, what is kept alive; and the arena."""

from __future__ import annotations

import random

import numpy as np
import pytest

from weft.runtime.address import _by_interface, address_of
from weft.runtime.arena import ALIGNMENT, Arena
from weft.runtime.frame import Frame
from weft.runtime.segments import HEADER, Layout, NumberSlot, TensorSlot
from weft.support.counters import counters
from weft.support.errors import ValueProblem


def _layout(tensors=2, written=(), symbols=()):
    words = HEADER + tensors + 3 + len(symbols) + 8
    start = HEADER + tensors + 3
    params = (*(TensorSlot(i, "float32") for i in range(tensors)), NumberSlot(start + len(symbols), "float"),
              NumberSlot(start + len(symbols) + 1, "int"), NumberSlot(start + len(symbols) + 2, "bool"))
    return Layout(
        params, (), (), tensors + 3, words, symbols=symbols, given=len(symbols), symbol_word=start, written=written
    )


@pytest.mark.parametrize("array", [np.zeros(3), np.arange(9)[4:], np.ones((2, 3))[:, ::-1], np.empty(0), np.array(1.0)])
def test_address(array):
    assert address_of(array) == _by_interface(array)


def test_words_follow_the_inputs():
    layout = _layout()
    frame = Frame(layout)
    numbers = [random.random(), random.randint(-(2**62), 2**62), True]
    for _ in range(5):
        arrays = [np.zeros(random.randint(1, 9), np.float32) for _ in range(2)]
        frame.fill([*arrays, *numbers])
        assert [frame.words[HEADER + i] for i in range(2)] == [address_of(a) for a in arrays]
        assert [frame.read(slot) for slot in layout.params[2:]] == numbers
        numbers = [random.random(), -numbers[1], not numbers[2]]


def test_state_is_kept_and_passing_inputs_are_let_go():
    frame = Frame(_layout(written=(0,)))
    state = np.zeros(3, np.float32)
    for _ in range(3):
        frame.fill([state, np.zeros(3, np.float32), 1.0, 2, False])
        frame.release(())
    assert frame.held[0] is state and frame.held[1] is None


def test_wrong_inputs():
    frame = Frame(_layout())
    with pytest.raises(ValueProblem, match="takes 5 inputs, got 1"):
        frame.fill([1])
    with pytest.raises(ValueProblem, match="input 0 must be contiguous"):
        frame.fill([np.zeros(8, np.float32)[::2], np.zeros(3, np.float32), 1.0, 2, False])


def test_symbols():
    frame = Frame(_layout(symbols=("s0", "s1")))
    frame.bind((5, 7))
    start = frame.layout.symbol_word
    assert list(frame.words[start : start + 2]) == [5, 7] and frame.values == {"s0": 5, "s1": 7}
    with pytest.raises(ValueProblem, match="takes 2 symbols, got 1"):
        frame.bind((5,))


def test_arena_grows_only_and_is_aligned():
    arena = Arena()
    counters.reset()
    size = 0
    for wanted in [random.randint(1, 5000) for _ in range(20)]:
        moved = arena.reserve(wanted)
        assert moved == (wanted > size)
        size = max(size, wanted)
        assert arena.size == size == len(arena.memory) and arena.address % ALIGNMENT == 0
        arena.memory[wanted - 1] = 7
    view = arena.tensor(0, np.dtype(np.uint8), (size,), None)
    assert address_of(view) == arena.address
    assert counters.allocations >= 1

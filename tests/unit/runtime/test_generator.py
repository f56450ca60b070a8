"""Generators: keys, offsets, state."""

from __future__ import annotations

import itertools
import os
import random
import threading

import pytest

from weft.runtime.generator import Generator, default_generator, fork_rng, initial_seed, key_of_seed, manual_seed
from weft.types import dims

DRAW = random.Random(os.environ["WEFT_TEST_SEED"])  # conftest draws it: every process of a run collects the same tests


@pytest.mark.parametrize("seed", [0, 1, 2**64 - 1, -1, *(DRAW.getrandbits(64) for _ in range(50))])
def test_keys_have_irregular_digits(seed):
    digits = f"{key_of_seed(seed) % 2**64:016x}"
    for half in (digits[:8], digits[8:]):
        assert "0" not in half and len(set(half)) == 8
    assert int(digits[-1], 16) % 2 == 1


def test_neighbouring_seeds_have_unlike_keys():
    keys = [key_of_seed(s) % 2**64 for s in range(2000)]
    assert len(set(keys)) == 2000
    flipped = [bin(a ^ b).count("1") for a, b in itertools.pairwise(keys)]
    assert 24 < sum(flipped) / len(flipped) < 40


def test_advance_counts_elements_and_state_round_trips():
    g = Generator(seed=7)
    key, first = g.advance(10)
    assert (key, first) == (key_of_seed(7), 0)
    assert g.advance(0) == (key, 10) and g.advance(5) == (key, 10) and g.offset == 15
    state = g.get_state()
    g.advance(100)
    assert g.set_state(state).advance(1) == (key, 15)
    assert g.manual_seed(7).advance(3) == (key, 0)


def test_negative_seeds_are_taken_modulo_two_to_the_64():
    assert Generator(seed=-1).initial_seed() == 2**64 - 1


def test_offsets_may_be_symbolic():
    g = Generator(seed=1)
    n = dims.symbol("s0")
    g.advance(n * 4)
    assert g.advance(n)[1] == n * 4 and g.offset == n * 5


def test_default_generator_and_fork():
    with fork_rng():
        manual_seed(3)
        assert initial_seed() == 3
        default_generator.advance(2)
        with fork_rng():
            default_generator.advance(50)
        assert default_generator.offset == 2


def test_two_fresh_generators_differ():
    assert Generator().initial_seed() != Generator().initial_seed()


def test_threads_never_share_a_counter():
    g, seen = Generator(seed=1), []

    def work():
        seen.extend(g.advance(3)[1] for _ in range(500))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert sorted(seen) == list(range(0, 6000, 3))

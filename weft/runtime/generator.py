"""Random generators: a seed, the key made of it, and an offset that counts the numbers drawn so far.

A draw is a pure function of (key, counter), so a generator hands out ranges of counters and never makes a number itself. While a step
is captured, key and offset may be symbolic (dims.Expr): the program then takes them as inputs.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from weft.types.dims import Dim

_WORD = (1 << 64) - 1


def _mixed(state: int) -> int:
    """One step of splitmix64's output function: all 64 bits depend on all bits of the state."""
    state = (state ^ (state >> 30)) * 0xBF58476D1CE4E5B9 & _WORD
    state = (state ^ (state >> 27)) * 0x94D049BB133111EB & _WORD
    return state ^ (state >> 31)


def key_of_seed(seed: int) -> int:
    """The squares generator's key for a seed, as a signed 64-bit integer.

    Each half has eight different hexadecimal digits, none of them 0, and the last one is odd: the irregular keys that Widynski asks for
    ("Squares: a fast counter-based RNG", arXiv:2004.06278).
    """
    state = seed & _WORD

    def draw(count: int) -> int:
        nonlocal state
        state = (state + 0x9E3779B97F4A7C15) & _WORD
        return _mixed(state) % count

    def half(odd: bool) -> int:
        digits = list(range(1, 16))
        last = 2 * draw(8) + 1 if odd else digits[draw(15)]
        digits.remove(last)
        value = 0
        for _ in range(7):
            value = 16 * value + digits.pop(draw(len(digits)))
        return 16 * value + last

    key = half(odd=False) << 32 | half(odd=True)
    return key - (1 << 64) if key >> 63 else key


class Generator:
    """A stream of random numbers: seed, key and offset.

    Attributes:
        key: what the seed makes of every counter; symbolic during a capture.
        offset: the first counter that is not used yet; symbolic during a capture.
    """

    def __init__(self, device: object = "cpu", seed: int | None = None) -> None:
        self.device = device
        self._lock = threading.Lock()
        self._seed = 0
        self.key: Dim = 0
        self.offset: Dim = 0
        self.manual_seed(int.from_bytes(os.urandom(7), "little") if seed is None else seed)

    def manual_seed(self, seed: int) -> Generator:
        """Start the stream of `seed` (any integer, taken modulo 2**64) from its beginning."""
        with self._lock:
            self._seed = int(seed) & _WORD
            self.key, self.offset = key_of_seed(self._seed), 0
        return self

    def seed(self) -> int:
        """Start a stream that nobody can foresee; returns its seed."""
        self.manual_seed(int.from_bytes(os.urandom(7), "little"))
        return self._seed

    def initial_seed(self) -> int:
        """The seed of the current stream."""
        return self._seed

    def advance(self, numel: Dim) -> tuple[Dim, Dim]:
        """Take `numel` counters: (key, first counter)."""
        with self._lock:
            first = self.offset
            self.offset = first + numel
            return self.key, first

    def get_state(self) -> tuple[int, Dim]:
        """(seed, offset): all there is to know."""
        with self._lock:
            return self._seed, self.offset

    def set_state(self, state: tuple[int, Dim]) -> Generator:
        """Go to a state that `get_state` gave."""
        seed, offset = state
        with self._lock:
            self._seed = int(seed) & _WORD
            self.key, self.offset = key_of_seed(self._seed), offset
        return self

    def clone_state(self) -> Generator:
        """Another generator at the same place of the same stream."""
        twin = Generator(self.device, self._seed)
        twin.offset = self.offset
        return twin

    def __repr__(self) -> str:
        return f"Generator(seed={self._seed}, offset={self.offset})"


default_generator = Generator()


def manual_seed(seed: int) -> Generator:
    """Seed the default generator and return it."""
    return default_generator.manual_seed(seed)


def initial_seed() -> int:
    """The seed of the default generator's stream."""
    return default_generator.initial_seed()


def seed() -> int:
    """Seed the default generator from the system's randomness; returns the seed."""
    return default_generator.seed()


@contextmanager
def fork_rng(generator: Generator | None = None) -> Iterator[Generator]:
    """Draw within a block without moving the generator for what comes after it."""
    which = default_generator if generator is None else generator
    state = which.get_state()
    try:
        yield which
    finally:
        which.set_state(state)

"""Random generators: a seed, the key made of it, and an offset that counts the numbers drawn so far.

A draw is a pure function of (key, counter), so a generator hands out ranges of counters and never makes a number
itself. While a step is captured, key and offset are symbolic (dims.Expr): the program takes them as inputs.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from weft.support.errors import NoSuchDevice, StateError
from weft.types.dims import Dim
from weft.types.unbacked import alive, numbers_in

_WORD = (1 << 64) - 1
DEVICES = {"cpu"}  # types of devices whose random numbers are drawn from a generator of the CPU's
_STATE_BYTES = 16  # of the seed and the offset


def _mixed(state: int) -> int:
    """One step of splitmix64's output function: all 64 bits depend on all bits of the state."""
    state = (state ^ (state >> 30)) * 0xBF58476D1CE4E5B9 & _WORD
    state = (state ^ (state >> 27)) * 0x94D049BB133111EB & _WORD
    return state ^ (state >> 31)


def key_of_seed(seed: int) -> int:
    """The squares generator's key for a seed, as a signed 64-bit integer.

    Each half has eight different hexadecimal digits, none of them 0, and the last one is odd: the irregular keys
    that Widynski asks for ("Squares: a fast counter-based RNG", arXiv:2004.06278).
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


class Stream:
    """Where a generator stands: what its seed makes of every counter, and the first counter that is not used yet;
    symbols during a capture."""

    __slots__ = ("key", "offset", "seed")

    def __init__(self, seed: int, key: Dim, offset: Dim) -> None:
        self.seed, self.key, self.offset = seed, key, offset


class Captured(threading.local):
    """What a thread that captures a function takes for the stream of a generator from outside:
    the generators themselves are left alone meanwhile."""

    stream: Callable[[Generator], Stream] | None = None


captured = Captured()


class Generator:
    """A stream of random numbers: seed, key and offset.

    Attributes:
        stream: where it stands. While a function is captured, `key` and `offset` are those of the captured stream,
        which are symbols.
    """

    def __init__(self, device: object = "cpu", seed: int | None = None) -> None:
        if str(device).partition(":")[0] not in DEVICES:
            raise NoSuchDevice(f"Generator: device {str(device)!r}: weft computes on the CPU only; use device='cpu'")
        self.device = device
        self._lock = threading.Lock()
        # made by the captured function itself: the same at each of its calls
        self._is_inner = captured.stream is not None
        self.stream = _stream_of(_unforeseen() if seed is None else seed)

    def _here(self) -> Stream:
        take = captured.stream
        return self.stream if take is None or self._is_inner else take(self)

    @property
    def key(self) -> Dim:
        """What the seed makes of every counter."""
        return self._here().key

    @key.setter
    def key(self, key: Dim) -> None:
        self._here().key = key

    @property
    def offset(self) -> Dim:
        """The first counter that is not used yet."""
        return self._here().offset

    @offset.setter
    def offset(self, offset: Dim) -> None:
        self._here().offset = offset

    def manual_seed(self, seed: int) -> Generator:
        """Start the stream of `seed` (any integer, taken modulo 2**64) from its beginning."""
        return self._go_to(_stream_of(seed))

    def _go_to(self, place: Stream) -> Generator:
        with self._lock:
            here = self._here()
            here.seed, here.key, here.offset = place.seed, place.key, place.offset
        return self

    def seed(self) -> int:
        """Start a stream that nobody can foresee; returns its seed."""
        self.manual_seed(_unforeseen())
        return self._here().seed

    def initial_seed(self) -> int:
        """The seed of the current stream."""
        return self._here().seed

    def advance(self, numel: Dim) -> tuple[Dim, Dim]:
        """Take `numel` counters: (key, first counter)."""
        with self._lock:
            here = self._here()
            first = here.offset
            here.offset = first + (numbers_in(numel) if alive[0] else numel)
            return here.key, first

    def get_state(self) -> tuple[int, Dim]:
        """(seed, offset): all there is to know."""
        with self._lock:
            here = self._here()
            return here.seed, here.offset

    def set_state(self, state: Any) -> Generator:
        """Go to a state that `get_state` gave, or to one in the bytes of a tensor, as `weft.get_rng_state` gives it.
        Raises StateError."""
        seed, offset = _from_bytes(state) if hasattr(state, "tolist") else (int(state[0]) & _WORD, state[1])
        here = self._here()
        return self._go_to(Stream(seed, here.key if seed == here.seed else key_of_seed(seed), offset))

    def clone_state(self) -> Generator:
        """Another generator at the same place of the same stream."""
        here, twin = self._here(), Generator(self.device, 0)
        return twin._go_to(Stream(here.seed, here.key, here.offset))

    def __reduce__(self) -> tuple[Any, ...]:
        here = self._here()
        return _restored, (self.device, here.seed, here.offset)

    def __repr__(self) -> str:
        here = self._here()
        return f"Generator(seed={here.seed}, offset={here.offset})"


def _stream_of(seed: int) -> Stream:
    word = int(seed) & _WORD
    return Stream(word, key_of_seed(word), 0)


def _restored(device: object, seed: int, offset: Dim) -> Generator:
    return Generator(device, 0).set_state((seed, offset))


def _from_bytes(state: Any) -> tuple[int, int]:
    raw = bytes(state.tolist())
    if len(raw) != _STATE_BYTES:
        raise StateError(f"Generator.set_state: a state has {_STATE_BYTES} bytes, got {len(raw)}")
    return int.from_bytes(raw[:8], "little"), int.from_bytes(raw[8:], "little")


def _unforeseen() -> int:
    return int.from_bytes(os.urandom(7), "little")


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
def fork_rng(
    devices: object = None, enabled: bool = True, *, generator: Generator | None = None
) -> Iterator[Generator]:
    """Draw within a block without moving the generator for what comes after it, if enabled.
    devices: of no account, there is one."""
    which = default_generator if generator is None else generator
    state = which.get_state()
    try:
        yield which
    finally:
        if enabled:
            which.set_state(state)

"""Random generators: a seed, the key made of it, and an offset that counts the numbers drawn so far.

A draw is a pure function of (key, counter), so a generator hands out ranges of counters and never makes a number
itself. While a step is captured, key and offset are symbolic (dims.Expr): the program takes them as inputs.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, ClassVar

from weft.support.asides import put_aside_by
from weft.support.errors import ArgumentError, NoSuchDevice, StateError
from weft.types.dims import Dim
from weft.types.shape_env import current_env
from weft.types.sym import wrap
from weft.types.unbacked import alive, numbers_in

_WORD = (1 << 64) - 1
_DEVICES = ("cpu", "lazy")  # lazy tensors take numbers from generators of the CPU
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

    def take(self, numel: Dim) -> Dim:
        """The first of so many counters, which are used from now on."""
        first = self.offset
        self.offset = first + numel
        return first

    def state(self) -> Place:
        """Seed, key and offset: what `go_to` takes."""
        return self.seed, self.key, self.offset

    def go_to(self, seed: Any, key: Dim, offset: Any) -> None:
        """Stand elsewhere."""
        self.seed, self.key, self.offset = seed, key, offset


Place = tuple[Any, Any, Any]


class Captured(threading.local):
    """What a thread that captures a function takes for the stream of a generator from outside:
    the generators themselves are left alone meanwhile."""

    stream: Callable[[Generator], Stream] | None = None
    refuse: Callable[[str], Exception] | None = None  # the error for what a program cannot repeat, with the user's line
    state_of: Callable[[Any], Place] | None = None  # where a state leads that a captured function goes to
    traced: Callable[[str], None] | None = None  # is told of seeds and states, which a trace of draws does not say


captured = Captured()


@put_aside_by
@contextmanager
def _own_streams() -> Iterator[None]:
    """Within the block generators draw from their own streams."""
    state = dict(captured.__dict__)
    captured.__dict__.clear()
    try:
        yield
    finally:
        captured.__dict__.clear()
        captured.__dict__.update(state)


@contextmanager
def captured_by(
    stream: Callable[[Generator], Stream] | None, refuse: Callable[[str], Exception] | None = None,
    state_of: Callable[[Any], Place] | None = None,
) -> Iterator[None]:
    """Within the block, generators from outside have these streams; None: their own."""
    before = captured.stream, captured.refuse, captured.state_of
    captured.stream, captured.refuse, captured.state_of = stream, refuse, state_of
    try:
        yield
    finally:
        captured.stream, captured.refuse, captured.state_of = before


@contextmanager
def traced_by(tell: Callable[[str], None]) -> Iterator[None]:
    """Within the block, `tell` is told of what is done with generators besides drawing. It may raise."""
    before, captured.traced = captured.traced, tell
    try:
        yield
    finally:
        captured.traced = before


def _tell(what: str) -> None:
    if captured.traced is not None:
        captured.traced(what)


def unmoved() -> AbstractContextManager[None]:
    """Within the block, generators give their numbers, and stand afterwards where they stood."""
    before, copies = captured.stream, {}

    def stream(generator: Generator) -> Stream:
        if generator not in copies:
            copies[generator] = Stream(*(generator.stream if before is None else before(generator)).state())
        return copies[generator]

    return captured_by(stream, captured.refuse, captured.state_of)


class Generator:
    """A stream of random numbers: seed, key and offset.

    Attributes:
        stream: where it stands. While a function is captured, `key` and `offset` are those of the captured stream,
        which are symbols.
        is_inner: whether a captured function made it.
        as_device: makes a device, as tensors have one, of its name (weft/tensor/device.py).
        as_state: makes a tensor of where it stands (weft/tensor/generator_states.py).
    """

    as_device: ClassVar[Callable[[object], Any]] = staticmethod(str)
    as_state: ClassVar[Callable[[Generator], Any]]

    def __init__(self, device: object = "cpu", seed: int | None = None) -> None:
        if str(device).partition(":")[0] not in _DEVICES:
            raise NoSuchDevice(
                f"Generator: device {str(device)!r}: weft computes on the CPU only; use device='cpu' or 'lazy'"
            )
        self._device = device
        self._lock = threading.RLock()  # a signal handler may draw, too
        # made by the captured function itself: the same at each of its calls
        self.is_inner = captured.refuse is not None
        self._is_unforeseen = self.is_inner and seed is None
        self.stream = _stream_of(_unforeseen() if seed is None else seed)

    @property
    def device(self) -> Any:
        """The device that it was made for."""
        return Generator.as_device(self._device)

    def _here(self) -> Stream:
        take = captured.stream
        if take is None:
            return self.stream
        if self._is_unforeseen and captured.refuse is not None:
            raise captured.refuse(
                "a compiled function makes a weft.Generator() and draws from it without a seed: the numbers would be "
                "the same at each call. Seed it with manual_seed(n), or make it outside of the function"
            )
        return take(self)

    @property
    def key(self) -> Dim:
        """What the seed makes of every counter."""
        return self._here().key

    @property
    def offset(self) -> Any:
        """The first counter that is not used yet; a 0-dim tensor behind a captured branch or loop that draws."""
        offset, env = self._here().offset, current_env()
        return offset if env is None else wrap(offset, env)

    def manual_seed(self, seed: int) -> Generator:
        """Start the stream of `seed` (any integer, taken modulo 2**64) from its beginning."""
        _tell("seeds a generator")
        self._is_unforeseen = False
        return self._go_to(_stream_of(seed).state())

    def _go_to(self, place: Place) -> Generator:
        with self._lock:
            self._here().go_to(*place)
        return self

    def seed(self) -> int:
        """Start a stream that nobody can foresee; returns its seed."""
        _tell("seeds a generator")
        if captured.refuse is not None:
            raise captured.refuse(
                "a compiled function seeds a generator from the system's randomness: it would be the same seed at each "
                "call. Do so outside of the function, or use manual_seed(n)"
            )
        seed = _unforeseen()
        self.manual_seed(seed)
        return seed

    def initial_seed(self) -> int:
        """The seed of the current stream."""
        _tell("asks a generator for its seed or state")
        seed, env = self._here().seed, current_env()
        number: int = seed if env is None else wrap(seed, env)  # type: ignore[assignment]
        return number if number < 1 << 63 else int(number)  # a symbol in a program has 64 bits and a sign

    def advance(self, numel: Dim) -> tuple[Dim, Dim]:
        """Take `numel` counters: (key, first counter)."""
        with self._lock:
            here = self._here()
            return here.key, here.take(numbers_in(numel) if alive[0] else numel)

    def get_state(self) -> Any:
        """All there is to know, a tensor uint8 [16]: the seed and the offset, 8 bytes each, little end first."""
        return Generator.as_state(self)

    def set_state(self, state: Any) -> Generator:
        """Go to a state that `get_state` gave, or to a seed and an offset as two numbers. Raises StateError, TypeError;
        CaptureError in a compiled function, for a tensor that it has not asked a generator for itself."""
        _tell("puts a generator into a state")
        self._is_unforeseen = False
        if captured.state_of is not None:
            return self._go_to(captured.state_of(state))
        seed, offset = (int(state[0]) & _WORD, state[1]) if isinstance(state, tuple) else _from_bytes(state)
        here = self._here()
        return self._go_to((seed, here.key if seed == here.seed else key_of_seed(seed), offset))

    def place(self) -> Place:
        """Where it stands, for `return_to`: nothing of it is asked."""
        with self._lock:
            return self._here().state()

    def return_to(self, place: Place) -> None:
        """Go to where it stood."""
        self._go_to(place)

    def clone_state(self) -> Generator:
        """Another generator at the same place of the same stream."""
        twin = Generator(self._device, 0)
        return twin._go_to(self.place())

    def __reduce__(self) -> tuple[Any, ...]:
        here = self._here()
        return _restored, (str(self._device), here.seed, here.offset)

    def __repr__(self) -> str:
        here = self._here()
        return f"Generator(seed={here.seed}, offset={here.offset})"


def _stream_of(seed: int) -> Stream:
    word = int(seed) & _WORD
    return Stream(word, key_of_seed(word), 0)


def _restored(device: object, seed: int, offset: Dim) -> Generator:
    return Generator(device, 0).set_state((seed, offset))


def _from_bytes(state: Any) -> tuple[int, int]:
    if getattr(getattr(state, "dtype", None), "name", None) != "uint8":
        raise ArgumentError(f"Generator.set_state: a state is a uint8 tensor, got {type(state).__name__}")
    raw = bytes(state.flatten().tolist())
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
    _tell("forks a generator")
    which = default_generator if generator is None else generator
    place = which.place()
    try:
        yield which
    finally:
        if enabled:
            which.return_to(place)

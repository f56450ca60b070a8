"""weft.random: seeding, and the state of the default generator as a tensor of bytes."""

from __future__ import annotations

from weft.runtime.generator import Generator, default_generator, fork_rng, initial_seed, manual_seed, seed
from weft.support.errors import ArgumentError, StateError
from weft.tensor.generator_states import state_of
from weft.tensor.tensor import Tensor
from weft.types import dtype as dt

_STATE_BYTES = 16

__all__ = [
    "Generator", "default_generator", "fork_rng", "get_rng_state", "initial_seed", "manual_seed", "seed",
    "set_rng_state",
]


def get_rng_state() -> Tensor:
    """The default generator's state, uint8 [16]: its seed and its offset, 8 bytes each, little end first."""
    return state_of(default_generator)


def set_rng_state(new_state: Tensor | tuple[int, int]) -> None:
    """Put the default generator into a state that `get_rng_state` or a generator's `get_state` gave. A compiled
    function knows the states that it has asked for itself. Raises ArgumentError, StateError, CaptureError."""
    if not isinstance(new_state, tuple):
        if not isinstance(new_state, Tensor) or new_state.dtype is not dt.uint8:
            raise ArgumentError("set_rng_state: the state must be a uint8 tensor")
        if tuple(new_state.dims) != (_STATE_BYTES,):
            raise StateError(f"set_rng_state: a state has {_STATE_BYTES} bytes, got shape {list(new_state.dims)}")
    default_generator.set_state(new_state)

"""The state of a generator as a tensor of bytes, in a program too."""

from __future__ import annotations

import numpy as np

from weft.ops.packet import aten
from weft.runtime.generator import Generator
from weft.tensor.modes import below_interceptors, modes
from weft.tensor.tensor import Tensor, tensor_around
from weft.types import dtype as dt


def state_of(generator: Generator) -> Tensor:
    """Where a generator stands, uint8 [16]: its seed and its offset, 8 bytes each, little end first."""
    seed, offset = generator.initial_seed(), generator.offset
    capture = modes.capture
    if capture is None:
        return tensor_around(np.array((seed, offset), dtype="<u8").view(np.uint8))
    signed = seed if seed < 1 << 63 else seed - (1 << 64)
    with below_interceptors():
        words = [n if isinstance(n, Tensor) else aten.full((), n, dtype=dt.int64) for n in (signed, offset)]
        state: Tensor = aten.view(aten.stack(words), dt.uint8)
        capture.keep_random_state(state, generator.place())
    return state


Generator.as_state = staticmethod(state_of)

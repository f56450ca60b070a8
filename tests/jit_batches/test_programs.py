"""What programs do with tensors, for examples of different sizes: as a loop over the examples, gradients included."""

from __future__ import annotations

import numpy as np
import pytest

import weft
from tests.jit_batches.batches import agrees, batch_of, draw
from tests.jit_batches.programs import PROGRAMS
from weft.jit import BatchTensor, batch

COUNT = 4
# what runs at once though sizes differ: nothing in it goes example by example
AT_ONCE = (
    "linear", "layer_norm", "attention", "mask", "norm", "answers", "where", "clamp", "bmm", "outer", "prod", "lesser",
    "ints", "dtype", "strides", "full_like", "nograd",
)


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs(rng: np.random.Generator, name: str) -> None:
    dims = [(True, 4), (False, 3)]
    x = draw(rng, COUNT, *dims)
    i = [weft.from_numpy(rng.integers(0, min(3, e.shape[1]), (1, e.shape[1]))) for e in x]
    w = weft.from_numpy(rng.uniform(-1, 1, (3, 3))).requires_grad_()
    weft.counters.reset()
    function = PROGRAMS[name]
    agrees(rng, function, batch()(function), (x, batch_of(x, *dims)), w, (i, BatchTensor(i, [True])))
    assert weft.counters.vmap_loops == 0 or name not in AT_ONCE

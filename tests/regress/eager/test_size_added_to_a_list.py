"""A list takes a Size's entries, as it takes a tuple's; `list + Size` is a TypeError, as with a tuple."""

import operator

import numpy as np
import pytest

import weft


def test_a_list_takes_the_sizes(rng: np.random.Generator) -> None:
    shape = tuple(int(n) for n in rng.integers(1, 5, 3))
    sizes: list[int] = [7]
    sizes += weft.ones(shape).shape
    assert sizes == [7, *shape]
    with pytest.raises(TypeError, match="concatenate"):
        operator.add([7], weft.ones(shape).shape)


def test_within_a_program(rng: np.random.Generator) -> None:
    def flat(x: weft.Tensor) -> weft.Tensor:
        sizes = [1]
        sizes += x.shape
        return x.reshape(sizes) * len(sizes)

    step = weft.compile(flat)
    for _ in range(2):
        x = weft.from_numpy(rng.standard_normal(tuple(int(n) for n in rng.integers(1, 5, 2))))
        assert weft.equal(step(x), flat(x))

"""Which reshapes share memory: exactly those that some strides can show.
The oracle looks at the addresses of the elements."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import weft

Rng = np.random.Generator
Dims = tuple[int, ...]


def drawn(rng: Rng) -> weft.Tensor:
    """A tensor of a few dims, some of size 1 or 0, transposed, sliced, repeated."""
    dims = [int(d) for d in rng.choice([0, 1, 2, 3, 4], int(rng.integers(0, 5)), p=[0.04, 0.31, 0.3, 0.2, 0.15])]
    x = weft.arange(int(np.prod(dims)), dtype=weft.float32).reshape(dims)
    for _ in range(int(rng.integers(0, 3)) if dims else 0):
        d = int(rng.integers(x.ndim))
        x = [lambda x, d: x.transpose(0, d), lambda x, d: x[(slice(None),) * d + (slice(None, None, 2),)],
             lambda x, d: x.unsqueeze(d).expand(*x.shape[:d], 2, *x.shape[d:])][rng.integers(3)](x, d)
    return x


def other_dims(count: int, rng: Rng) -> Dims:
    """Dims of as many elements."""
    dims: list[int] = []
    if count == 0:
        return (0,) if rng.random() < 0.5 else (3, 0, 1)
    while count > 1 and rng.random() < 0.75:
        dims.append(int(rng.choice([d for d in range(1, count + 1) if count % d == 0])))
        count //= dims[-1]
    if count != 1:
        dims.append(count)
    for _ in range(int(rng.integers(0, 3))):
        dims.insert(int(rng.integers(len(dims) + 1)), 1)
    return tuple(dims)


def can_be_shown(x: weft.Tensor, dims: Dims) -> bool:
    """Whether the elements of x, in order, lie at evenly spaced places along every one of these dims."""
    places = sum(
        (i * s for i, s in zip(np.indices(x.shape), x.stride(), strict=True)), np.zeros(x.shape, np.int64)
    ).reshape(dims)
    steps = [
        places[(0,) * i + (1,) + (0,) * (len(dims) - i - 1)] - places.flat[0] if d > 1 else 0
        for i, d in enumerate(dims)
    ]
    evenly = sum((i * s for i, s in zip(np.indices(dims), steps, strict=True)), np.full(dims, places.flat[0]))
    return bool((places == evenly).all())


@pytest.mark.parametrize("_", range(4))
def test_reshape_shares_memory_where_strides_can_show_it(_: int, rng: Rng) -> None:
    shared = 0
    for _ in range(150):
        x = drawn(rng)
        dims = other_dims(x.numel(), rng)
        y = x.reshape(dims)
        assert tuple(y.shape) == dims
        assert y.tolist() == np.asarray(x.tolist(), np.float32).reshape(dims).tolist()
        if not x.numel():
            assert x.view(dims).shape == y.shape
            continue
        is_view = can_be_shown(x, dims)
        assert (
            (y.untyped_storage().data_ptr() == x.untyped_storage().data_ptr()) == is_view
        ), (x.shape, x.stride(), dims)
        shared += is_view
        if is_view:
            assert x.view(dims).data_ptr() == x.data_ptr()
        else:
            with pytest.raises(RuntimeError, match="view size"):
                x.view(dims)
    assert 10 < shared < 150


def test_flatten_ravel_and_contiguous_share_memory_alike(rng: Rng) -> None:
    for _ in range(100):
        x = drawn(rng)
        if not x.numel():
            continue
        flat = can_be_shown(x, (x.numel(),))
        for seen in (x.flatten(), x.reshape(-1)):
            assert (seen.data_ptr() == x.data_ptr()) == flat
        assert (x.contiguous() is x) == x.is_contiguous()
        assert x.is_contiguous() == all(
            s == step
            for (s, n), step in zip(zip(x.stride(), x.shape, strict=True), _row_major(tuple(x.shape)), strict=True)
            if n != 1
        )


def _row_major(dims: Dims) -> list[int]:
    return list(itertools.accumulate((1, *dims[:0:-1]), lambda a, b: a * b))[::-1] if dims else []

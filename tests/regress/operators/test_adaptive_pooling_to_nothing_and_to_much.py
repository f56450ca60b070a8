"""Adaptive pooling to no window, to a negative number of them, and to so many that nobody has the memory."""

import pytest

import weft
from weft.nn import functional as F


def pool(kind, rank):
    return getattr(F, f"adaptive_{kind}_pool{rank}d")


def image(rank, **options):
    return weft.rand(1, 2, *(4, 5, 6)[:rank], **options)


@pytest.mark.parametrize("kind", ["avg", "max"])
@pytest.mark.parametrize("rank, size", [
    (1, 0), (2, 0), (2, (0, 1)), (2, (2, 0)), (2, (None, 0)), (3, 0), (3, (0, 1, 1)), (3, (2, 2, 0)),
])
@pytest.mark.parametrize("ways", ["eager", "compiled"])
def test_no_window(kind, rank, size, ways):
    x = image(rank, requires_grad=True)

    def step(x):
        out = pool(kind, rank)(x, size)
        out.sum().backward()
        return out.detach()

    out = (weft.compile(step) if ways == "compiled" else step)(x)
    sizes = size if isinstance(size, tuple) else (size,) * rank
    assert tuple(out.shape[2:]) == tuple(n if s is None else s for s, n in zip(sizes, x.shape[2:], strict=True))
    assert x.grad is None or not x.grad.any()


@pytest.mark.parametrize("kind", ["avg", "max"])
@pytest.mark.parametrize("rank", [1, 2, 3])
def test_a_negative_number(kind, rank):
    with pytest.raises(RuntimeError, match="must not be negative"):
        pool(kind, rank)(image(rank), -1)


@pytest.mark.parametrize("kind", ["avg", "max"])
def test_more_than_there_is_memory_for(kind):
    with pytest.raises(RuntimeError):
        pool(kind, 1)(image(1), 0x3FFF_FFFF_FFFF_FFFF)


@pytest.mark.parametrize("size", range(1, 14))
@pytest.mark.parametrize("count", [2, 3, 4, 5, 6, 7, 9, 12, 20])
def test_windows_of_the_greatest_elements(size, count):
    x = weft.randperm(size).double()[None, None]
    out, places = F.adaptive_max_pool1d(x, count, return_indices=True)
    for i in range(count):
        begin, end = i * size // count, -(-(i + 1) * size // count)
        window = x[0, 0, begin:end]
        assert out[0, 0, i] == window.max() and places[0, 0, i] == begin + window.argmax()


def test_lengths_of_two_dims():
    with pytest.raises(RuntimeError, match="1-D"):
        weft.nn.utils.rnn.pack_padded_sequence(weft.rand(3, 2, 1), weft.ones(2, 1))

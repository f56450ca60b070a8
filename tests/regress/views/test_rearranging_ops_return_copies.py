"""Functions that put elements in another order give memory of their own, where nothing moves too."""

from __future__ import annotations

import pytest

import weft
import weft.nn.functional as F

CASES = {
    "pixel_shuffle": (lambda x: F.pixel_shuffle(x, 2), (1, 4, 1, 1)),
    "pixel_unshuffle": (lambda x: F.pixel_unshuffle(x, 2), (1, 1, 2, 2)),
    "pixel_shuffle by 1": (lambda x: F.pixel_shuffle(x, 1), (1, 4, 1, 1)),
    "channel_shuffle": (lambda x: F.channel_shuffle(x, 4), (1, 4, 1, 1)),
    "one group": (lambda x: F.channel_shuffle(x, 1), (1, 2, 1, 2)),
    "unfold": (lambda x: F.unfold(x, (1, 4)), (1, 1, 1, 4)),
    "unfold by 1": (lambda x: F.unfold(x, 1), (1, 1, 2, 2)),
}


@pytest.mark.parametrize("device", ["cpu", "lazy", "meta"])
@pytest.mark.parametrize("name", CASES)
def test_a_write_is_not_seen(name: str, device: str) -> None:
    function, dims = CASES[name]
    x = weft.arange(4.0, device=device).reshape(dims)
    made = function(x)
    assert made.is_contiguous()
    made.zero_()
    assert x._version == 0
    if device != "meta":
        assert x.flatten().tolist() == [0, 1, 2, 3]


def test_columns_lie_row_major() -> None:
    x = weft.arange(24.0).reshape(2, 3, 4).permute(2, 0, 1)[None]
    for device in ("cpu", "lazy", "meta"):
        assert F.unfold(x.to(device), 1).stride() == (24, 6, 1)

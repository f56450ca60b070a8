"""dropout1d of [c, l] and dropout3d of [c, d, h, w] drop whole channels, as with a batch."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import weft
import weft.nn.functional as F
from weft.support.errors import ShapeError

Drop = Callable[[weft.Tensor, float, bool], weft.Tensor]
# each: a function, how many dims a channel has, and how many lie in front of them
DROPS: dict[str, tuple[Drop, int, int]] = {
    "dropout1d [c, l]": (F.dropout1d, 1, 1), "dropout1d [n, c, l]": (F.dropout1d, 1, 2),
    "dropout2d [n, c, l]": (F.dropout2d, 1, 2), "dropout2d [n, c, h, w]": (F.dropout2d, 2, 2),
    "dropout3d [c, d, h, w]": (F.dropout3d, 3, 1), "dropout3d [n, c, d, h, w]": (F.dropout3d, 3, 2),
    "feature_alpha_dropout [n, c, l]": (F.feature_alpha_dropout, 1, 2),
}


@pytest.mark.parametrize("name", DROPS)
@pytest.mark.parametrize("is_compiled", [False, True])
def test_a_channel_stays_or_goes_as_a_whole(name: str, is_compiled: bool) -> None:
    drop, rank, before = DROPS[name]

    def train(x: weft.Tensor) -> weft.Tensor:
        return drop(x, 0.5, True)

    run = weft.compile(train) if is_compiled else train
    for seed, size in enumerate((3, 5, 4, 3)):
        weft.manual_seed(seed)
        x = weft.ones(*(6,) * before, *(size,) * rank)
        first = np.sort(run(x).numpy().reshape(6**before, -1), axis=1)
        assert (first[:, 0] == first[:, -1]).all()
        assert len(np.unique(first)) == 2


def test_what_has_no_channels_is_refused() -> None:
    for drop, x in ((F.dropout1d, weft.ones(3)), (F.dropout1d, weft.ones(2, 2, 2, 2)), (F.dropout2d, weft.ones(3)),
                    (F.dropout3d, weft.ones(())), (F.feature_alpha_dropout, weft.ones(3))):
        with pytest.raises(ShapeError, match="dropout"):
            drop(x, 0.5, True)

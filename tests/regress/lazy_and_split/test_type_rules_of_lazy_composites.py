"""A composite on a lazy tensor is asked for its type rule before it is opened: norms of integers were computed, where
eager mode refuses them."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import weft

STEPS: dict[str, Callable[[weft.Tensor], weft.Tensor]] = {
    "vector_norm": weft.linalg.vector_norm, "renorm": lambda x: x.renorm(2, 0, 1.0),
    "normalize": lambda x: weft.nn.functional.normalize(x, dim=0), "order": lambda x: weft.linalg.vector_norm(x, 1),
}


@pytest.mark.parametrize("name", STEPS)
def test_norms_of_integers_are_refused(name: str) -> None:
    texts = []
    for device in ("cpu", "lazy", "meta"):
        for dtype in (weft.int16, weft.float32, weft.int16):
            x = weft.ones(3, 3, dtype=dtype).to(device)
            if dtype is weft.float32:
                assert STEPS[name](x).dtype is dtype
                continue
            with pytest.raises(weft.WeftError) as error:
                STEPS[name](x).tolist()
            texts.append(str(error.value))
    assert len(set(texts)) == 1, texts

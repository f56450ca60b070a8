"""What samples for every entry found: maxima of bytes, copies into an unbatched tensor, tangents of ctc_loss,
and dropout that says it draws."""

from __future__ import annotations

import numpy as np
import pytest

import weft
from weft.func import jvp, vjp, vmap
from weft.nn import functional as F
from weft.ops.op import OPS
from weft.ops.packet import aten


def test_max_pool_of_bytes_pads_with_the_least_byte() -> None:
    x = weft.tensor([[[1, 0, 3, 4]]], dtype=weft.uint8)
    assert F.max_pool1d(x, 2, padding=1).tolist() == [[[1, 3, 4]]]


@pytest.mark.parametrize(
    "name,source", [("copy", weft.tensor([[1.0, 2.0], [3.0, 4.0]])), ("fill", weft.tensor([5.0, 6.0]))]
)
def test_an_unbatched_tensor_takes_a_batch_of_sources(name: str, source: weft.Tensor) -> None:
    base = weft.zeros(3, 2)
    got = vmap(lambda s: getattr(aten, name)(base, s))(source)
    assert got.shape == (2, 3, 2) and got[1, 0, 0] == source[1].reshape(-1)[0]


def test_the_tangent_of_ctc_loss_is_that_of_its_gradient() -> None:
    rng = np.random.default_rng(0)
    logits, v = (weft.from_numpy(rng.uniform(-1, 1, (4, 1, 3))) for _ in range(2))

    def loss(x: weft.Tensor) -> weft.Tensor:
        return F.ctc_loss(x.log_softmax(2), weft.tensor([[1, 2]]), (4,), (2,))

    value, pushed = jvp(loss, (logits,), (v,))
    [pulled] = vjp(loss, logits)[1](weft.ones_like(value))
    assert float(pushed) != 0 and float(pushed) == pytest.approx(float((pulled * v).sum()))


def test_dropout_says_that_it_draws() -> None:
    assert all(OPS[f"nn::dropout{n}"].effect == "random" for n in ("", "1d", "2d", "3d"))

"""Exported operators that ONNX has no node for: orders, counts and running values, for sizes that differ."""

from __future__ import annotations

import pytest

import weft
from tests.regress.onnx.test_onnx_dynamic_axes import check
from weft.nn import functional as F

FUNCTIONS = {
    "running": lambda x: (x.cumprod(1), *x.cummax(0), *x.cummin(1), x.logcumsumexp(0)),
    "ordered": lambda x: (*x.median(1), *x.kthvalue(2, 1), *x.median(0, keepdim=True)),
    "counted": lambda x: (x.round().unique(), x.argmax(1).bincount(None, 5)),
    "searched": lambda x: (
        weft.searchsorted(x.sort(1)[0], x), weft.bucketize(x, weft.tensor([-1.0, 0.0, 1.0]), right=True)
    ),
    "diagonals": lambda x: (x.diagonal(), x.diagonal(1), weft.diag(x, -1), weft.diag(x[:, 0])),
    "windows": lambda x: (x.unfold(0, 2, 1), x.unfold(1, 2, 2), F.unfold(x[None, None], 2)),
    "signs": lambda x: (weft.copysign(x, -x), weft.copysign(x, x * 0)),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_orders_and_counts(name):
    check(FUNCTIONS[name], {"x": {0: "rows"}}, (weft.randn(3, 4),), (weft.randn(6, 4),))


def test_greatest_of_an_image_of_any_size():
    axes = {"x": {0: "n", 2: "h", 3: "w"}}
    check(lambda x: F.adaptive_max_pool2d(x, 1), axes, (weft.randn(2, 3, 4, 4),), (weft.randn(1, 3, 5, 2),))
    with pytest.raises(weft.WeftError, match="differs from call to call"):
        check(lambda x: F.adaptive_max_pool2d(x, 2), axes, (weft.randn(2, 3, 4, 4),))


def test_a_size_of_one_is_a_size_like_others():
    """Of an example: what Python asks of it is answered for any number."""
    check(weft.nn.MultiheadAttention(8, 2).eval(), {n: {0: "t", 1: "b"} for n in ("query", "key", "value")},
          (weft.randn(1, 1, 8),) * 3, (weft.randn(3, 2, 8),) * 3)  # fmt: skip

"""inner repeated a single element, a negative output_padding was NumPy's error, and celu divided by zero in Python."""

from __future__ import annotations

import pytest

import weft
import weft.nn.functional as F


@pytest.mark.parametrize("wrap", [lambda f: f, weft.compile])
def test_inner_needs_equal_last_dims(wrap) -> None:
    inner = wrap(lambda a, b: weft.inner(a, b))
    with pytest.raises(RuntimeError, match="last dimension must match"):
        inner(weft.ones(2, 3), weft.ones(4, 1))
    with pytest.raises(RuntimeError, match="last dimension must match"):
        inner(weft.ones(1), weft.ones(3))
    assert inner(weft.ones(2, 3), weft.ones(4, 3)).tolist() == [[3.0] * 4] * 2


def test_output_padding_is_not_negative() -> None:
    with pytest.raises(RuntimeError, match="negative output_padding is not supported"):
        F.conv_transpose2d(weft.ones(1, 2, 2, 3), weft.ones(2, 1, 2, 2), output_padding=(0, -1))


def test_celu_by_zero() -> None:
    with pytest.raises(RuntimeError, match="alpha cannot be 0 for CELU"):
        F.celu(weft.ones(3), 0.0)

"""Questions about a size that the run finds and about sizes of the call (`2 * (c // 2) * u0 == c * u0`: group_norm over
`x[mask]`) were refused, although the sizes of the call alone decide them: they are guarded now."""

import numpy as np
import pytest

import weft


def rows(count: int, channels: int) -> weft.Tensor:
    return weft.from_numpy(np.random.default_rng(count * 31 + channels).standard_normal((count, channels)))


def test_group_norm_over_selected_rows() -> None:
    def normed(x: weft.Tensor) -> weft.Tensor:
        return weft.nn.functional.group_norm(x[x[:, 0] > 0], 2)

    step = weft.compile(normed)
    for count, channels in ((6, 4), (9, 4), (3, 4), (7, 6), (5, 8), (8, 4)):
        x, y = rows(count, channels), rows(count, channels)
        x.requires_grad_()
        y.requires_grad_()
        out, expected = step(x), normed(y)
        assert weft.allclose(out, expected)
        (out**3).sum().backward()
        (expected**3).sum().backward()
        assert x.grad is not None and y.grad is not None and weft.allclose(x.grad, y.grad)
    assert len(step.entries) <= 3, "sizes of rows are no other programs"


def test_halves_of_selected_rows() -> None:
    def halves(x: weft.Tensor) -> weft.Tensor:
        kept = x[x[:, 0] > 0]
        return kept.reshape(kept.shape[0] * (kept.shape[1] // 2), 2).sum(0)

    step = weft.compile(halves)
    for count, channels in ((6, 4), (9, 4), (7, 6), (3, 6)):
        x = rows(count, channels)
        assert weft.allclose(step(x), halves(x))


def test_what_the_found_size_decides_is_refused() -> None:
    def reshaped(x: weft.Tensor) -> weft.Tensor:
        kept = x[x[:, 0] > 0]
        return kept * 2 if kept.shape[0] * x.shape[1] > 8 else kept

    with pytest.raises(weft.errors.UnknownSize, match="a size that is only known while the program runs"):
        weft.compile(reshaped)(rows(6, 4))

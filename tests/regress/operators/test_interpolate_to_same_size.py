"""interpolate by a factor that leaves a size as it was (3 by 1.3) copies, in the linear modes and in nearest of
images."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import weft
import weft.nn.functional as F

MODES: dict[str, tuple[int, dict[str, Any]]] = {
    "linear": (1, {"scale_factor": 1.3, "mode": "linear"}),
    "bilinear": (2, {"scale_factor": (1.3, 1.2), "mode": "bilinear"}),
    "trilinear": (3, {"scale_factor": 1.3, "mode": "trilinear"}),
    "nearest of images": (2, {"scale_factor": 1.3}),
}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("is_compiled", [False, True])
def test_the_values_stay(mode: str, is_compiled: bool) -> None:
    rank, arguments = MODES[mode]

    def step(x: weft.Tensor) -> tuple[weft.Tensor, weft.Tensor]:
        y = F.interpolate(x, **arguments)
        return y, weft.autograd.grad((y * y).sum(), x)[0]

    run = weft.compile(step) if is_compiled else step
    for size in (3, 2, 3, 1):  # all of them are left as they are
        x = weft.arange(2.0 * size**rank).square().reshape(1, 2, *(size,) * rank).requires_grad_()
        y, slope = run(x)
        np.testing.assert_array_equal(y.detach(), x.detach())
        np.testing.assert_array_equal(slope, 2 * x.detach())


@pytest.mark.parametrize("is_compiled", [False, True])
def test_sizes_that_change_under_one_factor(is_compiled: bool) -> None:
    def resized(x: weft.Tensor) -> weft.Tensor:
        return F.interpolate(x, scale_factor=1.3, mode="linear")

    run = weft.compile(resized) if is_compiled else resized
    for size in (3, 5, 4, 3):  # 3 stays; 5 becomes 6, 4 becomes 5
        x = weft.arange(float(size)).square().reshape(1, 1, size)
        places = np.arange(size) if size == 3 else np.maximum((np.arange(size + 1) + 0.5) / 1.3 - 0.5, 0)
        want = np.interp(places, np.arange(size), x.numpy().ravel())
        np.testing.assert_allclose(run(x).numpy().ravel(), want, rtol=1e-5)


def test_a_doubled_size_of_images_is_doubled_exactly() -> None:
    x = weft.tensor([1.0, 4.0, 9.0]).reshape(1, 1, 3, 1)
    assert F.interpolate(x, scale_factor=(2.3, 1.0)).flatten().tolist() == [1, 1, 4, 4, 9, 9]
    line = F.interpolate(x.flatten(2), scale_factor=2.3)  # of lines it is not, as in PyTorch
    assert line.flatten().tolist() == [1, 1, 1, 4, 4, 9]

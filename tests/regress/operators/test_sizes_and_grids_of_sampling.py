"""Sizes of `interpolate` that are no integers are refused by type, a tensor of one integer is a size; and a grid of
nearest samples has the gradient zero, not none."""

import pytest

import weft
from weft.nn import functional as F


@pytest.mark.parametrize("size", [3.0, (3.0, 3), "a", True, weft.tensor(3.0), (weft.tensor(3.0),) * 2])
def test_sizes_that_are_no_integers(size):
    with pytest.raises(TypeError, match="expected size to be one of int"):
        F.interpolate(weft.ones(1, 1, 2, 2), size=size)


@pytest.mark.parametrize("size", [weft.tensor(3), (weft.tensor(3), weft.tensor(3)), (3, weft.tensor(3))])
@pytest.mark.parametrize("mode", ["nearest", "bilinear", "area"])
def test_sizes_that_are_tensors(size, mode):
    assert F.interpolate(weft.ones(1, 1, 2, 2), size=size, mode=mode).tolist() == [[[[1.0] * 3] * 3]]


@pytest.mark.parametrize("rank", [2, 3])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("image_wants", [False, True])
@pytest.mark.parametrize("ways", ["eager", "compiled"])
def test_grid_of_nearest_samples(rank, padding, image_wants, ways):
    image = weft.rand(2, 3, *(5, 4, 3)[:rank], requires_grad=image_wants)
    places = weft.rand(2, *(2, 3, 2)[:rank], rank) * 3 - 1.5
    places.view(-1)[0], places.view(-1)[1] = float("inf"), float("nan")
    expected = F.grid_sample(image.detach(), places, "nearest", padding, align_corners=False)
    grid = places.requires_grad_()

    def step(image, grid):
        out = F.grid_sample(image, grid, "nearest", padding, align_corners=False)
        out.sum().backward()
        return out.detach()

    out = (weft.compile(step) if ways == "compiled" else step)(image, grid)
    assert out.tolist() == expected.tolist()
    assert grid.grad is not None and grid.grad.abs().max() == 0
    assert (image.grad is not None) == image_wants


def test_grad_by_its_other_name():
    x = weft.ones(2, requires_grad=True)
    x._grad = weft.full((2,), 3.0)
    assert x.grad.tolist() == x._grad.tolist() == [3.0, 3.0]
    x._grad = None
    assert x.grad is None

"""Arguments that PyTorch refuses by type, or takes with a warning; and groups of nothing."""

import pytest

import weft
from weft.nn import functional as F


@pytest.mark.parametrize("shape", [2.0, (2, 2.0), "2", (2, "2"), None, (2, None), weft.tensor([2.0]), [[2, 2]]])
def test_shapes_to_unravel_by(shape):
    with pytest.raises(TypeError, match="'shape' to be int or sequence of ints"):
        weft.unravel_index(weft.tensor([1]), shape)


def test_one_output_for_several_results():
    with pytest.raises(TypeError, match="out="):
        weft.sort(weft.rand(3), out=weft.empty(3))
    with pytest.raises(TypeError, match="out="):
        weft.nonzero(weft.ones(3), as_tuple=True, out=weft.empty(0, dtype=weft.int64))


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_bags_by_the_older_order(mode):
    rows, places, offsets = weft.rand(5, 3), weft.tensor([0, 4, 2, 2]), weft.tensor([0, 3])
    with pytest.warns(UserWarning, match="order"):
        older = F.embedding_bag(rows, places, offsets, mode=mode)
    assert older.tolist() == F.embedding_bag(places, rows, offsets, mode=mode).tolist()


@pytest.mark.parametrize("device", ["cpu", "lazy"])
@pytest.mark.parametrize("n, c, inner", [(0, 2, ()), (0, 4, (3,)), (2, 4, (0,)), (3, 4, (2, 2))])
def test_groups_of_nothing(device, n, c, inner):
    x = weft.rand(n, c, *inner).to(device)
    count = 1
    for size in inner:
        count *= size
    out, mean, scale = weft.native_group_norm(x, None, None, n, c, count, 2, 1e-5)
    assert out.shape == x.shape and mean.shape == scale.shape == (n, 2)

"""Indexing syntax against NumPy: values, gradients, assignment, errors."""

from __future__ import annotations

import numpy as np
import pytest

import weft


def random_index(rng, shape):
    """An index that NumPy and weft read alike (NumPy moves dims when ints and arrays mix, so ints come with
    basic indices only)."""
    index, advanced = [], bool(rng.integers(2))
    for size in shape[: rng.integers(0, len(shape) + 1)]:
        kind = rng.integers(5)
        if kind == 0 and not advanced:
            index.append(int(rng.integers(-size, size)))
        elif kind == 1 and advanced:
            index.append(np.asarray(rng.integers(-size, size, 3)))
        elif kind == 2 and advanced:
            mask = np.zeros(size, bool)
            mask[rng.choice(size, 3)] = True
            index.append(mask if mask.sum() == 3 else slice(None))
        elif kind == 3:
            index.append(
                slice(int(rng.integers(-size - 1, size)), int(rng.integers(-size, size + 2)), int(rng.integers(1, 3)))
            )
        else:
            index.append(slice(None))
        if rng.integers(6) == 0 and not advanced:
            index.append(None)
    if rng.integers(4) == 0 and not advanced:
        index.append(Ellipsis)
    return tuple(index)


def as_weft(index):
    return tuple(weft.from_numpy(i.copy()) if isinstance(i, np.ndarray) else i for i in index)


def test_reading_and_writing_agree_with_numpy(rng):
    for _ in range(150):
        shape = tuple(int(d) for d in rng.integers(3, 6, rng.integers(1, 4)))
        x = rng.normal(size=shape)
        index = random_index(rng, shape)
        t = weft.tensor(x, dtype=weft.float64, requires_grad=True)
        got = t[as_weft(index)]
        np.testing.assert_array_equal(got.detach().numpy(), x[index])
        weights = rng.normal(size=x[index].shape)
        (got * weft.tensor(weights, dtype=weft.float64)).sum().backward()
        expected = np.zeros(shape)
        np.add.at(expected, index, weights)
        np.testing.assert_allclose(t.grad.numpy(), expected, atol=1e-12)
        written = weft.tensor(x, dtype=weft.float64)
        written[as_weft(index)] = 2.5
        x[index] = 2.5
        np.testing.assert_array_equal(written.numpy(), x)


def test_masks_lists_numbers_and_booleans():
    x = weft.arange(12).reshape(3, 4)
    assert x[x > 8].tolist() == [9, 10, 11]
    assert x[[0, 2]].tolist() == [[0, 1, 2, 3], [8, 9, 10, 11]]
    assert x[[0, 2], [1, 3]].tolist() == [1, 11]
    assert x[np.int64(1), np.array(2)].item() == 6
    assert tuple(x[True].shape) == (1, 3, 4) and tuple(x[False].shape) == (0, 3, 4)
    assert tuple(x[weft.tensor([0, 1]), None, weft.tensor([2, 3])].shape) == (2, 1)
    assert x[weft.tensor(1)].tolist() == [4, 5, 6, 7]
    mask = weft.tensor(np.eye(3, 4, dtype=bool))
    assert x[mask].tolist() == [0, 5, 10]


def test_a_mask_over_two_dims_leaves_the_third():
    x = weft.arange(24).reshape(2, 3, 4)
    mask = weft.tensor([[True, False, True], [False, False, True]])
    expected = np.arange(24).reshape(2, 3, 4)[mask.numpy()]
    assert x[mask].tolist() == expected.tolist()
    assert x[mask, 1:3].tolist() == expected[:, 1:3].tolist()


def test_basic_indices_are_views():
    x = weft.zeros(3, 4)
    x[1].fill_(1)
    x[:, 0:2].add_(1)
    x[...].mul_(2)
    assert x.tolist() == [[2, 2, 0, 0], [4, 4, 2, 2], [2, 2, 0, 0]]


@pytest.mark.parametrize("index,kind,text", [
    (5, IndexError, "index 5 is out of bounds for dimension 0 with size 3"),
    ((slice(None), -5), IndexError, "index -5 is out of bounds for dimension 1 with size 4"),
    ((0, 0, 0), IndexError, "too many indices for tensor of dimension 2"),
    (slice(None, None, -1), ValueError, "step must be greater than zero"),
    (1.5, IndexError, r"only integers, slices .* are valid indices \(got float\)"),
])
def test_errors(index, kind, text):
    with pytest.raises(kind, match=text):
        weft.zeros(3, 4)[index]


def test_errors_of_tensor_indices():
    x = weft.zeros(3, 4)
    with pytest.raises(IndexError, match="index 7 is out of bounds for dimension 0 with size 3"):
        x[weft.tensor([0, 7])]
    with pytest.raises(IndexError, match="The shape of the mask"):
        x[weft.tensor([True, False])]
    with pytest.raises(IndexError, match="could not be broadcast together"):
        x[weft.tensor([0, 1]), weft.tensor([0, 1, 2])]
    with pytest.raises(IndexError, match="0-dim tensor"):
        weft.tensor(1.0)[0]
    with pytest.raises(RuntimeError, match="shape mismatch: value tensor"):
        x[weft.tensor([0, 1])] = weft.zeros(5)

"""Lazy programs that once went wrong, as random programs over aliases shrank them."""

from __future__ import annotations

import numpy as np
import pytest

import weft
from weft import lazy


@pytest.fixture(autouse=True)
def nothing_traced():
    lazy.reset()
    yield
    lazy.reset()


def test_a_call_that_gives_its_operand_back_may_bring_calls_again(rng):
    """Naming its operand appends what had been cut off; the inputs of those calls stay named."""
    array = rng.integers(-4, 5, 4).astype(np.float64)
    x = weft.tensor(array, device="lazy")
    whole = x[...]
    part = whole.split([3, 1], 0)[1]
    lazy.mark_step()
    x.add_(1)
    lazy.mark_step()
    x.index_fill_(0, weft.tensor([0], device="lazy"), 1)
    whole.addcmul_(whole, whole, value=0.5)
    part.copy_(part)
    lazy.mark_step()
    part.zero_()
    lazy.mark_step()
    array += 1
    array[0] = 1
    array += array * array / 2
    array[3] = 0
    np.testing.assert_array_equal(x.cpu().numpy(), array)


@pytest.mark.parametrize("ends", [False, True])
def test_memory_of_a_result_in_another_order(ends, rng):
    """as_strided of a result whose dims are not row-major, read without a program."""
    array = rng.integers(-4, 5, (6, 3)).astype(np.int32)
    y = weft.tensor(array, device="lazy").transpose(0, 1) * 2
    if ends:
        lazy.mark_step()
    v = y.detach().as_strided((2,), (2,), 6)
    np.testing.assert_array_equal(v.cpu().numpy(), 2 * array.reshape(-1)[[6, 8]])
    np.testing.assert_array_equal(y.as_strided((18,), (1,), 0).cpu().numpy(), 2 * array.reshape(-1))


@pytest.mark.parametrize("backend", ["llvm", "numpy", "interpret"])
def test_a_cumulative_sum_begins_with_its_first_element(backend):
    """-0.0 stays -0.0, as its bits show."""
    x = weft.tensor([[-0.0, -0.0], [-0.0, 1.0]])
    out = weft.compile(lambda x: x.cumsum(0), backend=backend)(x)
    np.testing.assert_array_equal(np.signbit(out.numpy()), np.signbit(x.cumsum(0).numpy()))


def test_two_storages_that_had_one_value_do_not_share_its_memory(rng):
    """A copy is the same value; only one of its holders may be overwritten by what comes next."""
    array = rng.standard_normal((3, 4)).astype(np.float32)
    x = weft.tensor(array, device="lazy")
    x.cumsum_(0)
    y = x * 2
    y[...] = x
    lazy.mark_step()
    x -= 3
    y.zero_()
    lazy.mark_step()
    np.testing.assert_allclose(x.cpu().numpy(), array.cumsum(0) - 3, rtol=1e-5, atol=1e-5)
    assert not y.cpu().numpy().any()


MODES = {
    "eager": lambda f: f, "functionalize": weft.func.functionalize, "compile": weft.compile,
    "interpret": lambda f: weft.compile(f, backend="interpret"), "lazy": lambda f: f,
}


@pytest.mark.parametrize("mode", MODES)
def test_elements_left_over_by_a_larger_dtype(mode):
    """A write to windows seen as complex numbers, over memory of an odd number of elements."""

    def write(x):
        windows = x.unfold(0, 2, 2).squeeze(0)
        weft.view_as_complex(windows).fill_(2 + 1j)
        return x

    x = weft.zeros(3, device="lazy" if mode == "lazy" else "cpu")
    np.testing.assert_array_equal(MODES[mode](write)(x).cpu().numpy(), [2, 1, 0])


@pytest.mark.parametrize("mode", MODES)
def test_rows_that_nothing_is_added_to_keep_their_sign(mode):
    x = weft.tensor([[-0.0, 1.0], [-0.0, -0.0]], device="lazy" if mode == "lazy" else "cpu")
    index, rows = weft.tensor([0, 0], device=x.device), weft.ones(2, 2, device=x.device)
    out = MODES[mode](lambda x, i, r: x.index_add(0, i, r))(x, index, rows)
    np.testing.assert_array_equal(np.signbit(out.cpu().numpy()), [[False, False], [True, True]])


@pytest.mark.parametrize("mode", MODES)
def test_a_part_beyond_an_empty_memory(mode):
    """A view of no elements whose offset lies behind the end, read as another dtype."""
    x = weft.zeros(0, 3, 4, dtype=weft.float64, device="lazy" if mode == "lazy" else "cpu")

    def read(x):
        return x.unsqueeze(0).split(1, 3)[2].view(weft.int64) + 1

    assert MODES[mode](read)(x).shape == (1, 0, 3, 1)


@pytest.mark.parametrize("device", ["cpu", "lazy"])
def test_resize_counts_bytes(device):
    """A view of another dtype has as many bytes as its base, not as many elements."""
    x = weft.tensor([1 + 2j, 3 + 4j], device=device)
    parts = weft.view_as_real(x).expand(2, 2, 2)
    parts.resize_(4)
    assert parts.tolist() == [1, 2, 3, 4]


@pytest.mark.parametrize("mode", MODES)
def test_memory_behind_a_write_to_all_of_it(mode):
    """as_strided reads the memory of a base that was written through a permuted view."""
    base = weft.arange(24, device="lazy" if mode == "lazy" else "cpu").reshape(2, 3, 4)
    lazy.mark_step()

    def write(base):
        base.transpose(0, 1).unflatten(0, (3, 1)).add_(100)
        return base.as_strided((5,), (3,)) * 1

    np.testing.assert_array_equal(MODES[mode](write)(base).cpu().numpy(), np.arange(0, 15, 3) + 100)


@pytest.mark.parametrize("backend", ["interpret", "numpy", "llvm"])
def test_a_view_of_a_value_that_lies_otherwise(backend):
    """What a program computes of transposed memory is a row-major value, also where NumPy keeps the strides."""

    def step(a, b):
        flat = a.squeeze(2).view(-1)
        a.copy_(-b[-2:])
        return flat * 1

    x = weft.arange(4.0).reshape(2, 2, 1)
    out = weft.compile(step, backend=backend)(x, x.transpose(0, 1))
    np.testing.assert_array_equal(out.numpy(), [0, -2, -1, -3])


def test_bits_of_a_lazy_value_that_lies_otherwise():
    """To the user a column is dense; the value that stands for it is row-major."""
    array = np.arange(24, dtype=np.int32).reshape(6, 4)
    y = weft.tensor(array, device="lazy").transpose(0, 1) * 2
    lazy.mark_step()
    shown = y.select(1, -3).view(weft.int16)
    np.testing.assert_array_equal(shown.cpu().numpy(), (2 * array[-3]).view(np.int16))


def test_index_add_keeps_the_signs_of_complex_zeros():
    x = weft.tensor([1 + 0j, complex(-0.0, -0.0)])
    index, rows = weft.tensor([0]), weft.tensor([1 + 0j])
    for function in (lambda x: x.index_add(0, index, rows), weft.compile(lambda x: x.index_add(0, index, rows))):
        assert str(weft.view_as_real(function(x)).tolist()) == "[[2.0, 0.0], [-0.0, -0.0]]"

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

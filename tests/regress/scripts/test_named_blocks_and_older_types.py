"""`record_function` names a block of a scripted program, and the older names of tensor types mean tensors."""

import pytest

import weft
from weft import Tensor
from weft.profiler import record_function


def within(x: Tensor, n: int) -> Tensor:
    for i in range(n):
        with record_function("outer"), weft.no_grad(), weft.autograd.profiler.record_function(f"step {i}"):
            if i == 2:
                return x
            x = x * 2
    return x


def decorated(x: weft.FloatTensor, y: weft.LongTensor) -> weft.FloatTensor:
    return x + y


@pytest.mark.parametrize("n", [0, 1, 2, 5])
def test_named_blocks(n):
    scripted = weft.jit.script(within)
    assert scripted(weft.ones(2), n).tolist() == within(weft.ones(2), n).tolist()


def test_a_named_block_gives_nothing_to_a_name():
    def f(x: Tensor) -> Tensor:
        with record_function("a") as block:  # noqa: F841
            return x

    with pytest.raises(RuntimeError, match="record_function"):
        weft.jit.script(f)


def test_older_types():
    scripted = weft.jit.script(decorated)
    assert scripted(weft.ones(2), weft.tensor([1, 2])).tolist() == [2.0, 3.0]
    assert scripted(weft.ones(2, dtype=weft.float64), weft.ones(2)).dtype == weft.float64

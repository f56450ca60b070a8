"""A formula whose gradient does not fit its tensor is refused alike by the engine and by compiled autograd."""

import pytest

import weft
from weft import compiled_autograd as ca


@pytest.mark.parametrize("compiler", [None, ca.interpret, weft.compile], ids=["engine", "interpret", "native"])
def test_a_source_that_is_larger_than_its_index(compiler):
    x, src = weft.zeros(4, 3, requires_grad=True), weft.randn(4, 3, requires_grad=True)
    y = x.scatter(0, weft.tensor([[0, 1, 2], [1, 0, 3]]), src).sum()
    with pytest.raises(RuntimeError, match=r"invalid gradient.* - got .* but expected shape compatible with"):
        if compiler is None:
            y.backward()
        else:
            with ca.enable(compiler):
                y.backward()

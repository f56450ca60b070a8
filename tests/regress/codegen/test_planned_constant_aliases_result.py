"""What an operator gives is the caller's own, also where its body is a constant that the operator's plan keeps."""

from __future__ import annotations

import pytest

import weft
from weft.func import functionalize


@pytest.mark.parametrize("dims", [(), (1,), (2, 3)])
@pytest.mark.parametrize("dtype", ["float32", "int64", "bool", "complex64"])
def test_zeros_are_not_shared(dims, dtype):
    def zeroed(x):
        y = x * 1
        y.zero_()
        return y

    for call in (zeroed, functionalize(zeroed)):
        for _ in range(3):
            out = call(weft.ones(dims, dtype=getattr(weft, dtype)))
            assert not out.ne(0).any()
            out.fill_(1)

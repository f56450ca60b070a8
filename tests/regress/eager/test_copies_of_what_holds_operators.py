"""An operator is one object: copies of Modules and containers that hold it hold the same."""

import copy
from functools import partial

import pytest

import weft
from weft import nn


@weft.library.custom_op("test_copies::times", mutates_args=())
def times(x: weft.Tensor, n: int) -> weft.Tensor:
    return x * n


OPERATORS = {
    "packet": weft.ops.aten.add, "overload": weft.ops.aten.add.Tensor, "in-place": weft.ops.aten.add_.Tensor,
    "user's packet": weft.ops.test_copies.times, "user's overload": weft.ops.test_copies.times.default,
    "user's definition": times, "function": weft.add,
}


@pytest.mark.parametrize("name", OPERATORS)
def test_an_operator_is_its_copy(name):
    operator = OPERATORS[name]
    assert copy.deepcopy(operator) is operator and copy.copy(operator) is operator
    assert copy.deepcopy({"a": [operator]})["a"][0] is operator


def test_a_module_that_holds_operators():
    class Scaled(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(weft.rand(3))
            self.act, self.scale, self.plain = weft.ops.aten.relu, partial(times, n=3), weft.ops.test_copies.times

        def forward(self, x):
            return self.plain(self.scale(self.act(x * self.weight)), 2)

    model = Scaled()
    other = copy.deepcopy(model)
    x = weft.rand(2, 3) - 0.5
    assert other.weight is not model.weight and other.act is model.act
    assert weft.equal(other(x), model(x))

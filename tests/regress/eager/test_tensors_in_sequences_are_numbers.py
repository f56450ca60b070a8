"""A tensor of one element within a sequence is a number, whatever its rank; more of them are refused. `x.type(Tensor)`
is x in the default dtype.

Found by latent_ode's run_models.py (`torch.Tensor([torch.Tensor([0.01])])`, then `.repeat(n)`) and by pyro's
eight_schools (`torch.tensor([28, 8]).type(torch.Tensor)`).
"""

from __future__ import annotations

import numpy as np
import pytest

import weft


@pytest.mark.parametrize("rank", [0, 1, 3])
@pytest.mark.parametrize("make", [weft.tensor, weft.as_tensor, weft.Tensor, weft.FloatTensor])
def test_a_tensor_of_one_element(rank: int, make: object) -> None:
    one = weft.full((1,) * rank, 0.5)
    assert callable(make)
    assert make([one]).tolist() == [0.5]
    assert make([one, 2.0]).tolist() == [0.5, 2.0]
    assert make([[one], [one]]).tolist() == [[0.5], [0.5]]
    assert make([one]).repeat(3).shape == (3,)


def test_integers() -> None:
    assert weft.LongTensor([[weft.tensor([3]), weft.tensor(4)]]).tolist() == [[3, 4]]
    assert weft.tensor([weft.tensor([3]), 4]).dtype is weft.int64


def test_tensors_of_more_elements_are_refused() -> None:
    for size in ((2,), (0,), (1, 2)):
        with pytest.raises(ValueError, match="only one element tensors can be converted to Python scalars"):
            weft.tensor([weft.zeros(size), weft.zeros(size)])
    assert weft.tensor([np.zeros(2), np.ones(2)]).tolist() == [[0.0, 0.0], [1.0, 1.0]]


def test_type_of_the_default_dtype() -> None:
    x = weft.arange(3)
    for kind in (weft.Tensor, "torch.Tensor", type(x)):
        assert x.type(kind).dtype is x.double().type(kind).dtype is weft.float32
    with pytest.raises(ValueError, match="invalid type: 'Parameter'"):
        x.type(weft.nn.Parameter)

"""f"loss {loss}" shows a 0-dim tensor as its number, as PyTorch does; other tensors as their repr."""

from __future__ import annotations

import numpy as np

import weft


def test_a_0_dim_tensor_reads_as_its_number(rng: np.random.Generator) -> None:
    number = float(rng.normal())
    leaf = weft.tensor(number, dtype=weft.float64, requires_grad=True)
    assert f"{leaf}" == f"{leaf * 1}" == f"{leaf.detach()}" == str(number)
    assert f"{weft.tensor(3)}" == "3" and f"{weft.tensor(True)}" == "True" and f"{leaf:.3f}" == f"{number:.3f}"


def test_other_tensors_read_as_their_repr() -> None:
    leaf = weft.tensor(1.5)
    assert str(leaf) == f"{leaf!r}" == "tensor(1.5000)"
    assert f"{weft.ones(2)}" == "tensor([1., 1.])"
    assert f"{weft.nn.Parameter(leaf)}".startswith("Parameter containing:")
    assert "meta" in f"{weft.empty((), device='meta')}"

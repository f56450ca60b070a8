"""`copy.deepcopy` of a module copied the gradients of its parameters, to which the copy's backward then added."""

from __future__ import annotations

import copy
from typing import Any

import pytest

import weft


def test_copies_of_parameters_have_no_gradient() -> None:
    model = weft.nn.Sequential(weft.nn.Linear(3, 2), weft.nn.LayerNorm(2))
    model[0].bias.requires_grad_(False)
    model(weft.ones(1, 3)).sum().backward()
    twin, both = copy.deepcopy(model), copy.deepcopy({"model": model, "weight": model[0].weight})
    assert all(p.grad is None for p in twin.parameters())
    assert [p.requires_grad for p in twin.parameters()] == [p.requires_grad for p in model.parameters()]
    assert both["weight"] is both["model"][0].weight and type(both["weight"]) is weft.nn.Parameter
    assert model[0].weight.grad is not None
    leaf = weft.ones(2, requires_grad=True)
    (leaf * 2).sum().backward()
    assert copy.deepcopy(leaf).grad.tolist() == [2, 2]


@pytest.mark.parametrize("wrap", ["eager", "compile", "split", "lazy"])
def test_a_copy_accumulates_from_nothing(wrap: str) -> None:
    device = "lazy" if wrap == "lazy" else "cpu"
    w = weft.nn.Parameter(weft.tensor([1.0, 2.0], device=device))

    def step(x: weft.Tensor) -> Any:
        (w * x).sum().backward()
        twin = copy.deepcopy(w)
        (twin * twin * x).sum().backward()
        return twin.grad

    run = {"compile": weft.compile, "split": lambda f: weft.compile(f, split=True)}.get(wrap, lambda f: f)(step)
    for n in range(1, 4):
        assert run(weft.full((2,), float(n), device=device)).tolist() == [2.0 * n, 4.0 * n]

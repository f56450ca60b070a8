"""A tensor of a subclass that a compiled function gives in two places, or assigns too, or was given, came back as
several objects: no gradient flowed from one to the other."""

from __future__ import annotations

from typing import Any

import pytest

import weft


class Kept(weft.Tensor):
    """A subclass that every operator keeps."""


class Holder:
    """An object older than the calls."""


@pytest.mark.parametrize("wants", [False, True])
def test_identities(wants: bool) -> None:
    def twice(x: Any) -> Any:
        y = x * 2
        return y, [y, {"x": x}], y.sin()

    def assigned(x: Any) -> Any:
        h.a = x * 2
        h.b = [h.a]
        return h.a.sin(), h.a

    h: Any = Holder()
    for wrap in (lambda f: f, lambda f: weft.compile(f, backend="interpret")):
        both = wrap(twice), wrap(assigned)
        for n in (2, 2, 3):
            x = weft.ones(n).as_subclass(Kept).requires_grad_(wants)
            y, (again, named), _ = both[0](x)
            assert y is again and named["x"] is x
            z, y = both[1](x)
            assert h.a is y and h.b[0] is y and type(y) is Kept
            if wants:
                assert weft.autograd.grad(z.sum(), h.a)[0].tolist() == weft.cos(y).tolist()
                assert weft.autograd.grad(y.sum(), h.b[0])[0].tolist() == [1.0] * n


def test_attributes_are_of_each() -> None:
    @weft.compile
    def step(x: Any) -> Any:
        y = x * 2
        z = y.as_subclass(Kept)
        z.name = "z"
        return y, z

    y, z = step(weft.ones(2).as_subclass(Kept))
    assert y is not z and z.name == "z" and not hasattr(y, "name")

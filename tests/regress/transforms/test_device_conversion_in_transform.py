"""A tensor that a transform sees, on its way to another device: forward mode lost the tangent (zeros), jacfwd and vmap
refused the conversion."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import weft
from weft import Tensor, func
from weft.autograd import forward_ad

Body = Callable[[Tensor], Tensor]


def _plain(x: Tensor) -> Tensor:
    return (x * x.exp()).sin()


def _there(x: Tensor) -> Tensor:
    return _plain(x.to("lazy")).to("cpu")


def _and_back(x: Tensor) -> Tensor:
    return _plain(x.to("lazy").to("cpu"))


def _dual(f: Body, x: Tensor) -> Any:
    with forward_ad.dual_level():
        return forward_ad.unpack_dual(f(forward_ad.make_dual(x, x.cos())))


WAYS: dict[str, Callable[[Body, Tensor], Any]] = {
    "jvp": lambda f, x: func.jvp(f, (x,), (x.cos(),)),
    "jacfwd": lambda f, x: func.jacfwd(f)(x),
    "jacrev": lambda f, x: func.jacrev(f)(x),
    "hessian": lambda f, x: func.hessian(lambda x: f(x).sum())(x),
    "vmap": lambda f, x: func.vmap(f, out_dims=1)(x),
    "vmap of grad": lambda f, x: func.vmap(func.grad(lambda x: f(x).sum()))(x),
    "vjp": lambda f, x: func.vjp(f, x)[1](x),
    "functionalize": lambda f, x: func.functionalize(f)(x),
    "dual level": _dual,
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("body", [_there, _and_back])
@pytest.mark.parametrize("compiled", [False, True])
def test_values_are_those_of_one_device(way: str, body: Body, compiled: bool, rng: np.random.Generator) -> None:
    x = weft.tensor(rng.standard_normal((2, 3)))
    run = weft.compile(lambda x: WAYS[way](body, x)) if compiled else lambda x: WAYS[way](body, x)
    expected, seen = WAYS[way](_plain, x), run(x)
    expected, seen = (v if isinstance(v, tuple) else (v,) for v in (expected, seen))
    for a, b in zip(seen, expected, strict=True):
        np.testing.assert_allclose(a.to("cpu").numpy(), b.numpy(), rtol=1e-10)


def test_meta() -> None:
    value, tangent = func.jvp(lambda x: x.to("meta"), (weft.ones(2),), (weft.ones(2),))
    assert value.device == tangent.device == "meta"
    assert func.vmap(lambda x: x.to("meta").sum())(weft.ones(2, 3)).shape == (2,)

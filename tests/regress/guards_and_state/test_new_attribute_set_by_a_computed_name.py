"""`setattr` with an attribute that the object lacks: the symbolic tensor was left on the object, and a call that was
refused left it there, too."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import weft
from tests.symbols_left import symbols_left


class Slots:
    __slots__ = ("count", "latest")


def constant(held: Any, x: weft.Tensor) -> weft.Tensor:
    setattr(held, "latest", x * 3)  # noqa: B010 (what is tested)
    return x + 1


def computed(held: Any, x: weft.Tensor) -> weft.Tensor:
    setattr(held, "".join(["la", "test"]), x * 3)
    read: weft.Tensor = getattr(held, "la" + "test")
    return x + read - x * 3 + 1


def in_a_loop(held: Any, x: weft.Tensor) -> weft.Tensor:
    for name, value in {"latest": x * 3, "count": x.shape[0]}.items():
        setattr(held, name, value)
    return x + 1


@pytest.mark.parametrize("split", [False, True])
@pytest.mark.parametrize("store", [constant, computed, in_a_loop])
@pytest.mark.parametrize("make", [SimpleNamespace, weft.nn.Module, Slots, lambda: type("Made", (), {})])
def test_new_attribute(
    make: Callable[[], Any], store: Callable[[Any, weft.Tensor], weft.Tensor], split: bool, rng: np.random.Generator
) -> None:
    held = make()
    compiled = weft.compile(lambda x: store(held, x), split=split)
    for size in (3, 3, *rng.integers(1, 6, 2).tolist()):
        x = weft.tensor(rng.standard_normal(size))
        np.testing.assert_allclose(compiled(x).numpy(), x.numpy() + 1)
        assert not symbols_left(held)
        np.testing.assert_allclose(held.latest.numpy(), x.numpy() * 3)


def test_refused_call_leaves_no_attribute() -> None:
    held = SimpleNamespace(scale=2.0)

    def step(x: weft.Tensor) -> weft.Tensor:
        setattr(held, "la" + "test", x * 3)
        return x * x.sum().item()

    with pytest.raises(weft.WeftError):
        weft.compile(step)(weft.ones(2))
    assert vars(held) == {"scale": 2.0}

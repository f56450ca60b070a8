"""A tensor of the call that is the key of a dict: the dict of the user, or the one that came back, held a stand-in.
Keys that are older than the call (parameters, in an optimizer's own state) are themselves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import weft
from tests.symbols_left import symbols_left


class Holder:
    def __init__(self) -> None:
        self.d: dict[Any, Any] = {}


def assigned(h: Holder, x: Any) -> Any:
    h.d = {x: 1}
    return x * 2


def filled(h: Holder, x: Any) -> Any:
    h.d[x * 2] = x
    return x * len(h.d)


def in_a_tuple(h: Holder, x: Any) -> Any:
    h.d["all"] = [{(x, 1): x}]
    return x * 2


def returned(h: Holder, x: Any) -> Any:
    return {x: x * 2}


STEPS: list[Callable[[Holder, Any], Any]] = [assigned, filled, in_a_tuple, returned]


def tensors_in(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return [t for pair in value.items() for part in pair for t in tensors_in(part)]
    if isinstance(value, (list, tuple)):
        return [t for part in value for t in tensors_in(part)]
    return [value.tolist()] if isinstance(value, weft.Tensor) else []


@pytest.mark.parametrize("step", STEPS)
def test_a_tensor_of_the_call(step: Callable[[Holder, Any], Any]) -> None:
    eager, split, whole = Holder(), Holder(), Holder()
    either = weft.compile(lambda x: step(split, x), split=True)
    compiled = weft.compile(lambda x: step(whole, x))
    for call in range(3):
        x = weft.full((2,), float(call))
        expected, actual = step(eager, x), either(x)
        assert tensors_in([actual, split.d]) == tensors_in([expected, eager.d])
        with pytest.raises(weft.errors.CaptureError, match="with a tensor of this call as a key"):
            compiled(x)
        assert not whole.d and not symbols_left(whole.d, split.d, actual)


@pytest.mark.parametrize("split", [False, True])
def test_parameters_are_keys(split: bool) -> None:
    eager, kept = Holder(), Holder()
    parameters = [weft.nn.Parameter(weft.full((2,), float(i + 1))) for i in range(3)]

    def step(h: Holder, x: Any) -> Any:
        for p in parameters:
            h.d[p] = h.d.get(p, 0.0) * 0.9 + p.detach() * x
        return sum(h.d.values())

    compiled = weft.compile(lambda x: step(kept, x), split=split)
    for call in range(4):
        x = weft.full((2,), float(call + 1))
        assert weft.allclose(compiled(x), step(eager, x))
        assert all(key is p for key, p in zip(kept.d, parameters, strict=True))

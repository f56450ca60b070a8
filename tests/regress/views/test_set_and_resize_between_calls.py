"""set_, resize_ and `.data =` of arguments and of outside tensors between the calls of a compiled function: values, and
what the tensors hold, as in eager mode."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import weft

Scope = dict[str, weft.Tensor]


def numbers(*dims: int, start: float = 0.0) -> weft.Tensor:
    count = 1
    for d in dims:
        count *= d
    return (weft.arange(float(count)) + start).reshape(dims).clone()


def scope() -> Scope:
    base = numbers(6)
    return {"o": numbers(4), "x": numbers(4, start=3.0), "y": numbers(4, start=10.0), "z": numbers(6, start=20.0),
            "base": base, "view": base[1:4]}


def reads_argument(s: Scope) -> Any:
    return lambda x: x * 2 + 1


def writes_argument(s: Scope) -> Any:
    def step(x: weft.Tensor) -> weft.Tensor:
        x.add_(1)
        return x.sum()

    return step


def reads_outside(s: Scope) -> Any:
    return lambda x: x.sum() + s["o"]


def writes_outside(s: Scope) -> Any:
    def step(x: weft.Tensor) -> weft.Tensor:
        s["o"].add_(x.sum())
        return s["o"] * 1

    return step


def writes_a_view(s: Scope) -> Any:
    def step(x: weft.Tensor) -> weft.Tensor:
        s["view"].mul_(2)
        return s["base"].sum() + x.sum()

    return step


def writes_both(s: Scope) -> Any:
    def step(x: weft.Tensor) -> weft.Tensor:
        x.add_(1)
        return (x.sum() * s["o"]).sum()

    return step


CHANGES: dict[str, Callable[[Scope], Any]] = {
    "set_ of the argument": lambda s: s["x"].set_(s["y"]),
    "set_ of the argument to other sizes": lambda s: s["x"].set_(s["z"]),
    "set_ of the argument to strided memory": lambda s: s["x"].set_(s["z"].storage(), 1, (2, 2), (1, 2)),
    "set_ of the argument to outside memory": lambda s: s["x"].set_(s["o"]),
    "resize_ of the argument": lambda s: s["x"].resize_(2),
    "resize_ of the argument to other dims": lambda s: s["x"].resize_(2, 2),
    "set_ of the outer": lambda s: s["o"].set_(s["y"]),
    "set_ of the outer to other sizes": lambda s: s["o"].set_(s["z"]),
    "set_ of the outer to strided memory": lambda s: s["o"].set_(s["z"].storage(), 1, (4,), (1,)),
    "set_ of the outer to the argument": lambda s: s["o"].set_(s["x"]),
    "resize_ of the outer": lambda s: s["o"].resize_(2),
    "data of the outer": lambda s: setattr(s["o"], "data", s["z"]),
    "set_ of a base": lambda s: s["base"].set_(s["z"]),
    "set_ of a view": lambda s: s["view"].set_(s["y"]),
    "resize_ of a base": lambda s: s["base"].resize_(3),
    "resize_ of a view": lambda s: s["view"].resize_(2),
    "resize_ of the argument to more": lambda s: s["x"].resize_(9),
    "resize_ of the outer to more": lambda s: s["o"].resize_(2, 4).resize_(4),
    "resize_ of a base to more": lambda s: s["base"].resize_(9),
    "resize_ of a view to more": lambda s: s["view"].resize_(9).resize_(3),
    "a storage that grows": lambda s: s["base"].untyped_storage().resize_(40),
    "storages that are emptied and filled": lambda s: [
        (s[n].untyped_storage().resize_(0), s[n].untyped_storage().resize_(24), s[n].fill_(i + 1.0))
        for i, n in enumerate(("o", "base"))
    ],
}
STEPS = [reads_argument, writes_argument, reads_outside, writes_outside, writes_a_view, writes_both]


def outcome(make: Callable[[Scope], Any], change: Callable[[Scope], Any], compiled: bool) -> list[Any]:
    s = scope()
    step = weft.compile(make(s)) if compiled else make(s)
    seen = [step(s["x"]).tolist()]
    change(s)
    for _ in range(2):
        seen.append(step(s["x"]).tolist())
        s["y"].mul_(2)
        s["z"].mul_(2)
    return [*seen, {name: t.tolist() for name, t in s.items()}]


@pytest.mark.parametrize("change", CHANGES)
def test_compiled_follows(change: str) -> None:
    for make in STEPS:
        assert outcome(make, CHANGES[change], compiled=True) == outcome(make, CHANGES[change], compiled=False), make

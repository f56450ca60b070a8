"""What one backward call freed of the graph of a compiled call was forgotten by the next one, which eager mode refuses:
after a call up to an inner result, by another way past it, or after one that was kept and reached nothing here later.
"""

from __future__ import annotations

from typing import Any

import pytest

import weft
from weft import Tensor
from weft.compiled_autograd import enable, interpret


def function(x: Tensor, w: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    y = x.sin()
    z = y.tanh() * w.exp()
    return y, z, z.cos() * w


def history(compiles: bool, *calls: tuple[str, str, str, bool]) -> list[Any]:
    """What each call gives: ("grad" or "backward", of, by ("" for all leaves), retain_graph)."""
    step = weft.compile(function, backend="interpret") if compiles else function
    x, w = weft.tensor([0.3, 0.5], requires_grad=True), weft.tensor([0.2, 0.7], requires_grad=True)
    y, z, v = step(x, w)
    there = {"x": x, "w": w, "y": y, "z": z, "v": v}
    notes: list[Any] = []
    for kind, of, by, keeps in calls:
        inputs = [there[name] for name in by] or None
        try:
            if kind == "grad":
                found = weft.autograd.grad(there[of].sum(), inputs, retain_graph=keeps, allow_unused=True)
                notes.append([None if g is None else [round(n, 5) for n in g.tolist()] for g in found])
            else:
                there[of].sum().backward(retain_graph=keeps, inputs=inputs)
                notes.append("run")
        except weft.WeftError as error:
            notes.append(str(error))
    return notes


HISTORIES = {
    "past the inner result": (("backward", "v", "w", False), ("grad", "v", "y", False)),
    "up to the inner result": (("grad", "v", "z", False), ("grad", "v", "w", False)),
    "up to one, then another": (("grad", "v", "y", True), ("grad", "z", "y", False), ("backward", "v", "", False)),
    "kept, then elsewhere": (
        ("grad", "v", "z", True), ("backward", "v", "", True), ("backward", "y", "", False), ("grad", "v", "z", False)
    ),
    "its own gradient frees it": (("backward", "z", "z", False), ("backward", "z", "", True)),
    "and that of another input": (("backward", "y", "yw", False), ("backward", "v", "", True)),
    "its own gradient reads nothing": (("backward", "v", "", False), ("backward", "y", "y", False)),
    "nor that of what does not lead there": (("backward", "v", "", False), ("grad", "y", "wy", True)),
}


@pytest.mark.parametrize("name", HISTORIES)
def test_it_is_refused_where_eager_mode_does(name: str) -> None:
    assert history(True, *HISTORIES[name]) == history(False, *HISTORIES[name])


@pytest.mark.parametrize("name", HISTORIES)
def test_with_a_captured_backward_too(name: str) -> None:
    expected = history(False, *HISTORIES[name])
    for _ in range(2):
        with enable(interpret):
            assert history(True, *HISTORIES[name]) == expected


def test_a_way_on_which_nothing_is_saved_stays_open() -> None:
    def straight(x: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
        y = h * 0.5 - x
        return (y * x.detach()).sin(), y

    for step in (straight, weft.compile(straight, backend="interpret")):
        x, h = weft.ones(3, requires_grad=True), weft.ones(3, requires_grad=True)
        z, y = step(x, h)
        z.sum().backward(inputs=[h])
        assert weft.autograd.grad(y.sum(), x)[0].tolist() == [-1.0, -1.0, -1.0]

"""A node that runs unpacks all that it saved, also what is of use only for gradients that nobody asked for: hooks are
called, and what was written since is an error, by either walk."""

from typing import Any

import pytest

import weft
from weft import compiled_autograd as ca

WALKS = [ca.disable, ca.enable, lambda: ca.enable(ca.interpret)]


@pytest.mark.parametrize("walk", WALKS)
def test_hooks_are_called(walk: Any) -> None:
    for n in (2, 3, 3):
        log: list[str] = []

        def unpack(given: Any) -> Any:
            log.append(given[0])  # noqa: B023
            return given[1]

        x, y = weft.ones(n, requires_grad=True), weft.full((n,), 2.0, requires_grad=True)
        names = iter("abcdefg")
        with weft.autograd.graph.saved_tensors_hooks(lambda t: (next(names), t), unpack):  # noqa: B023
            z = x * y.exp()
        with walk():
            assert weft.autograd.grad(z.sum(), x, retain_graph=True)[0].tolist() == pytest.approx([7.389056] * n)
        assert sorted(log) == ["b", "c"]
        log.clear()
        with walk():
            weft.autograd.grad(z.sum(), y, retain_graph=True)
            assert sorted(log) == ["a", "b", "c"]
            z.sum().backward(inputs=[x])
        assert sorted(log) == ["a", "b", "b", "c", "c"]


@pytest.mark.parametrize("walk", WALKS)
def test_what_was_written_is_an_error(walk: Any) -> None:
    for is_written in (False, True, True, False):
        leaf, y = weft.ones(3, requires_grad=True), weft.ones(3, requires_grad=True)
        x = leaf * 1
        z = (x * y).sum()
        if is_written:
            x.add_(1)
        for wanted in (leaf, y):
            with walk():
                if is_written:
                    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
                        weft.autograd.grad(z, wanted, retain_graph=True)
                else:
                    assert weft.autograd.grad(z, wanted, retain_graph=True)[0].tolist() == [1] * 3

"""Hooks of every kind hear that no gradient arrives, as in PyTorch 2.13 (whose logs these are), under either walk; the
formulas of such nodes do not run, and nothing may be put in the place of what is not there."""

from __future__ import annotations

from typing import Any

import pytest

import weft
from tests.unit.compiled_autograd.recalled import compared
from weft import compiled_autograd as ca

WALKS = [ca.disable, ca.enable, lambda: ca.enable(ca.interpret)]


class Nothing(weft.autograd.Function):
    """Gives no gradient."""

    @staticmethod
    def forward(ctx: Any, x: weft.Tensor) -> weft.Tensor:
        return x * 1

    @staticmethod
    def backward(ctx: Any, g: weft.Tensor) -> Any:
        return None


def noting(log: list[Any], name: str) -> Any:
    """A hook that notes its name, and for each gradient whether it is there."""

    def there(value: Any) -> Any:
        return tuple([v is not None for v in value]) if isinstance(value, tuple) else value is not None

    return lambda *given: log.append((name, *map(there, given)))


@pytest.mark.parametrize("walk", WALKS)
def test_every_kind(walk: Any) -> None:
    for _ in range(3):
        log: list[Any] = []
        x = weft.ones(2, requires_grad=True)
        y = x * 2
        z = y.sin()
        for name, t in (("x", x), ("y", y), ("z", z)):
            t.register_hook(noting(log, name))
        for name, node in (("y", y.grad_fn), ("z", z.grad_fn), ("leaf", y.grad_fn.next_functions[0][0])):
            node.register_prehook(noting(log, "before " + name))
            node.register_hook(noting(log, "behind " + name))
        x.register_post_accumulate_grad_hook(noting(log, "accumulated"))
        y.retain_grad()
        with walk(), compared():
            Nothing.apply(z).sum().backward()
        assert log == [
            ("z", False), ("before z", (False,)), ("behind z", (False,), (False,)),
            ("y", False), ("before y", (False,)), ("behind y", (False, False), (False,)),
            ("x", False), ("before leaf", (False,)), ("accumulated", True), ("behind leaf", (), (False,)),
        ]
        assert x.grad is None and y.grad is None


@pytest.mark.parametrize("walk", WALKS)
def test_a_gradient_that_is_there_sometimes(walk: Any) -> None:
    """One structure in which a Function gives a gradient or does not: a graph is never used for the other."""

    class Sometimes(weft.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: weft.Tensor, gives: bool) -> weft.Tensor:
            ctx.gives = gives
            return x * 1

        @staticmethod
        def backward(ctx: Any, g: weft.Tensor) -> Any:
            return (g if ctx.gives else None), None

    for gives in (True, False, False, True, True, False):
        log: list[Any] = []
        x = weft.ones(2, requires_grad=True)
        y = x * 2
        y.register_hook(noting(log, "y"))
        x.register_post_accumulate_grad_hook(noting(log, "accumulated"))
        with walk():
            Sometimes.apply(y.sin(), gives).sum().backward()
        assert log == [("y", gives), ("accumulated", True)]
        assert (x.grad is not None) is gives


@pytest.mark.parametrize("walk", WALKS)
@pytest.mark.parametrize("place", ["tensor", "before", "behind"])
def test_nothing_is_not_replaced(walk: Any, place: str) -> None:
    x = weft.ones(2, requires_grad=True)
    y = x * 2
    if place == "tensor":
        y.register_hook(lambda g: weft.ones(2))
    elif place == "before":
        y.grad_fn.register_prehook(lambda gs: (weft.ones(2),))
    else:
        y.grad_fn.register_hook(lambda made, gs: (weft.ones(2), *made[1:]))
    with walk(), pytest.raises(RuntimeError, match="can't replace a None gradient with a non-None value"):
        Nothing.apply(y).sum().backward()


@pytest.mark.parametrize("walk", WALKS)
def test_what_is_not_wanted_hears_nothing(walk: Any) -> None:
    for _ in range(3):
        log: list[Any] = []
        x, p = weft.ones(2, requires_grad=True), weft.ones(2, requires_grad=True)
        y = x * 2
        z = y * p
        for name, t in (("x", x), ("p", p), ("y", y), ("z", z)):
            t.register_hook(noting(log, name))
        y.grad_fn.next_functions[0][0].register_hook(noting(log, "behind leaf"))
        with walk(), compared():
            weft.autograd.grad(z.sum(), p, retain_graph=True)
            assert log == [("z", True), ("p", True)]
            log.clear()
            found = weft.autograd.grad(Nothing.apply(z).sum(), [y, p], allow_unused=True, retain_graph=True)
            assert found == (None, None) and log == [("z", False), ("p", False), ("y", False)]
            log.clear()
            z.sum().backward(inputs=[p])
        assert log == [("z", True), ("p", True)]

"""A compiled function writes into an argument that is a view, and other results are computed from it: their gradient
by the view was None, where eager mode has one (PyTorch 2.13: 1.5, and x and w as here)."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import weft


def first_rows(h: weft.Tensor, x: weft.Tensor) -> None:
    h.view(-1)[1:].mul_(x[1:])


def all_rows(h: weft.Tensor, x: weft.Tensor) -> None:
    h.mul_(x)


@pytest.mark.parametrize("write", [first_rows, all_rows])
@pytest.mark.parametrize("is_late", [False, True])
def test_values(write: Callable[[weft.Tensor, weft.Tensor], None], is_late: bool) -> None:
    def step(x: weft.Tensor, h: weft.Tensor, w: weft.Tensor) -> tuple[weft.Tensor, weft.Tensor]:
        write(h, x)
        return h * w, x.exp()

    def gradients(function: Callable[..., tuple[weft.Tensor, weft.Tensor]]) -> list[list[float]]:
        w = weft.tensor([1.5], requires_grad=True)
        x = weft.tensor([1.0, -2, 3, 4], requires_grad=True)
        base = weft.tensor([1.0, 2, 3, 4, 5])
        h = base[1:]
        if is_late:
            base.mul_(w)
        else:
            base = base * w
            h = base[1:]
        out, _ = function(x, h, w)
        by_h, by_x, by_w = weft.autograd.grad(out.sum(), (h, x, w), retain_graph=True)
        (again,) = weft.autograd.grad(out.sum() + h.sum(), h, retain_graph=True)
        (base.sum() + out.sum()).backward()
        assert by_h.tolist() == [1.5] * 4 and again.tolist() == [2.5] * 4 and by_w.tolist() == [84]
        return [by_x.tolist(), w.grad.tolist(), x.grad.tolist()]

    compiled = weft.compile(step)
    expected = gradients(step)
    for _ in range(2):
        assert gradients(compiled) == expected


def test_several_views_of_several_bases() -> None:
    def step(a: weft.Tensor, b: weft.Tensor, x: weft.Tensor) -> weft.Tensor:
        a.mul_(x)
        y = a.sin()
        b.add_(y)
        return b * y * a

    def gradients(function: Callable[..., weft.Tensor]) -> list[list[float]]:
        w = weft.tensor([0.5, 2.0, 0.25], requires_grad=True, dtype=weft.float64)
        x = weft.tensor([0.3, -0.7], requires_grad=True, dtype=weft.float64)
        first, second = w * 2, w.cos()
        a, b = first[:2], second[1:]
        out = function(a, b, x)
        grads = weft.autograd.grad(out.sum(), (a, b, x, w), retain_graph=True)
        (out.sum() + a.sum() + second.sum()).backward()
        return [*[g.tolist() for g in grads], w.grad.tolist(), x.grad.tolist()]

    for got, want in zip(gradients(weft.compile(step)), gradients(step), strict=True):
        assert got == pytest.approx(want, rel=1e-12)

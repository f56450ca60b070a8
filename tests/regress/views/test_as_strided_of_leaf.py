"""as_strided of views that were made leaves, writes into what it shows twice, and its scatter of tensors that are not
row-major: as PyTorch has them, or refused."""

from __future__ import annotations

from typing import Any

import pytest

import weft


def test_a_view_that_was_made_a_leaf_gets_the_gradient() -> None:
    leaf = weft.arange(6.0).as_strided((2, 2), (2, 1), 1).requires_grad_()
    shown = leaf.as_strided((3,), (1,), 2)
    (shown * shown).sum().backward()
    assert leaf.grad is not None and leaf.grad.tolist() == [[0, 4], [6, 8]]


def test_a_view_that_retains_its_gradient_gets_it() -> None:
    base = weft.arange(6.0).requires_grad_()
    view = base.as_strided((2, 2), (2, 1), 1)
    view.retain_grad()
    shown = view.as_strided((3,), (1,), 2)
    (shown * shown).sum().backward()
    assert base.grad is not None and base.grad.tolist() == [0, 0, 4, 6, 8, 0]
    assert view.grad is not None and view.grad.tolist() == [[0, 4], [6, 8]]


def test_a_leaf_with_gaps_is_refused() -> None:
    leaf = weft.arange(9.0).view(3, 3)[:, :2].requires_grad_()
    shown = leaf.as_strided((2, 3), (3, 1), 0)
    with pytest.raises(RuntimeError, match="gaps"):
        shown.sum().backward()
    with weft.no_grad():
        assert leaf.as_strided((2, 2), (3, 1), 1).tolist() == [[1, 2], [4, 5]]


@pytest.mark.parametrize("write", ["fill_(7)", "zero_()", "copy_(weft.ones(2, 2))"])
def test_a_number_written_where_elements_are_shown_twice(write: str) -> None:
    leaf = weft.arange(9.0).view(3, 3).requires_grad_()
    out = leaf.clone()
    eval(f"v.{write}", {"v": out.as_strided((2, 2), (1, 1), 1), "weft": weft})
    (out * (weft.arange(9.0).view(3, 3) + 1)).sum().backward()
    assert leaf.grad is not None and leaf.grad.tolist() == [[1, 0, 0], [0, 5, 6], [7, 8, 9]]


LAYOUTS: dict[str, Any] = {
    "permuted": (lambda x: x.t(), [[0, 3, 6], [5, 5, 7], [5, 5, 8]]),
    "gaps": (lambda x: x[:, ::2], [[0, 5], [5, 5], [6, 8]]),
    "offset": (lambda x: x[1:], [[3, 5, 5], [6, 7, 8]]),
}


@pytest.mark.parametrize("name", LAYOUTS)
@pytest.mark.parametrize("mode", ["eager", "lazy", "functionalize"])
def test_scatter_speaks_of_the_storage(name: str, mode: str) -> None:
    lay, wanted = LAYOUTS[name]
    strides = {"permuted": (3, 1), "gaps": (2, 1), "offset": (3, 1)}[name]

    def step(x: weft.Tensor, source: weft.Tensor) -> weft.Tensor:
        return weft.as_strided_scatter(lay(x), source, (2, 2), strides, 1)

    x, source = weft.arange(9.0).view(3, 3), weft.full((2, 2), 5.0)
    function = weft.func.functionalize(step) if mode == "functionalize" else step
    if mode == "lazy":
        x, source = x.to("lazy"), source.to("lazy")
    out = function(x, source)
    assert out.tolist() == wanted and out.stride() == lay(x).stride() and x.tolist()[0] == [0, 1, 2]
    if mode == "lazy":
        weft.lazy.reset()

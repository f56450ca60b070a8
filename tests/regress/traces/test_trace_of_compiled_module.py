"""What `weft.compile` made was not traced or scripted, was empty when compiled twice, and was lost by `.eval()`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import weft
from weft import nn


class Holder(nn.Module):
    def __init__(self, inner: Any) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: weft.Tensor) -> weft.Tensor:
        return self.inner(x) * 2


def _module() -> nn.Module:
    return nn.Sequential(nn.Linear(3, 4), nn.ReLU())


OPTIONS = [{}, {"split": True}, {"backend": "interpret"}]


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("called", [False, True])
def test_a_compiled_module_is_traced_and_scripted(options: dict[str, Any], called: bool, tmp_path: Path) -> None:
    module, x = _module(), weft.randn(2, 3)
    compiled = weft.compile(module, **options)
    if called:
        compiled(x)
    example = (x,)
    for form in (lambda m: weft.jit.trace(m, example), weft.jit.script):
        whole, held = form(compiled), form(Holder(compiled))
        assert [n for n, _ in whole.named_parameters()] == ["0.weight", "0.bias"]
        for n in (2, 5):
            x = weft.randn(n, 3)
            weft.testing.assert_close(whole(x), module(x))
            weft.testing.assert_close(held(x), module(x) * 2)
        weft.jit.save(whole, tmp_path / "m.pt")
        weft.testing.assert_close(weft.jit.load(tmp_path / "m.pt")(x), module(x))


@pytest.mark.parametrize("options", [{}, {"split": True}])
def test_a_compiled_function_is_scripted_as_its_function(options: dict[str, Any]) -> None:
    @weft.compile(**options)
    def twice(x: weft.Tensor) -> weft.Tensor:
        return x * 2

    def around(x: weft.Tensor) -> weft.Tensor:
        return twice(x) + 1

    assert weft.jit.script(twice)(weft.ones(2)).tolist() == [2, 2]
    assert weft.jit.script(around)(weft.ones(2)).tolist() == [3, 3]


@pytest.mark.parametrize("options", [{}, {"split": True}])
def test_methods_that_give_the_module_give_the_compiled_one(options: dict[str, Any]) -> None:
    compiled = weft.compile(_module(), **options)
    assert compiled.eval() is compiled and compiled.to(weft.float64).float() is compiled
    assert compiled.train().requires_grad_(False).apply(lambda m: None) is compiled
    assert compiled.training and not any(p.requires_grad for p in compiled.parameters())


def test_a_module_compiled_twice_is_still_a_module() -> None:
    compiled = weft.compile(weft.compile(_module()))
    assert isinstance(compiled, nn.Sequential) and len(list(Holder(compiled).parameters())) == 2


def test_a_compiled_script_is_saved_and_frozen(tmp_path: Path) -> None:
    module, x = _module(), weft.randn(2, 3)
    compiled = weft.compile(weft.jit.script(module))
    weft.jit.save(compiled, tmp_path / "m.pt")
    weft.testing.assert_close(weft.jit.load(tmp_path / "m.pt")(x), module(x))
    weft.testing.assert_close(weft.jit.freeze(compiled.eval())(x), module(x))

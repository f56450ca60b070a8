"""Strides of pointwise results, for operands that lie in memory in any way: those of PyTorch's rule in eager mode, and
the same in every other mode."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import weft
from tests.agree.layouts import draw_operand, joint_order
from tests.agree.width import times
from weft.func import functionalize
from weft.support.knobs import knobs

COUNT = times(60)
OPERATORS = (
    "a + b", "a - 2 * b", "where(a > b, a, b)", "addcmul(a, b, c)", "lerp(a, b, c)", "a > b", "a.exp()", "erf(a)",
    "a.double()", "-a", "maximum(a, b)",
)
LATER = (
    "(a > b).float() * c", "a + b + c", "gelu(a)", "softmax(a, -1)", "a @ a.transpose(-1, -2)", "cat([a, a], 0)",
    "cat([a, a + 1], -1)", "stack([a, a * 2], 1)", "a.roll(1, 0) + b", "cat([a, b.expand(a.shape)], 1)",
    "(a + 1).transpose(0, -1) + a.transpose(0, -1)", "zeros_like(a) + b", "a.contiguous() + c", "a.sum(0) + 1",
)


def called(operands: list[str], text: str, device: str) -> tuple[Any, list[weft.Tensor]]:
    scope: dict[str, Any] = {n: getattr(weft, n) for n in (
        "where", "addcmul", "lerp", "erf", "maximum", "softmax", "cat", "stack", "zeros_like"
    )}
    scope["gelu"], scope["ones"] = weft.nn.functional.gelu, lambda dims: weft.ones(dims, device=device)
    function = eval(f"lambda a, b, c: {text}", scope)
    return function, [eval(each, scope) for each in operands]


def strides(tensor: weft.Tensor) -> tuple[Any, ...]:
    return tuple([s if n > 1 else None for s, n in zip(tensor.stride(), tensor.shape, strict=True)])


def drawn(seed: int, texts: tuple[str, ...]) -> tuple[list[str], str]:
    rng = np.random.default_rng([seed, 3])
    dims = tuple(int(n) for n in rng.integers(2, 5, rng.integers(2, 6)))
    first = draw_operand(rng, dims, True)
    return [first, *[draw_operand(rng, dims) for _ in range(2)]], str(texts[int(rng.integers(len(texts)))])


def test_eager_results_lie_as_pytorch_s() -> None:
    for seed in range(COUNT):
        operands, text = drawn(seed, OPERATORS)
        function, given = called(operands, text, "cpu")
        used = [t for name, t in zip("abc", given, strict=True) if name in text.replace("where", "").replace("erf", "")]
        out = function(*given)
        aligned = [
            (0,) * (out.ndim - t.ndim) + tuple(
                0 if n == 1 else s for n, s in zip(t.shape, t.stride(), strict=True)
            ) for t in used
        ]
        wanted = joint_order(tuple(out.shape), aligned)
        assert strides(out) == tuple(s if n > 1 else None for s, n in zip(wanted, out.shape, strict=True)), (
            text, operands
        )


@pytest.mark.parametrize("mode", ["functionalize", "functionalize_views", "lazy", "meta", "compile", "split"])
def test_other_modes_lie_as_eager(mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(knobs, "backend", "interpret")
    for seed in range(COUNT // 3 if mode in ("compile", "split") else COUNT):
        operands, text = drawn(seed, OPERATORS + LATER)
        function, given = called(operands, text, "cpu")
        wanted = strides(function(*given))
        if mode in ("lazy", "meta"):
            function, given = called(operands, text, mode)
        elif mode == "functionalize":
            function = functionalize(function)
        elif mode == "functionalize_views":
            function = functionalize(function, remove="mutations_and_views")
        else:
            function = weft.compile(function, split=mode == "split")
        assert strides(function(*given)) == wanted, (text, operands)
    if mode == "lazy":
        weft.lazy.reset()

"""Random programs over tensors that share memory, are given other memory between calls (`.data =`),
and other gradients: compiled as eager."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import weft

NAMES = ("b", "v", "t", "p", "q")
START = """
b = weft.arange(12.0) / 7
v = b[3:7]
t = b.view(3, 4)[1]
p = weft.nn.Parameter(weft.ones(4) / 2)
q = weft.nn.Parameter(weft.arange(8.0)[::2] / 3)
"""
READS = (
    "x * {0}", "x + {0}.detach() * 0.5", "({0} * {1}).sum() + x", "x * {0}.data[:1] - {1}",
    "x + {0}.as_strided((2,), (1,)).detach().sum()", "x * {0}.stride(0) + {1}.storage_offset()", "x * {0}.itemsize",
)
WRITES = (
    "{0}.detach().add_(0.25)", "{0}.data.mul_(0.5)", "{0}.detach()[1:].copy_({1}.detach()[1:])",
    "{0}.detach()[1:3].fill_(0.75)",
)
GRADIENTS = ("y.sum().backward()", "(y * y).mean().backward()")
GRADS = (
    "{0}.grad.mul_(2.0) if {0}.grad is not None else None", "{0}.grad = None",
    "{0}.grad.zero_() if {0}.grad is not None else None",
)
MEMORY = (
    "{0}.data = weft.full((4,), {2}, dtype={0}.dtype)", "{0}.data = (weft.arange(8.0) * {2}).to({0}.dtype)[::2]",
    "{0}.data = {0}.data.clone()", "{0}.data = weft.full((4, 2), {2}, dtype={0}.dtype)[:, 1]", "{0}.data = {1}.data",
    "{0}.data = {1}.detach()[:]", "{0}.data = {0}.data * {2}",
    "weft.nn.utils.vector_to_parameters(weft.arange(8.0).to(p.dtype) * {2}, [p, q])",
    "b.data = weft.arange(12.0).to(b.dtype) * {2}", "{0}.data = b.data[2:10:2]", "{0}.data = b.data[:4]",
    "{0}.detach().add_({2})",
)
DTYPES = (
    "p.data = p.data.double(); p.grad = None", "p.data = p.data.float(); p.grad = None", "b.data = b.data.double()"
)
GIVEN = (
    "{3}.grad = weft.full((4,), {2}, dtype={3}.dtype)", "{3}.grad = None",
    "{3}.grad = (weft.arange(8.0) * {2}).to({3}.dtype)[1::2]",
    "{3}.grad = {1}.detach() if {1}.dtype is {3}.dtype else None", "p.grad = q.grad if p.dtype is q.dtype else None",
)


def _text(rng: np.random.Generator, forms: tuple[str, ...]) -> str:
    first, second = rng.choice(NAMES[1:], 2)
    return str(rng.choice(forms)).format(first, second, round(float(rng.uniform(0.1, 2.0)), 2), rng.choice(("p", "q")))


def _program(rng: np.random.Generator) -> tuple[str, list[str]]:
    """The function's source, and what happens before each call."""
    lines = [f"y = {_text(rng, READS)}"]
    for _ in range(int(rng.integers(1, 3))):
        lines.append(f"y = y + {_text(rng, READS)}")
    if rng.random() < 0.7:
        lines.append(f"if y.requires_grad: {rng.choice(GRADIENTS)}")
        lines += [_text(rng, GRADS).replace("{0}", "p") for _ in range(int(rng.integers(0, 3))) if rng.random() < 0.7]
    lines += [_text(rng, WRITES) for _ in range(int(rng.integers(0, 3)))]
    lines = [line.replace("v.grad", "p.grad").replace("t.grad", "q.grad") for line in lines]
    changes = [_text(rng, MEMORY if r < 0.65 else GIVEN if r < 0.9 else DTYPES) for r in rng.random(4)]
    return "def step(x):\n    " + "\n    ".join(lines) + "\n    return y.detach()\n", ["", *changes]


def _state(scope: dict[str, Any]) -> list[Any]:
    tensors = [scope[n] for n in NAMES]
    return [
        (
            t.detach().double().numpy().copy(), None if t.grad is None else t.grad.detach().double().numpy().copy(),
            t.dtype,
        )
        for t in tensors
    ]


def _run(source: str, changes: list[str], backend: str | None) -> list[Any]:
    scope: dict[str, Any] = {"weft": weft}
    exec(START + source, scope)
    step = scope["step"] if backend is None else weft.compile(scope["step"], backend=backend)
    seen: list[Any] = []
    for at, change in enumerate(changes):
        exec(change, scope)
        try:
            seen.append(step(weft.full((4,), 0.5 + at)).double().numpy().copy())
        except (RuntimeError, TypeError) as error:  # what eager mode refuses, compiled refuses too
            seen.append(isinstance(error, RuntimeError))
            return seen
        seen += [part for state in _state(scope) for part in state]
    return seen


def _same(a: Any, b: Any) -> bool:
    if isinstance(a, np.ndarray) and isinstance(b, np.ndarray):
        return a.shape == b.shape and bool(np.allclose(a, b, rtol=1e-5, atol=1e-6, equal_nan=True))
    return type(a) is type(b) and bool(a == b)


@pytest.mark.parametrize("seed", range(110))
def test_compiled_agrees_with_eager(seed: int) -> None:
    source, changes = _program(np.random.default_rng(seed))
    expected = _run(source, changes, None)
    found = _run(source, changes, "interpret" if seed % 3 else "llvm")
    assert len(found) == len(expected) and all(map(_same, expected, found)), f"{source}\n{changes}"

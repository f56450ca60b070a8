"""A compiled function's gradients are those of its call, whatever the default dtype is when backward runs: the graph of
its second derivatives is compiled then, and what goes by the default dtype in it (factories, functions of integers) was
computed in another dtype than it had, sometimes as bytes of the wrong kind."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
import pytest

import weft
from weft.types.dtype import get_default, within_default

Body = Callable[[weft.Tensor, weft.Tensor], weft.Tensor]


@contextmanager
def default_dtype(dtype: weft.dtype) -> Iterator[None]:
    before = weft.get_default_dtype()
    weft.set_default_dtype(dtype)
    try:
        yield
    finally:
        weft.set_default_dtype(before)


def scanned(x: weft.Tensor, i: weft.Tensor) -> weft.Tensor:
    return weft.scan(lambda c, t: (c.sin() * t, c.sum()), x, weft.arange(1.0, 3.0))[0]


def chosen(x: weft.Tensor, i: weft.Tensor) -> weft.Tensor:
    return weft.cond(x.sum() > -100, lambda x: (x * (i / 3)).sin(), lambda x: x * 1, (x,))


def looped(x: weft.Tensor, i: weft.Tensor) -> weft.Tensor:
    def step(k: weft.Tensor, v: weft.Tensor) -> tuple[weft.Tensor, weft.Tensor]:
        return k + 1, (v * weft.linspace(0.5, 1, 4)[:1]).sin()

    return weft.while_loop(lambda k, v: k < 2, step, (0, x))[1]


BODIES: dict[str, Body] = {
    "arange": lambda x, i: (x * weft.arange(0.0, x.shape[0])).sin(),
    "linspace": lambda x, i: (x * weft.linspace(0, 1, x.shape[0])).sin(),
    "eye": lambda x, i: (weft.eye(x.shape[0]) @ x.to(weft.get_default_dtype())).sin(),
    "quotient": lambda x, i: (x * (i / 3)).sin(),
    "sine": lambda x, i: (x * i.sin()).sin(),
    "reduction": lambda x, i: (x * i.logsumexp(0)).sin(),
    "spectrum": lambda x, i: (x * weft.fft.fft(i).real).sin(),
    "choice": lambda x, i: (x * weft.where(i > 1, 0.1, 0.7)).sin(),
    "scan": scanned, "cond": chosen, "while": looped,
}
DTYPES = (weft.float32, weft.float64, weft.bfloat16)


def gradients(f: Body, sizes: list[int], forward: weft.dtype, backward: weft.dtype) -> list[np.ndarray]:
    outcomes = []
    for n in sizes:
        x, i = weft.linspace(0.1, 1, n, dtype=forward).requires_grad_(), weft.arange(n)
        with default_dtype(forward):
            y = f(x, i)
        with default_dtype(backward):
            (g,) = weft.autograd.grad(y.square().sum(), x, create_graph=True)
            (h,) = weft.autograd.grad(g.sin().sum(), x)
        outcomes += [g.detach().numpy(), h.numpy()]
    return outcomes


@pytest.mark.parametrize("name", BODIES)
@pytest.mark.parametrize("forward", DTYPES[:2])
def test_second_derivatives(name: str, forward: weft.dtype, rng: np.random.Generator) -> None:
    sizes = rng.integers(2, 7, 3).tolist()
    close = 1e-11 if forward is weft.float64 else 2e-5
    for backward in DTYPES:
        expected = gradients(BODIES[name], sizes, forward, backward)
        for a, b in zip(gradients(weft.compile(BODIES[name]), sizes, forward, backward), expected, strict=True):
            assert a.dtype == b.dtype
            np.testing.assert_allclose(a, b, close, close * max(1, np.abs(b).max()))


@pytest.mark.parametrize("name", [n for n in BODIES if n != "eye"])
@pytest.mark.parametrize("create_graph", [False, True])
def test_captured_backward_calls(name: str, create_graph: bool, rng: np.random.Generator) -> None:
    """A captured graph goes by the default dtype of its capture: the function's gradients became a part of one that has
    another, and of later calls."""
    compiled, sizes = weft.compile(BODIES[name]), rng.integers(2, 7, 2).tolist()
    for backward in (weft.bfloat16, weft.float64, weft.float32, weft.bfloat16):
        for n in sizes:
            x, i = weft.linspace(0.1, 1, n, dtype=weft.float64).requires_grad_(), weft.arange(n)
            (expected,) = weft.autograd.grad(BODIES[name](x, i).square().sum(), x)
            y = compiled(x, i)
            with default_dtype(backward), weft.compiled_autograd.enable():
                (g,) = weft.autograd.grad(y.square().sum(), x, create_graph=create_graph)
            np.testing.assert_allclose(g.detach().numpy(), expected.numpy(), 1e-5, 1e-5)


def test_a_block_is_its_threads_own() -> None:
    """Inside, operators of this thread go by it, also those that were called before; outside nothing has changed."""
    i, elsewhere = weft.arange(3), []
    assert (i / 2).dtype is weft.float32
    with within_default(weft.float64):
        assert (i / 2).dtype is weft.zeros(1).dtype is weft.float64
        thread = threading.Thread(target=lambda: elsewhere.append((get_default(), weft.zeros(1).dtype)))
        thread.start()
        thread.join()
        with within_default(weft.bfloat16):
            assert i.sin().dtype is weft.bfloat16
        assert i.sin().dtype is weft.float64
    assert elsewhere == [(weft.float32, weft.float32)]
    assert (i / 2).dtype is weft.zeros(1).dtype is weft.float32

"""The backward of one result of a compiled call needs what its own gradient is computed from: it was refused where
another result, or an argument that only other gradients read, was written in between."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np
import pytest

import weft
from weft.compiled_autograd import enable, interpret
from weft.errors import VersionError

WAYS: dict[str, tuple[Callable[[Any], Any], Callable[[], AbstractContextManager[Any]]]] = {
    "native": (weft.compile, nullcontext),
    "interpreted": (lambda f: weft.compile(f, backend="interpret"), nullcontext),
    "compiled autograd": (weft.compile, lambda: enable(interpret)),
}


def _function(x: Any, w: Any) -> Any:
    inner = x * 2
    return inner.sin() * w, inner, x * w


def _drawn(rng: np.random.Generator) -> tuple[Any, Any]:
    n = int(rng.integers(2, 6))
    x, w = [weft.tensor(rng.standard_normal(n)).requires_grad_() for _ in range(2)]
    return x, w


def _gradient(of: Any, by: Any, creates: bool) -> Any:
    try:
        return weft.autograd.grad(of.sum(), by, retain_graph=True, create_graph=creates)[0].tolist()
    except VersionError:
        return None


def _all_gradients(function: Any, x: Any, w: Any, creates: bool) -> list[Any]:
    """By each input, with the inner result written, then with an input written too; None for those refused."""
    results = function(x, w)
    gradients = []
    for written in (results[1], w):
        with weft.no_grad():
            written.mul_(2)
        gradients += [_gradient(r, by, creates) for r in results for by in (x, w) if r is not results[1] or by is x]
    return gradients


@pytest.mark.parametrize("creates", [False, True])
@pytest.mark.parametrize("way", WAYS)
def test_what_is_not_needed_may_be_written(way: str, creates: bool, rng: np.random.Generator) -> None:
    wrap, block = WAYS[way]
    x, w = _drawn(rng)
    values = w.tolist()
    expected = _all_gradients(_function, x, w, creates)
    assert sum(g is not None for g in expected) >= 4 and None in expected
    with block():
        w = weft.tensor(values, dtype=x.dtype).requires_grad_()
        actual = _all_gradients(wrap(_function), x, w, creates)
    for a, b in zip(expected, actual, strict=True):
        if a is not None:
            assert b is not None
            np.testing.assert_allclose(a, b)


@pytest.mark.parametrize("way", WAYS)
def test_what_is_needed_may_not(way: str, rng: np.random.Generator) -> None:
    wrap, block = WAYS[way]
    x, w = _drawn(rng)
    with block():
        product = wrap(_function)(x, w)[2]
        with weft.no_grad():
            w.mul_(2)
        with pytest.raises(VersionError):
            weft.autograd.grad(product.sum(), x)


def test_gradients_of_one_result_that_is_a_subclass(rng: np.random.Generator) -> None:
    """A case that test_histories drew."""

    class Told(weft.Tensor):
        @classmethod
        def __weft_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            out = super().__weft_function__(func, types, args, kwargs)
            return (out.as_subclass(weft.Tensor) * 2).as_subclass(cls) if func.__name__ == "sin" else out

    def function(x: Any, h: Any) -> Any:
        inner = x + h
        return inner.as_subclass(Told).sin() * inner, inner

    x, h = _drawn(rng)
    inner = weft.compile(function)(x, h)[1]
    inner.mul_(2)
    with weft.no_grad():
        inner.mul_(2)
    np.testing.assert_allclose(weft.autograd.grad(inner.sum(), x)[0].tolist(), [2.0] * x.shape[0])

"""Products with Jacobians in traces run their function again: it draws what it drew for the value."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import pytest

import weft


def noisy(x: weft.Tensor) -> weft.Tensor:
    return (x * weft.rand_like(x)).sin() * weft.nn.functional.dropout(x, 0.5)


def by_vjp(x: weft.Tensor) -> tuple[weft.Tensor, ...]:
    y, pull = weft.func.vjp(noisy, x)
    (first,), (second,) = pull(weft.ones_like(y)), pull(y)
    return y, first, second, weft.rand_like(x)


def by_linearize(x: weft.Tensor) -> tuple[weft.Tensor, ...]:
    y, product = weft.func.linearize(noisy, x)
    return y, product(weft.ones_like(x)), product(x), weft.rand_like(x)


def by_two(x: weft.Tensor) -> tuple[weft.Tensor, ...]:
    y, pull = weft.func.vjp(noisy, x)
    z, other = weft.func.vjp(noisy, x)
    return y, z, *other(weft.ones_like(z)), *pull(weft.ones_like(y))


@pytest.mark.parametrize("function", [by_vjp, by_linearize, by_two])
@pytest.mark.parametrize("device", ["cpu", "lazy"])
def test_they_agree(function: Callable[[weft.Tensor], tuple[weft.Tensor, ...]], device: str) -> None:
    traced = weft.jit.trace(function, (weft.linspace(-1.0, 1.0, 3, device=device),), check_trace=False)
    file = io.BytesIO()
    weft.jit.save(traced, file)
    file.seek(0)
    for program in (traced, weft.jit.load(file), weft.compile(traced)):
        for size in (4, 6, 4):
            found: list[Any] = []
            for run in (function, program):
                weft.manual_seed(size)
                found.append([t.tolist() for t in run(weft.linspace(-1.0, 1.5, size, device=device))])
                found[-1].append(weft.get_rng_state().tolist())
            for theirs, ours in zip(*found, strict=True):
                assert ours == pytest.approx(theirs)


def test_a_generator_of_its_own_is_refused() -> None:
    generator = weft.Generator().manual_seed(3)

    def step(x: weft.Tensor) -> weft.Tensor:
        y, pull = weft.func.vjp(lambda v: v * weft.rand(v.shape, generator=generator), x)
        return y + pull(weft.ones_like(y))[0]  # type: ignore[no-any-return]

    with pytest.raises(weft.WeftError, match=r"test_draws_in_traced_jvp\.py:\d+.*draws from a generator that it"):
        weft.jit.trace(step, (weft.ones(3),), check_trace=False)

"""Attention in one kernel: values and gradients against NumPy in float64, masks, layouts, sizes, memory."""

from __future__ import annotations

import math
import random
from typing import Any

import numpy as np
import pytest

import weft
import weft.nn.functional as F

Array = np.ndarray[Any, Any]
SIZES = (1, 2, 5, 16, 31, 47, 48, 49, 97)


def expected(q: Array, k: Array, v: Array, bias: Array, g: Array, scale: float) -> tuple[Array, ...]:
    """The output and the gradients by q, k and v."""
    scores = q @ k.swapaxes(-1, -2) * scale + bias
    greatest = scores.max(-1, keepdims=True)
    powers = np.exp(scores - np.where(np.isinf(greatest), 0, greatest))
    total = powers.sum(-1, keepdims=True)
    weights = powers / np.where(total == 0, 1, total)
    of_weights = g @ v.swapaxes(-1, -2)
    of_scores = weights * (of_weights - (weights * of_weights).sum(-1, keepdims=True)) * scale
    return weights @ v, of_scores @ k, of_scores.swapaxes(-1, -2) @ q, weights.swapaxes(-1, -2) @ g


def step(q: Any, k: Any, v: Any, mask: Any, g: Any, causal: bool = False, scale: float | None = None) -> Any:
    out = F.scaled_dot_product_attention(q, k, v, mask, is_causal=causal, scale=scale)
    return (out, *weft.autograd.grad(out, [q, k, v], g))


def drawn(shape: tuple[int, ...], dtype: str) -> Array:
    """In one of several layouts."""
    normal, layout = np.random.standard_normal, random.randrange(4)
    if layout == 0 and len(shape) > 2:  # heads behind the rows
        return normal((*shape[:-3], shape[-2], shape[-3], shape[-1])).astype(dtype).swapaxes(-2, -3)
    if layout == 1:
        return normal((*shape[:-2], shape[-1], shape[-2])).astype(dtype).swapaxes(-1, -2)
    if layout == 2:
        return normal((*shape[:-1], shape[-1] + 3)).astype(dtype)[..., : shape[-1]]
    return normal(shape).astype(dtype)


def drawn_mask(kind: str, shape: tuple[int, ...], dtype: str) -> tuple[Array, Array]:
    """A mask, which lacks some dims, and what it adds to scores."""
    dims = tuple(d if random.random() < 0.7 else 1 for d in shape)[random.randrange(len(shape) - 1) :]
    hidden = np.random.random(dims) < 0.3
    if kind == "bool":
        return ~hidden, np.where(hidden, -np.inf, 0.0)
    mask = np.where(hidden, -np.inf, np.random.standard_normal(dims)).astype(dtype)
    return mask, mask.astype(np.float64)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("kind", ["none", "causal", "bool", "float"])
def test_values_and_gradients(kind: str, dtype: str) -> None:
    compiled = weft.compile(step)
    weft.counters.reset()
    for _ in range(8):
        lead = random.choice([(), (3,), (2, 3), (2, 1, 2)])
        length, keys, width, values = (random.choice(SIZES) for _ in range(4))
        scale = random.choice([None, 0.3])
        q, k = drawn((*lead, length, width), dtype), drawn((*lead, keys, width), dtype)
        v, g = drawn((*lead, keys, values), dtype), drawn((*lead, length, values), dtype)
        mask, bias = None, np.zeros(())
        if kind == "causal":
            bias = np.where(np.arange(keys) > np.arange(length)[:, None], -np.inf, 0.0)
        elif kind != "none":
            array, bias = drawn_mask(kind, (*lead, length, keys), dtype)
            mask = weft.from_numpy(array)
        leaves = [weft.from_numpy(x).requires_grad_() for x in (q, k, v)]
        results = compiled(*leaves, mask, weft.from_numpy(g), kind == "causal", scale)
        wide = [x.astype(np.float64) for x in (q, k, v)]
        wanted = expected(*wide, bias, g.astype(np.float64), 1 / math.sqrt(width) if scale is None else scale)
        bound = 3e-4 if dtype == "float32" else 1e-11
        for result, want in zip(results, wanted, strict=True):
            np.testing.assert_allclose(result.detach().numpy(), want, rtol=bound, atol=bound * (1 + abs(want).max()))
    assert weft.counters.foreign_segments == 0


def test_one_program_serves_every_length_and_keeps_no_scores() -> None:
    compiled = weft.compile(lambda q, k, v, g: step(q, k, v, None, g, causal=True))
    weft.counters.reset()
    for length in (64, 100, 1000):
        q, k, v, g = (weft.randn(2, length, 16, requires_grad=at < 3) for at in range(4))
        compiled(q, k, v, g)
    assert weft.counters.captures <= 2 and weft.counters.foreign_segments == 0
    sizes = []
    for length in (1000, 2000, 4000):
        q, k, v, g = (weft.ones(1, length, 4, requires_grad=at < 3) for at in range(4))
        sizes.append(weft.explain(compiled, q, k, v, g).programs[-1].arena_bytes)
    assert sizes[2] - sizes[1] < 2.5 * (sizes[1] - sizes[0])  # four times as much with all scores


def test_the_second_derivative(rng: np.random.Generator) -> None:
    q, k, v = (weft.from_numpy(rng.standard_normal((1, 3, 2))).requires_grad_() for _ in range(3))
    mask = weft.from_numpy(rng.standard_normal((3, 3))).requires_grad_()
    flags = weft.from_numpy(np.array([[True, False, True], [True, True, True], [False, False, False]]))
    for arguments, causal in (((q, k, v, mask), False), ((q, k, v, flags), False), ((q, k, v, None), True)):
        inputs = [x for x in arguments if x is not None and x.requires_grad]
        call = lambda *xs, m=arguments[3], c=causal: F.scaled_dot_product_attention(  # noqa: E731
            *xs[:3], xs[3] if len(xs) > 3 else m, is_causal=c)
        assert weft.autograd.gradcheck(call, inputs) and weft.autograd.gradgradcheck(call, inputs, fast_mode=True)


def test_a_row_with_a_value_that_is_no_number_spoils_no_other(rng: np.random.Generator) -> None:
    q, k, v = (rng.standard_normal((1, 60, 8)).astype(np.float32) for _ in range(3))
    q[0, 7, 3] = np.nan
    out = weft.compile(lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True))(
        *(weft.from_numpy(x) for x in (q, k, v))).numpy()
    assert np.isnan(out[0, 7]).all() and not np.isnan(np.delete(out, 7, 1)).any()


def test_sizes_that_do_not_fit() -> None:
    compiled = weft.compile(lambda q, k, v: F.scaled_dot_product_attention(q, k, v))
    for shapes in (((2, 3, 4), (2, 5, 3), (2, 5, 3)), ((2, 3, 4), (2, 5, 4), (2, 6, 4))):
        with pytest.raises(RuntimeError):
            compiled(*(weft.ones(*shape) for shape in shapes))


def test_the_same_bits_for_every_number_of_threads(rng: np.random.Generator) -> None:
    compiled = weft.compile(lambda q, k, v, g: step(q, k, v, None, g, causal=True))
    q, k, v, g = (weft.from_numpy(rng.standard_normal((3, 200, 16)).astype(np.float32)) for _ in range(4))
    leaves = [x.requires_grad_() for x in (q, k, v)]
    threads, seen = weft.get_num_threads(), set()
    try:
        for count in (1, 2, 8):
            weft.set_num_threads(count)
            seen.add(b"".join(x.detach().numpy().tobytes() for x in compiled(*leaves, g)))
    finally:
        weft.set_num_threads(threads)
    assert len(seen) == 1

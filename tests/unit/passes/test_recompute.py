"""What a compiled forward saves: by counts of bytes, by hand, and against all choices of small graphs."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import weft
from weft.passes.min_cut import INFINITE, Network

Rng = np.random.Generator
F = weft.nn.functional


def saved(out: weft.Tensor) -> tuple[list[int], int]:
    """Of what the history of a compiled function's result keeps: the bytes of each value that is no input, and how many
    inputs it keeps."""
    node: Any = out.grad_fn
    found = {id(s): s.nbytes for s in node.saved if not isinstance(s, tuple)}
    found |= {id(s[1]): s[1].nbytes for s in node.saved if isinstance(s, tuple) and s[0].is_output}
    return sorted(found.values()), sum(isinstance(s, tuple) and not s[0].is_output for s in node.saved)


def gradients(f: Callable[..., Any], *inputs: weft.Tensor) -> list[np.ndarray[Any, Any]]:
    out = f(*inputs)
    weights = weft.linspace(0.5, 1.5, out.numel(), dtype=out.dtype).reshape(out.shape)
    return [g.numpy() for g in weft.autograd.grad((out * weights).sum(), inputs)]


def inputs(rng: Rng, *shapes: tuple[int, ...], dtype: type = np.float32) -> list[weft.Tensor]:
    return [weft.from_numpy(rng.standard_normal(s).astype(dtype)).requires_grad_() for s in shapes]


def branches(x: weft.Tensor, w: weft.Tensor) -> weft.Tensor:
    a = x @ w  # two branches over one product: the product is the cut, not the four values that formulas ask for
    return a.exp() * a.sin() + (a * a).abs().sqrt()


def chain(x: weft.Tensor, w: weft.Tensor) -> weft.Tensor:
    """GELU, softmax, layer norm: what formulas ask for are the product, the softmax, mean and deviation of its rows."""
    return F.layer_norm(F.softmax(F.gelu(x @ w), -1), (w.shape[1],))


def narrowed(x: weft.Tensor, w: weft.Tensor) -> weft.Tensor:
    """Two uses of a cast: what is saved is the half that it came from."""
    wide = (x @ w).half().float()
    return wide.sin() * wide.cos()


def inputs_alone(x: weft.Tensor, w: weft.Tensor) -> weft.Tensor:
    return (x * w).sigmoid() * x + w


@pytest.mark.parametrize(("f", "bytes_of", "kept"), [
    (branches, lambda n, k: [4 * n * k], 2),
    (chain, lambda n, k: [4 * n, 4 * n, 4 * n * k, 4 * n * k], 2),
    (narrowed, lambda n, k: [2 * n * k], 2),
    (inputs_alone, lambda n, k: [], 2),
], ids=["branches", "chain", "narrowed", "inputs"])
def test_saved_bytes_at_every_size(f: Any, bytes_of: Any, kept: int, rng: Rng) -> None:
    compiled = weft.compile(f)
    for n in (5, 3, 8, int(rng.integers(4, 30))):
        k = int(rng.integers(4, 9))
        x, w = inputs(rng, (n, k), (n, k) if f is inputs_alone else (k, k))
        assert saved(compiled(x, w)) == (bytes_of(n, k), kept)
        for found, expected in zip(gradients(compiled, x, w), gradients(f, x, w), strict=True):
            np.testing.assert_allclose(found, expected, rtol=2e-4, atol=2e-5)
    assert len(compiled.entries) == 1


def backward_of(compiled: Any) -> list[str]:
    return [node.op.base for node in compiled.entries[0].joint.halves.backward.nodes]


def test_functions_are_done_twice_up_to_the_price_of_their_bytes(rng: Rng) -> None:
    """Two exponentials are worth a float32; of a chain of eight functions some values are saved, not all eight."""
    compiled = weft.compile(lambda x, w: (x @ w).exp().sin().cos().exp().sin().cos().exp().sin())
    x, w = inputs(rng, (6, 4), (4, 4))
    count = len(saved(compiled(x, w))[0])
    assert 3 <= count <= 5
    assert backward_of(compiled).count("exp") <= 2


def test_products_draws_and_sums_are_never_done_twice(rng: Rng) -> None:
    def f(x: weft.Tensor, w: weft.Tensor) -> weft.Tensor:
        y = F.dropout(x @ w, 0.5)
        return (y - y.logsumexp(1, keepdim=True)).exp() * y

    compiled = weft.compile(f)
    x, w = inputs(rng, (9, 4), (4, 4), dtype=np.float64)
    compiled(x, w)
    names = backward_of(compiled)
    assert names.count("mm") == 2 and not {"uniform", "bernoulli", "rand", "amax", "max"}.intersection(names)
    graph = compiled.entries[0].joint.halves.backward
    assert not any(node.op.effect == "random" for node in graph.walk())


def test_the_mask_of_a_dropout_is_what_it_was(rng: Rng) -> None:
    compiled = weft.compile(lambda x: F.dropout(x.exp(), 0.5))
    (x,) = inputs(rng, (50,), dtype=np.float64)
    y = compiled(x)
    (g,) = weft.autograd.grad(y.sum(), x)
    np.testing.assert_allclose(g.numpy(), y.detach().numpy())  # the derivative of exp, with the same mask


def test_an_input_that_is_written_is_not_computed_from(rng: Rng) -> None:
    def f(x: weft.Tensor, state: weft.Tensor) -> weft.Tensor:
        y = (state * 2).exp() * x
        state.mul_(3)
        return y.sin()

    (x,) = inputs(rng, (5,))
    values = rng.standard_normal(5).astype(np.float32)
    found = gradients(lambda x: weft.compile(f)(x, weft.from_numpy(values.copy())), x)
    expected = gradients(lambda x: f(x, weft.from_numpy(values.copy())), x)
    np.testing.assert_allclose(found[0], expected[0], rtol=1e-5)


def test_a_result_that_is_saved_and_written_is_an_error(rng: Rng) -> None:
    """As in eager mode where a formula asks for it; what no formula asks for the caller may write."""
    x, w = inputs(rng, (4, 3), (3, 3))
    compiled = weft.compile(lambda x, w: (x @ w).exp())
    out = compiled(x, w)
    with weft.no_grad():
        out.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        out.sum().backward()

    def two(x: weft.Tensor, w: weft.Tensor) -> Any:
        a = x @ w
        return a, a.exp() * a.exp().sin() * a.exp().cos()

    a, y = weft.compile(two)(x, w)
    expected = gradients(lambda x, w: two(x, w)[1], x, w)
    with weft.no_grad():
        a.zero_()
    weights = weft.linspace(0.5, 1.5, y.numel()).reshape(y.shape)
    for g, e in zip(weft.autograd.grad((y * weights).sum(), (x, w)), expected, strict=True):
        np.testing.assert_allclose(g.numpy(), e, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("seed", range(20))
def test_the_cut_is_the_cheapest_of_all(rng: Rng, seed: int) -> None:
    """Small networks against every choice of the sink's side."""
    count = int(rng.integers(2, 7))
    network = Network()
    vertices = [network.vertex() for _ in range(count)]
    edges = []
    for a, b in itertools.permutations([Network.SOURCE, Network.SINK, *vertices], 2):
        if a != Network.SINK and b != Network.SOURCE and rng.random() < 0.5:
            edges.append((a, b, INFINITE if a != 0 and b != 1 and rng.random() < 0.2 else int(rng.integers(1, 20))))
            network.connect(*edges[-1])

    def cost(behind: set[int]) -> int:
        return sum(c for a, b, c in edges if a not in behind and b in behind)

    choices = [
        {Network.SINK, *some} for size in range(count + 1) for some in itertools.combinations(vertices, size)
    ]
    least = min(map(cost, choices))
    found = network.behind_cut()
    assert cost(found) == least
    assert len(found) == min(len(c) for c in choices if cost(c) == least)

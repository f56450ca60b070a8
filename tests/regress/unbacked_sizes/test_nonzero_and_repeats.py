"""Unbacked sizes (nonzero, repeats): the node that finds one stays though only its size is read,
and a backward that is a second program learns it. Before, both took such a size for 0, and gave zeros."""

from __future__ import annotations

import numpy as np
import pytest

import weft
from weft.ir.parser import parse_graph

BACKENDS = ("llvm", "numpy", "interpret")


@pytest.fixture(params=BACKENDS)
def backend(request: pytest.FixtureRequest):  # type: ignore[no-untyped-def]
    with weft.knobs(backend=request.param):
        yield


@pytest.mark.usefixtures("backend")
def test_a_mask_of_which_only_the_count_is_read(rng: np.random.Generator) -> None:
    x = weft.from_numpy(rng.standard_normal((1, 3)))
    spread = weft.compile(lambda x, mask: x.expand(mask.nonzero().size(0), 3) * 2)
    for count in rng.permutation(5):
        mask = weft.arange(4) < int(count)
        assert spread(x, mask).tolist() == (x.expand(int(count), 3) * 2).tolist()


@pytest.mark.usefixtures("backend")
def test_the_gradient_of_a_sum_over_a_size_that_was_found(rng: np.random.Generator) -> None:
    x = weft.from_numpy(rng.standard_normal((1, 3))).requires_grad_()
    total = weft.compile(lambda x, mask: (x.exp().expand(mask.nonzero().size(0), 3) * 2).sum())
    for count in rng.permutation(5):
        x.grad = None
        total(x, weft.arange(4) < int(count)).backward()
        np.testing.assert_allclose(x.grad.numpy(), 2 * int(count) * np.exp(x.detach().numpy()))


def test_such_a_function_is_explained_and_its_graphs_are_text() -> None:
    x, mask = weft.ones(4, 3).requires_grad_(), weft.arange(4) > 0
    total = weft.compile(lambda x, mask: (x[mask].exp().sum(0).expand(mask.nonzero().size(0), 3) * 2).sum())
    assert "backward: operators" in weft.explain(total, x, mask).details()
    with weft.knobs(check=2):
        halves = total(x, mask).grad_fn.program.halves
    assert halves.sizes
    for graph in (halves.forward, halves.backward):
        assert str(parse_graph(str(graph))) == str(graph)


@pytest.mark.usefixtures("backend")
@pytest.mark.parametrize("dim", [0, 1])
def test_the_gradient_of_repeats(rng: np.random.Generator, dim: int) -> None:
    x = weft.from_numpy(rng.standard_normal((3, 3))).requires_grad_()
    spread = weft.compile(lambda x, repeats: weft.repeat_interleave(x, repeats, dim=dim).sin())
    for _ in range(3):
        repeats = rng.integers(0, 4, 3)
        y = spread(x, weft.from_numpy(repeats))
        cotangent = rng.standard_normal(tuple(y.shape))
        (found,) = weft.autograd.grad(y, x, weft.from_numpy(cotangent))
        rows = np.repeat(np.arange(3), repeats)
        expected = np.zeros((3, 3))
        np.add.at(expected, rows if dim == 0 else (slice(None), rows), cotangent)
        np.testing.assert_allclose(found.numpy(), expected * np.cos(x.detach().numpy()))


@pytest.mark.usefixtures("backend")
@pytest.mark.parametrize("in_step", [False, True])
def test_a_pick_of_what_a_pass_rewrites_keeps_its_size(rng: np.random.Generator, in_step: bool) -> None:
    """layer_norm is taken apart, so the pick behind it is emitted anew;
    the backward goes by the size of the first pick."""
    norm = weft.nn.LayerNorm(3)
    x = weft.from_numpy(rng.standard_normal((4, 3)).astype(np.float32))
    wanted = weft.from_numpy(rng.standard_normal(3).astype(np.float32))

    def loss(mask: weft.Tensor) -> weft.Tensor:
        picked = norm(x)[mask]
        return (picked.exp() * wanted).sum() + picked.cumsum(0).square().sum()

    def step(mask: weft.Tensor) -> weft.Tensor:
        result = loss(mask)
        result.backward()
        return result

    compiled = weft.compile(step if in_step else loss)
    for count in rng.permutation(5):
        mask = weft.arange(4) < int(count)
        found = []
        for run in (compiled, step if in_step else loss):
            norm.zero_grad()
            result = run(mask)
            if not in_step:
                result.backward()
            found.append([result.item(), norm.weight.grad.numpy().copy(), norm.bias.grad.numpy().copy()])
        for captured, eager in zip(*found, strict=True):
            np.testing.assert_allclose(captured, eager, rtol=1e-4, atol=1e-4)

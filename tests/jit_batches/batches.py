"""Batches for tests: examples of sizes that are drawn, and the comparison with a loop over the examples."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import weft
from weft.jit import BatchTensor

Dims = Sequence[tuple[bool, int]]  # for each dim whether its size differs, and its largest size


def draw(rng: np.random.Generator, count: int, *dims: tuple[bool, int], dtype: Any = np.float64) -> list[Any]:
    """Examples [1, ...] of leaves."""
    shapes = [(1, *(int(rng.integers(1, n + 1)) if differs else n for differs, n in dims)) for _ in range(count)]
    return [weft.from_numpy(rng.uniform(-1, 1, s).astype(dtype)).requires_grad_() for s in shapes]


def batch_of(examples: Sequence[Any], *dims: tuple[bool, int]) -> BatchTensor:
    """The examples as a batch."""
    return BatchTensor(list(examples), weft.tensor([differs for differs, _ in dims]).to(weft.bool))


def drawn_batch(rng: np.random.Generator, count: int, *dims: tuple[bool, int]) -> tuple[list[Any], BatchTensor]:
    """Examples, and the batch of them."""
    examples = draw(rng, count, *dims)
    return examples, batch_of(examples, *dims)


def close(found: Any, wanted: Any, scale: float = 1.0) -> None:
    """Equal shapes and dtypes, and values as far as sums in another order, of terms of this size, allow."""
    assert found.shape == wanted.shape and found.dtype is wanted.dtype, (found, wanted)
    np.testing.assert_allclose(found.detach().numpy(), wanted.detach().numpy(), rtol=1e-9, atol=1e-11 * scale)


def all_close(found: BatchTensor, wanted: Sequence[Any]) -> None:
    """The examples of a batch are these."""
    examples = found.examples()
    assert len(examples) == len(wanted)
    for one, other in zip(examples, wanted, strict=True):
        close(one, other)
    assert not np.isnan(found.data.detach().numpy()[~_inside(found)]).any()


def _inside(found: BatchTensor) -> Any:
    return np.broadcast_to(found.mask.numpy(), tuple(found.data.shape))


def gradients(results: Sequence[Any], leaves: Sequence[Any], seeds: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    """First and second gradients: of the results, and of what the first ones are worth together."""
    total = sum((r * s).sum() for r, s in zip(results, seeds, strict=True))
    first = weft.autograd.grad(total, leaves, create_graph=True, allow_unused=True)
    worth = sum((g * g).sum() for g in first if g is not None and g.requires_grad)
    if not isinstance(worth, weft.Tensor) or not worth.requires_grad:
        return list(first), []
    return list(first), list(weft.autograd.grad(worth, leaves, allow_unused=True, retain_graph=True))


def same_gradients(found: BatchTensor, wanted: Sequence[Any], leaves: Sequence[Any], rng: np.random.Generator) -> None:
    """The gradients through the batch, first and second, are those through the loop over the examples."""
    seeds = [weft.from_numpy(rng.uniform(-1, 1, tuple(w.shape))) for w in wanted]
    one, other = gradients(found.examples(), leaves, seeds), gradients(wanted, leaves, seeds)
    for order in (0, 1):
        scale = max([100.0, *(100 * float(g.abs().max()) for g in other[order] if g is not None and g.numel())])
        for mine, theirs in zip(one[order], other[order], strict=True):
            # what does not reach a leaf is nothing in one, and zeros in the other
            zeros = weft.zeros_like(mine if theirs is None else theirs) if (mine is None) != (theirs is None) else None
            if mine is not None or theirs is not None:
                close(zeros if mine is None else mine, zeros if theirs is None else theirs, scale)


def agrees(
    rng: np.random.Generator, function: Callable[..., Any], batched: Callable[..., Any], *given: Any,
    single: Callable[..., Any] | None = None,
) -> BatchTensor:
    """Run both: `given` are pairs (examples, batch), or values that all share. Values and gradients agree."""
    batches = [g[1] if isinstance(g, tuple) else g for g in given]
    count = next(g[1] for g in given if isinstance(g, tuple)).batch_size
    wanted = [(single or function)(*[g[0][at] if isinstance(g, tuple) else g for g in given]) for at in range(count)]
    found = batched(*batches)
    all_close(found, wanted)
    leaves = [leaf for g in given for leaf in (g[0] if isinstance(g, tuple) else [g]) if isinstance(leaf, weft.Tensor)]
    leaves = [leaf for leaf in leaves if leaf.requires_grad]
    if any(w.requires_grad for w in wanted):
        same_gradients(found, wanted, leaves, rng)
    return found

"""Checks of collectives that gradients flow through, run by ranks.py in every rank: at orders 1 and 2 against the same
computation in one process, which has the tensors of all ranks."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import weft
import weft.distributed as dist
import weft.distributed.nn as dist_nn
from weft import Tensor

ROOT = 1
# by name: what a rank computes of its tensor (three parts along dim 0), and what each rank gets in one process
Local = Callable[[Tensor], list[Tensor]]
All = Callable[[list[Tensor]], list[list[Tensor]]]


def _parts(x: Tensor) -> list[Tensor]:
    return list(x.chunk(dist.get_world_size()))


def _sum(xs: list[Tensor]) -> Tensor:
    return weft.stack(xs).sum(0)


def _at_root(xs: list[Tensor], at_root: list[Tensor], else_: Callable[[Tensor], list[Tensor]]) -> list[list[Tensor]]:
    return [at_root if r == ROOT else else_(x) for r, x in enumerate(xs)]


def _zeros(x: Tensor) -> list[Tensor]:
    return [weft.zeros_like(x) for _ in range(dist.get_world_size())]


def _split_sizes() -> tuple[list[int], list[int]]:
    """How many rows this rank takes from each, and sends to each: rank s sends r + 1 rows to rank r (and one more is
    all that it has, for the last)."""
    n, rank = dist.get_world_size(), dist.get_rank()
    return [rank + 1] * n, [r + 1 for r in range(n)]


def _rows(x: Tensor) -> Tensor:
    return x[: sum(_split_sizes()[1])]


def _exchanged_single(x: Tensor) -> list[Tensor]:
    taken, sent = _split_sizes()
    return [dist_nn.all_to_all_single(x.new_empty(sum(taken), *x.shape[1:]), _rows(x), taken, sent)]


def _exchanged_truth(xs: list[Tensor]) -> list[list[Tensor]]:
    n = len(xs)
    starts = [sum(range(1, r + 1)) for r in range(n)]
    return [[weft.cat([x[starts[r] : starts[r] + r + 1] for x in xs])] for r in range(n)]


CASES: dict[str, tuple[Local, All]] = {
    "all_reduce": (lambda x: [dist_nn.all_reduce(x)], lambda xs: [[_sum(xs)] for _ in xs]),
    "mean": (
        lambda x: [dist_nn.all_reduce(x, dist.ReduceOp.AVG)], lambda xs: [[_sum(xs) / len(xs)] for _ in xs]
    ),
    "broadcast": (lambda x: [dist_nn.broadcast(x, ROOT)], lambda xs: [[xs[ROOT]] for _ in xs]),
    "gather": (lambda x: list(dist_nn.gather(x, ROOT)), lambda xs: _at_root(xs, xs, _zeros)),
    "scatter": (
        lambda x: [dist_nn.scatter(_parts(x), ROOT)], lambda xs: [[part] for part in _parts(xs[ROOT])]
    ),
    "all_gather": (lambda x: list(dist_nn.all_gather(x)), lambda xs: [xs for _ in xs]),
    "reduce_scatter": (
        lambda x: [dist_nn.reduce_scatter(_parts(x)[0], _parts(x))], lambda xs: [[part] for part in _parts(_sum(xs))]
    ),
    "reduce_scatter_mean": (
        lambda x: [dist_nn.reduce_scatter(_parts(x)[0], _parts(x), dist.ReduceOp.AVG)],
        lambda xs: [[part] for part in _parts(_sum(xs) / len(xs))],
    ),
    "all_to_all": (
        lambda x: list(dist_nn.all_to_all(_parts(x), _parts(x))),
        lambda xs: [[_parts(x)[r] for x in xs] for r in range(len(xs))],
    ),
    "all_to_all_single": (_exchanged_single, _exchanged_truth),
}  # fmt: skip


def _loss(results: list[Tensor], rank: int) -> Tensor:
    """Another one in each rank, with a second derivative."""
    return weft.stack([((i + 1.0 + rank) * out.sin() * out).sum() for i, out in enumerate(results)]).sum()


def check_gradients_of_collectives() -> None:
    n, rank = dist.get_world_size(), dist.get_rank()
    rng = np.random.default_rng(7)
    for name, (local, of_all) in CASES.items():
        for dtype in (weft.float64, weft.float32):
            values = rng.uniform(-1, 1, (n, n * (n + 1), 3))
            mine = weft.tensor(values[rank]).to(dtype).requires_grad_()
            everyone = [weft.tensor(v).to(dtype).requires_grad_() for v in values]
            results = local(mine * 1)
            expected = of_all([x * 1 for x in everyone])
            for out, truth in zip(results, expected[rank], strict=True):
                np.testing.assert_allclose(out.detach().numpy(), truth.detach().numpy(), 1e-5, 1e-6, err_msg=name)
            total = weft.stack([_loss(each, r) for r, each in enumerate(expected)]).sum()
            grads = weft.autograd.grad(total, everyone, create_graph=True, materialize_grads=True)
            (grad,) = weft.autograd.grad(_loss(results, rank), mine, create_graph=True)
            np.testing.assert_allclose(grad.detach().numpy(), grads[rank].detach().numpy(), 1e-4, 1e-5, err_msg=name)
            squares = weft.stack([(g * g).sum() for g in grads]).sum()
            second = weft.autograd.grad(squares, everyone, materialize_grads=True)[rank]
            (grad * grad).sum().backward()
            assert mine.grad is not None
            np.testing.assert_allclose(mine.grad.numpy(), second.numpy(), 1e-3, 1e-4, err_msg=f"{name}, order 2")


def check_a_reduction_to_one_rank() -> None:
    n, rank = dist.get_world_size(), dist.get_rank()
    x = weft.full((3,), rank + 1.0, requires_grad=True)
    out = dist_nn.reduce(x, ROOT)
    if rank == ROOT:
        np.testing.assert_allclose(out.detach().numpy(), n * (n + 1) / 2)
    (out * (10.0 if rank == ROOT else 0.0)).sum().backward()
    assert x.grad is not None
    np.testing.assert_allclose(x.grad.numpy(), 10.0)
    with pytest.raises(weft.WeftError, match="SUM and AVG only"):
        dist_nn.reduce(x, ROOT, dist.ReduceOp.MAX)

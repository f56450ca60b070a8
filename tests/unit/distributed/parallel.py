"""Checks of data parallel training, run by ranks.py in every rank. Truth is one process with the whole batch."""

from __future__ import annotations

import copy
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import weft
import weft.distributed as dist
import weft.distributed.checkpoint as dcp
import weft.nn.functional as F
from weft import nn
from weft.distributed.optim import ZeroRedundancyOptimizer
from weft.nn.parallel import DistributedDataParallel
from weft.utils.data import DistributedSampler

ROWS = 6  # of each rank


def model(seed: int = 0) -> nn.Module:
    weft.manual_seed(seed)
    return nn.Sequential(nn.Linear(5, 7), nn.Tanh(), nn.Linear(7, 7), nn.ReLU(), nn.Linear(7, 3))


def batch(salt: int = 0) -> tuple[weft.Tensor, weft.Tensor]:
    """The whole batch, the same in every rank."""
    rng = np.random.default_rng([salt, 7])
    rows = ROWS * dist.get_world_size()
    return weft.tensor(rng.standard_normal((rows, 5)).astype(np.float32)), weft.tensor(rng.integers(0, 3, rows))


def mine(t: weft.Tensor) -> weft.Tensor:
    rank = dist.get_rank()
    return t[rank * ROWS : (rank + 1) * ROWS]


def close(one: Any, other: Any) -> None:
    for a, b in zip(one, other, strict=True):
        np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=2e-5, atol=1e-6)


def same_bits(one: Any, other: Any) -> None:
    for a, b in zip(one, other, strict=True):
        np.testing.assert_array_equal(a.detach().numpy().view(np.uint32), b.detach().numpy().view(np.uint32))


def stepper(net: nn.Module, opt: Any) -> Callable[..., weft.Tensor]:
    def step(x: weft.Tensor, y: weft.Tensor) -> weft.Tensor:
        opt.zero_grad()
        loss = F.cross_entropy(net(x), y)
        loss.backward()
        opt.step()
        return loss

    return step


def check_training_equals_one_process_in_every_mode() -> None:
    whole = model()
    reference = stepper(whole, weft.optim.AdamW(whole.parameters(), lr=0.01))
    for salt in range(4):
        reference(*batch(salt))
    modes: dict[str, Callable[[Any], Any]] = {
        "eager": lambda f: f, "compiled": weft.compile, "split": lambda f: weft.compile(f, split=True),
    }
    for mode, wrap in modes.items():
        net = DistributedDataParallel(model(dist.get_rank()), bucket_cap_mb=0.0002)
        assert len(net._buckets) > 2
        step = wrap(stepper(net, weft.optim.AdamW(net.parameters(), lr=0.01)))
        for salt in range(4):
            x, y = batch(salt)
            step(mine(x), mine(y))
        close(net.module.parameters(), whole.parameters())
        assert list(net.state_dict()) == [f"module.{name}" for name in whole.state_dict()], mode


def check_deterministic_sums_are_those_of_parts_in_order() -> None:
    n = dist.get_world_size()
    x, y = batch()
    whole = model()
    for r in range(n):
        part = slice(r * ROWS, (r + 1) * ROWS)
        F.cross_entropy(whole(x[part]), y[part]).backward()
    net = DistributedDataParallel(model(), deterministic=True)
    F.cross_entropy(net(mine(x)), mine(y)).backward()
    same_bits([p.grad for p in net.parameters()], [p.grad / n for p in whole.parameters()])


def check_gradients_are_accumulated_without_messages() -> None:
    x, y = batch()
    whole = model()
    (2 * F.cross_entropy(whole(x), y)).backward()
    net = DistributedDataParallel(model())
    with net.no_sync():
        F.cross_entropy(net(mine(x)), mine(y)).backward()
        local = copy.deepcopy(net.module)
        assert not any(weft.allclose(p.grad, q.grad / 2, atol=1e-7)
                       for p, q in zip(net.parameters(), whole.parameters(), strict=True))
    F.cross_entropy(net(mine(x)), mine(y)).backward()
    close([p.grad for p in net.parameters()], [p.grad for p in whole.parameters()])
    assert local is not net.module


class Ways(nn.Module):
    """A way for even ranks and one for odd ranks."""

    def __init__(self) -> None:
        super().__init__()
        weft.manual_seed(3)
        self.ways = nn.ModuleList([nn.Linear(5, 3), nn.Linear(5, 3)])

    def forward(self, x: weft.Tensor, way: int) -> dict[str, weft.Tensor]:
        return {"y": self.ways[way](x)}


def check_parameters_that_a_rank_does_not_use() -> None:
    n, rank = dist.get_world_size(), dist.get_rank()
    x, _ = batch()
    whole = Ways()
    sum((whole(x[r * ROWS : (r + 1) * ROWS], r % 2)["y"] ** 2).mean() for r in range(n)).backward()
    net = DistributedDataParallel(Ways(), find_unused_parameters=True, bucket_cap_mb=0.00001)
    (net(mine(x), rank % 2)["y"] ** 2).mean().backward()
    close([p.grad for p in net.parameters()], [p.grad / n for p in whole.parameters()])


def check_weights_and_buffers_come_from_rank_0() -> None:
    rank = dist.get_rank()
    norm = nn.Sequential(nn.Linear(5, 4), nn.BatchNorm1d(4))
    norm[1].running_mean.fill_(float(rank))
    net = DistributedDataParallel(norm)
    assert norm[1].running_mean.tolist() == [0.0] * 4
    net(mine(batch()[0]))  # each rank's running statistics are of its own part
    before: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(before, norm[1].running_mean.tolist())
    assert before[0] != before[1]
    norm[1].momentum = 0.0  # they stay
    net(mine(batch()[0]))
    assert norm[1].running_mean.tolist() == before[0]
    with pytest.raises(RuntimeError, match="other names, sizes or dtypes"):
        DistributedDataParallel(nn.Linear(3, 3 + rank))


def check_batch_norm_over_ranks() -> None:
    x, y = batch()
    def net(norm: Any) -> nn.Module:
        weft.manual_seed(5)
        return nn.Sequential(nn.Linear(5, 4), norm, nn.Linear(4, 3))

    whole = net(nn.BatchNorm1d(4))
    F.cross_entropy(whole(x), y).backward()
    for wrap in (lambda f: f, weft.compile):
        synced = DistributedDataParallel(nn.SyncBatchNorm.convert_sync_batchnorm(net(nn.BatchNorm1d(4))))
        wrap(lambda a, b, synced=synced: F.cross_entropy(synced(a), b).backward())(mine(x), mine(y))
        close([p.grad for p in synced.parameters()], [p.grad for p in whole.parameters()])
        close(list(synced.buffers())[:2], list(whole.buffers())[:2])
    alone = nn.SyncBatchNorm(4).eval()
    assert alone(weft.ones(2, 4)).shape == (2, 4)


def check_uneven_inputs() -> None:
    rank = dist.get_rank()
    net = DistributedDataParallel(model())
    opt = weft.optim.SGD(net.parameters(), lr=0.1)
    with net.join():
        for salt in range(2 + 2 * rank):
            x, y = batch(salt)
            stepper(net, opt)(mine(x), mine(y))
    weights: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(weights, [p.tolist() for p in net.parameters()])
    assert all(w == weights[0] for w in weights)
    first = model()
    assert not weft.equal(next(net.parameters()), next(first.parameters()))


def check_sampler_asks_the_group() -> None:
    n, rank = dist.get_world_size(), dist.get_rank()
    sampler = DistributedSampler(range(10), shuffle=False)
    assert list(sampler) == [i % 10 for i in range(rank, -(-10 // n) * n, n)]


def check_optimizer_state_is_shared_out() -> None:
    whole, net = model(), DistributedDataParallel(model())
    plain = weft.optim.AdamW(whole.parameters(), lr=0.01)
    zero = ZeroRedundancyOptimizer(net.parameters(), weft.optim.AdamW, lr=0.01)
    for salt in range(3):
        x, y = batch(salt)
        stepper(whole, plain)(x, y)
        stepper(net, zero)(mine(x), mine(y))
    close(net.module.parameters(), whole.parameters())
    counts: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(counts, len(zero.optim.state) if zero.optim is not None else 0)
    assert sum(counts) == len(list(whole.parameters())) and max(counts) < sum(counts)
    zero.consolidate_state_dict(to=0)
    state = [zero.state_dict() if dist.get_rank() == 0 else None]
    dist.broadcast_object_list(state)
    assert state[0] is not None
    moments = [s["exp_avg"] for s in state[0]["state"].values()]
    close(moments, [s["exp_avg"] for s in plain.state_dict()["state"].values()])
    again = ZeroRedundancyOptimizer(net.parameters(), weft.optim.AdamW, lr=0.5)
    again.load_state_dict(state[0])
    x, y = batch(9)
    stepper(whole, plain)(x, y)
    stepper(net, again)(mine(x), mine(y))
    close(net.module.parameters(), whole.parameters())


def check_checkpoints_of_all_ranks() -> None:
    folder = [tempfile.mkdtemp() if dist.get_rank() == 0 else None]
    dist.broadcast_object_list(folder)
    path = Path(str(folder[0]))
    net, other = model(1), model(2)
    for step in (3, 4):
        dcp.save({"model": net.state_dict(), "step": step}, checkpoint_id=path)
    assert len(list(path.glob("step-*"))) == 1
    assert len(list(path.glob("step-*/rank-*"))) == dist.get_world_size()
    state = {"model": other.state_dict(), "step": 0}
    dcp.load(state, checkpoint_id=path)
    same_bits(other.parameters(), net.parameters())
    assert state["step"] == 4
    with pytest.raises(RuntimeError, match=r"has no model/more"):
        dcp.load({"model": {"more": weft.ones(1)}}, checkpoint_id=path)
    alone = dist.new_group([0])
    if dist.get_rank() == 0:  # one rank reads what all wrote
        third = model(4)
        dcp.load({"model": third.state_dict()}, checkpoint_id=path, process_group=alone)
        same_bits(third.parameters(), net.parameters())


def check_collectives_are_operators_where_values_are_not_there_yet() -> None:
    n = dist.get_world_size()

    def f(x: weft.Tensor) -> weft.Tensor:
        y = x * 2
        dist.all_reduce(y)
        dist.broadcast(y, 1)
        return y + 1

    x = weft.full((3,), float(dist.get_rank() + 1))
    truth = [n * (n + 1) + 1.0] * 3
    for wrapped in (f, weft.compile(f), weft.compile(f, split=True)):
        assert wrapped(x).tolist() == wrapped(x).tolist() == truth
    assert f(x.to("lazy")).tolist() == truth


def check_programs_start_collectives_early_and_wait_late() -> None:
    """Two sums that do not depend on each other are both under way before one is waited for, and what needs neither
    comes first."""
    n, log = dist.get_world_size(), []
    channel = dist.group.WORLD.channel
    plain, waiting = channel.all_reduce, dist.Work.wait

    def started(*args: Any) -> Any:
        log.append("start")
        return plain(*args)

    def waited(*args: Any) -> Any:
        log.append("wait")
        return waiting(*args)

    @weft.compile
    def f(x: weft.Tensor) -> tuple[weft.Tensor, ...]:
        y, z = x + 1, x * 2
        dist.all_reduce(y)
        first = y * y  # needs the first sum, and stands before the second
        dist.all_reduce(z)
        dist.all_reduce(first)  # needs the first sum: it can only start afterwards
        return first, z

    x = weft.ones(4)
    f(x)
    channel.all_reduce, dist.Work.wait = started, waited
    try:
        first, z = f(x)
    finally:
        channel.all_reduce, dist.Work.wait = plain, waiting
    assert log == ["start", "start", "wait", "start", "wait", "wait"]
    assert first.tolist() == [float(n * (2 * n) ** 2)] * 4 and z.tolist() == [2.0 * n] * 4


def check_another_order_of_collectives_is_refused() -> None:
    rank = dist.get_rank()

    @weft.compile
    def f(x: weft.Tensor) -> weft.Tensor:
        y, z = x + 1, x[:2] * 2
        for t in (y, z) if rank == 0 else (z, y):
            dist.all_reduce(t)
        return y.sum() + z.sum()

    others = [r for r in range(dist.get_world_size()) if (r == 0) != (rank == 0)]
    with pytest.raises(RuntimeError, match="another order") as error:
        f(weft.ones(4))
    assert str(others) in str(error.value) and "comm::all_reduce(" in str(error.value)


def check_a_sum_over_ranks_is_differentiable() -> None:
    n, rank = dist.get_world_size(), dist.get_rank()

    def f(x: weft.Tensor) -> weft.Tensor:
        return (weft.ops.comm.all_reduce(x * (rank + 1), "SUM", 0) ** 2).sum()

    for wrapped in (f, weft.compile(f)):
        x = weft.tensor([1.0, 2.0], requires_grad=True)
        wrapped(x).backward()
        total = n * (n + 1) / 2  # every rank's loss hangs on every x: gradients add up
        np.testing.assert_allclose(x.grad.numpy(), 2 * total * np.array([1.0, 2.0]) * n * (rank + 1))

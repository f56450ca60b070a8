"""Checks of collectives, run by ranks.py in every rank."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import weft
import weft.distributed as dist

DTYPES = (
    weft.bool, weft.uint8, weft.int8, weft.int16, weft.int32, weft.int64, weft.float16, weft.bfloat16, weft.float32,
    weft.float64, weft.complex64, weft.complex128,
)


def of_rank(rank: int, dtype: Any, *shape: int, salt: int = 0) -> weft.Tensor:
    """What a rank has: every rank can draw it."""
    rng = np.random.default_rng([rank, salt, DTYPES.index(dtype)])
    values = rng.integers(0, 4, shape)
    return weft.tensor(values + 1j * rng.integers(0, 4, shape) if dtype.is_complex else values).to(dtype)


def every(dtype: Any, *shape: int, salt: int = 0) -> list[np.ndarray[Any, Any]]:
    return [wide(of_rank(r, dtype, *shape, salt=salt)) for r in range(dist.get_world_size())]


def wide(t: weft.Tensor) -> np.ndarray[Any, Any]:
    """Values in a dtype that has all of them."""
    kind = weft.complex128 if t.dtype.is_complex else weft.float64
    return np.array(t.to(kind).tolist())


def check_all_reduce_of_every_dtype() -> None:
    rank = dist.get_rank()
    functions = {dist.ReduceOp.SUM: np.add, dist.ReduceOp.PRODUCT: np.multiply, dist.ReduceOp.MIN: np.minimum,
                 dist.ReduceOp.MAX: np.maximum}
    for dtype in DTYPES:
        for op, function in functions.items():
            if dtype.is_complex and op in (dist.ReduceOp.MIN, dist.ReduceOp.MAX):
                with pytest.raises(RuntimeError, match="not defined for complex"):
                    dist.all_reduce(of_rank(rank, dtype, 5), op)
                continue
            x = of_rank(rank, dtype, 3, 5)
            address, version = x.data_ptr(), x._version
            assert dist.all_reduce(x, op) is None
            truth = function.reduce(every(dtype, 3, 5))
            np.testing.assert_array_equal(wide(x), truth != 0 if dtype is weft.bool else truth)
            assert x.data_ptr() == address and x._version == version + 1


def check_averages_and_bits() -> None:
    rank, n = dist.get_rank(), dist.get_world_size()
    x = of_rank(rank, weft.bfloat16, 4)
    dist.all_reduce(x, dist.ReduceOp.AVG)
    np.testing.assert_array_equal(wide(x), sum(every(weft.bfloat16, 4)) / n)
    bits = of_rank(rank, weft.int16, 9)
    dist.all_reduce(bits, dist.ReduceOp.BXOR)
    truth = np.bitwise_xor.reduce([e.astype(int) for e in every(weft.int16, 9)])
    np.testing.assert_array_equal(wide(bits), truth)
    for dtype, op in ((weft.int32, dist.ReduceOp.AVG), (weft.float32, dist.ReduceOp.BAND)):
        with pytest.raises(RuntimeError, match=f"{op.name} is not defined"):
            dist.all_reduce(of_rank(rank, dtype, 2), op)


def check_a_tensor_that_is_not_contiguous() -> None:
    x = of_rank(dist.get_rank(), weft.float32, 4, 6)
    column, rest = x[:, 1], x[:, 2:].clone()
    dist.all_reduce(column)
    np.testing.assert_array_equal(wide(x)[:, 1], sum(every(weft.float32, 4, 6))[:, 1])
    assert x[:, 2:].equal(rest)


def check_reduce_and_broadcast() -> None:
    rank, n = dist.get_rank(), dist.get_world_size()
    for root in range(n):
        x = of_rank(rank, weft.float64, 3)
        dist.reduce(x, root)
        drawn = every(weft.float64, 3)
        np.testing.assert_array_equal(wide(x), sum(drawn) if rank == root else drawn[rank])
        y = of_rank(rank, weft.bool, 7)
        dist.broadcast(y, root)
        np.testing.assert_array_equal(wide(y), every(weft.bool, 7)[root])


def check_gathers() -> None:
    rank, n = dist.get_rank(), dist.get_world_size()
    for dtype in (weft.float32, weft.bfloat16, weft.complex64):
        x, truth = of_rank(rank, dtype, 2, 3), np.stack(every(dtype, 2, 3))
        parts = [weft.empty(2, 3, dtype=dtype) for _ in range(n)]
        dist.all_gather(parts, x)
        out = weft.empty(n * 2, 3, dtype=dtype)
        dist.all_gather_into_tensor(out, x)
        np.testing.assert_array_equal(np.stack([wide(p) for p in parts]), truth)
        np.testing.assert_array_equal(wide(out), truth.reshape(2 * n, 3))
        gathered = [weft.empty(2, 3, dtype=dtype) for _ in range(n)] if rank == n - 1 else None
        dist.gather(x, gathered, dst=n - 1)
        if gathered is not None:
            np.testing.assert_array_equal(np.stack([wide(p) for p in gathered]), truth)


def check_scatters() -> None:
    rank, n = dist.get_rank(), dist.get_world_size()
    truth = sum(every(weft.float32, n, 3))[rank]
    x = of_rank(rank, weft.float32, n, 3)
    out = weft.empty(3)
    dist.reduce_scatter(out, list(x.unbind(0)))
    np.testing.assert_array_equal(wide(out), truth)
    dist.reduce_scatter_tensor(out, x, dist.ReduceOp.AVG)
    np.testing.assert_array_equal(wide(out), truth / n)
    dist.scatter(out, list(x.unbind(0)) if rank == 0 else None, src=0)
    np.testing.assert_array_equal(wide(out), every(weft.float32, n, 3)[0][rank])


def check_all_to_all() -> None:
    rank, n = dist.get_rank(), dist.get_world_size()
    x = of_rank(rank, weft.int32, n, 2)
    out = weft.empty(n, 2, dtype=weft.int32)
    dist.all_to_all_single(out, x)
    truth = np.stack([e[rank] for e in every(weft.int32, n, 2)])
    np.testing.assert_array_equal(wide(out), truth)
    # rank r sends s + 1 rows to rank s
    rows = n * (n + 1) // 2
    sent = of_rank(rank, weft.float32, rows, 2)
    got = weft.empty(n * (rank + 1), 2)
    dist.all_to_all_single(got, sent, [rank + 1] * n, [s + 1 for s in range(n)])
    at = rank * (rank + 1) // 2
    truth = np.concatenate([e[at : at + rank + 1] for e in every(weft.float32, rows, 2)])
    np.testing.assert_array_equal(wide(got), truth)
    outputs = [weft.empty(rank + 1, 2) for _ in range(n)]
    dist.all_to_all(outputs, list(sent.split([s + 1 for s in range(n)])))
    assert weft.cat(outputs).equal(got)


def check_messages() -> None:
    rank, n = dist.get_rank(), dist.get_world_size()
    after, before = (rank + 1) % n, (rank - 1) % n
    x, y = of_rank(rank, weft.float16, 6), weft.empty(6, dtype=weft.float16)
    works = dist.batch_isend_irecv([dist.P2POp(dist.isend, x, after, tag=3), dist.P2POp(dist.irecv, y, before, tag=3)])
    for work in works:
        assert work.wait() and work.is_completed() and work.is_success()
    np.testing.assert_array_equal(wide(y), every(weft.float16, 6)[before])
    if rank == 0:
        dist.send(weft.ones(2), 1)
    elif rank == 1:
        z = weft.zeros(2)
        assert dist.recv(z) == 0 and z.tolist() == [1.0, 1.0]
    with pytest.raises(ValueError, match="this rank itself"):
        dist.send(x, rank)


def check_works() -> None:
    xs = [of_rank(dist.get_rank(), weft.float32, 40_000, salt=i) for i in range(4)]
    works = [dist.all_reduce(x, async_op=True) for x in xs]
    for i, (work, x) in reversed(list(enumerate(zip(works, xs, strict=True)))):
        assert work is not None
        assert work.get_future().then(lambda f, x=x: f.value() is x).wait()
        np.testing.assert_array_equal(wide(x), sum(every(weft.float32, 40_000, salt=i)))


def check_groups() -> None:
    rank, n = dist.get_rank(), dist.get_world_size()
    last = dist.new_group([n - 1])
    backwards = dist.new_group(list(range(n))[::-1])
    if rank == n - 1:
        assert (dist.get_rank(last), dist.get_world_size(last), dist.get_process_group_ranks(last)) == (0, 1, [n - 1])
        assert dist.get_global_rank(last, 0) == n - 1 and dist.get_group_rank(last, n - 1) == 0
        x = weft.ones(3)
        dist.all_reduce(x, group=last)
        assert x.tolist() == [1.0] * 3
    else:
        assert last is dist.GroupMember.NON_GROUP_MEMBER and dist.get_rank(last) == -1
        assert dist.all_reduce(weft.ones(3), group=last) is None
    x = weft.ones(3)
    dist.all_reduce(x, group=backwards)
    assert x.tolist() == [float(n)] * 3
    dist.destroy_process_group(last)
    with pytest.raises(ValueError, match="twice"):
        dist.init_process_group()
    with pytest.raises(ValueError, match="different ranks"):
        dist.new_group([0, n])


def check_objects() -> None:
    rank, n = dist.get_rank(), dist.get_world_size()
    values: list[Any] = [None] * n
    dist.all_gather_object(values, {"rank": rank, "text": "x" * rank})
    assert values == [{"rank": r, "text": "x" * r} for r in range(n)]
    gathered: list[Any] | None = [None] * n if rank == 0 else None
    dist.gather_object(rank, gathered)
    assert gathered is None or gathered == list(range(n))
    shared = ["a", 2] if rank == 1 else [None, None]
    dist.broadcast_object_list(shared, src=1)
    assert shared == ["a", 2]
    one: list[Any] = [None]
    dist.scatter_object_list(one, [10 + r for r in range(n)] if rank == 0 else None)
    assert one == [10 + rank]


def check_barriers() -> None:
    dist.barrier()
    dist.monitored_barrier()


def check_wrong_sizes_are_refused() -> None:
    n = dist.get_world_size()
    with pytest.raises(RuntimeError, match="times the elements"):
        dist.all_gather_into_tensor(weft.empty(n * 2 + 1), weft.empty(2))
    with pytest.raises(RuntimeError, match="one for each rank"):
        dist.all_gather([weft.empty(2)] * (n + 1), weft.empty(2))
    with pytest.raises(RuntimeError, match="dim 0 has"):
        dist.all_to_all_single(weft.empty(n + 1), weft.empty(n + 1))

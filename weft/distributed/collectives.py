"""Collectives over tensors. Every rank of the group calls them, in one order; results are written into tensors that
the caller has. With async_op=True the result is a Work, and the tensors may be used when it is done; else None.

A contiguous tensor's own memory is what travels; lists of tensors are joined first, and spread at the end.
Sizes and dtypes must be equal in all ranks (MPI may write beyond what is shorter: nothing checks it).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

import numpy as np

from weft.distributed.buffers import check_tensor, check_tensors, joined, read, spread, written
from weft.distributed.channel import DONE, Array
from weft.distributed.groups import ProcessGroup, get_group_rank, is_member, the_group
from weft.distributed.names import DistBackendError, ReduceOp
from weft.distributed.work import Work, move_on
from weft.ops.packet import namespace_of
from weft.support.errors import ShapeError, ValueProblem
from weft.tensor.dense import has_memory
from weft.tensor.modes import no_grad
from weft.tensor.tensor import Tensor

comm = namespace_of("comm")  # the operators of entries.py


def over(work: Work, async_op: bool) -> Work | None:
    """The work, moved on while nobody waits; or None, once it is done."""
    if async_op:
        return move_on(work)
    work.wait()
    return None


def written_later(tensor: Tensor, value: Tensor, async_op: bool) -> Work | None:
    """A collective's result written into a tensor of a capture, where it is an operator like others (entries.py)."""
    with no_grad():
        tensor.copy_(value)
    return Work(DONE, "collective of a program", None, (), 0.0) if async_op else None


def root_in(
    group: ProcessGroup, root: int | None, group_root: int | None, what: str, default: int | None = None
) -> int:
    """The rank in the group of a root that is given by its global rank, or by its rank in the group; default: a global
    rank where neither is given."""
    if root is None and group_root is None:
        root = default
    if (root is None) == (group_root is None):
        raise ValueProblem(f"{what}: give the root's global rank, or its rank in the group")
    if root is not None:
        return get_group_rank(group, root)
    assert group_root is not None
    return group_root


def averaged(array: Array, op: ReduceOp, size: int) -> None:
    """Make a mean of the sum, where that is what was asked for."""
    if op is ReduceOp.AVG:
        np.divide(array, array.dtype.type(size), out=array)


def all_reduce(tensor: Tensor, op: ReduceOp = ReduceOp.SUM, group: Any = None, async_op: bool = False) -> Work | None:
    """Combine the tensors of all ranks element by element, in every rank, in place."""
    if not is_member(group):
        return None
    on = the_group(group)
    if not has_memory(check_tensor("all_reduce", tensor)):
        return written_later(tensor, comm.all_reduce(tensor.detach(), op.name, on.number), async_op)
    buffer, finish = written(tensor, "all_reduce")

    def end() -> Tensor:
        averaged(buffer, op, on.size())
        return finish()

    return over(on.start("all_reduce", on.channel.all_reduce(buffer, op), end, buffer), async_op)


def all_reduce_in_order(buffer: Array, op: ReduceOp, group: ProcessGroup) -> None:
    """Combine in the order of ranks, ((r0 + r1) + r2) + ..., whatever MPI's algorithm: each rank combines its part of
    the elements, and all get all parts. Blocks until it is over."""
    size, channel = group.size(), group.channel
    if size > 1:
        share = -(-buffer.size // size)
        counts = [max(0, min(share, buffer.size - r * share)) for r in range(size)]
        mine = counts[group.rank()]
        parts = np.empty(size * mine, buffer.dtype)
        request = channel.all_to_all(parts, [mine] * size, buffer, counts)
        group.start("all_reduce in order", request, keeps=buffer).wait()
        rows = parts.reshape(size, mine)
        function = _IN_ORDER[op]
        for row in rows[1:]:
            function(rows[0], row, out=rows[0])
        padded = np.zeros(share, buffer.dtype)
        padded[:mine] = rows[0]
        out = np.empty(share * size, buffer.dtype)
        group.start("all_reduce in order", channel.all_gather(out, padded), keeps=padded).wait()
        buffer[...] = out[: buffer.size]
    averaged(buffer, op, size)


_IN_ORDER: dict[ReduceOp, Callable[..., Any]] = {
    ReduceOp.SUM: np.add, ReduceOp.AVG: np.add, ReduceOp.PRODUCT: np.multiply, ReduceOp.MIN: np.minimum,
    ReduceOp.MAX: np.maximum,
}


def reduce(
    tensor: Tensor, dst: int | None = None, op: ReduceOp = ReduceOp.SUM, group: Any = None, async_op: bool = False,
    group_dst: int | None = None,
) -> Work | None:
    """Combine the tensors of all ranks in rank `dst`, in place; those of the others stay."""
    if not is_member(group):
        return None
    on = the_group(group)
    root = root_in(on, dst, group_dst, "reduce")
    if on.rank() == root:
        buffer, finish = written(check_tensor("reduce", tensor), "reduce")
    else:
        buffer, finish = read(check_tensor("reduce", tensor), "reduce"), lambda: tensor

    def end() -> Tensor:
        if on.rank() == root:
            averaged(buffer, op, on.size())
        return finish()

    return over(on.start("reduce", on.channel.reduce(buffer, root, op), end, buffer), async_op)


def broadcast(
    tensor: Tensor, src: int | None = None, group: Any = None, async_op: bool = False, group_src: int | None = None
) -> Work | None:
    """Rank `src`'s tensor in every rank, in place."""
    if not is_member(group):
        return None
    on = the_group(group)
    root = root_in(on, src, group_src, "broadcast")
    if not has_memory(check_tensor("broadcast", tensor)):
        return written_later(tensor, comm.broadcast(tensor.detach(), root, on.number), async_op)
    if on.rank() == root:
        buffer, finish = read(tensor, "broadcast"), lambda: tensor
    else:
        buffer, finish = written(tensor, "broadcast")
    return over(on.start("broadcast", on.channel.broadcast(buffer, root), finish, buffer), async_op)


def all_gather(tensor_list: list[Tensor], tensor: Tensor, group: Any = None, async_op: bool = False) -> Work | None:
    """Every rank's tensor, in every rank: rank r's in tensor_list[r]."""
    if not is_member(group):
        return None
    on = the_group(group)
    check_tensor("all_gather", tensor)
    outputs = check_tensors("all_gather", tensor_list, on.size(), tensor)
    sent = read(tensor, "all_gather")
    if any(t.numel() != sent.size for t in outputs):
        raise ShapeError(f"all_gather: every tensor of the list must have {sent.size} elements, as the one sent")
    out = np.empty(on.size() * sent.size, sent.dtype)

    def end() -> list[Tensor]:
        spread(out, outputs, "all_gather")
        return outputs

    return over(on.start("all_gather", on.channel.all_gather(out, sent), end, sent), async_op)


def all_gather_into_tensor(
    output_tensor: Tensor, input_tensor: Tensor, group: Any = None, async_op: bool = False
) -> Work | None:
    """Every rank's tensor, one after the other, in every rank's output_tensor (joined along dim 0, or stacked)."""
    if not is_member(group):
        return None
    on = the_group(group)
    sent = read(check_tensor("all_gather_into_tensor", input_tensor), "all_gather_into_tensor")
    out, finish = written(check_tensor("all_gather_into_tensor", output_tensor), "all_gather_into_tensor")
    _check_multiple("all_gather_into_tensor", out, sent, on.size())
    request = on.channel.all_gather(out, sent)
    return over(on.start("all_gather_into_tensor", request, finish, (out, sent)), async_op)


def _check_multiple(what: str, large: Array, small: Array, size: int) -> None:
    if large.size != size * small.size or large.dtype != small.dtype:
        raise ShapeError(
            f"{what}: one tensor must have {size} times the elements of the other, and its dtype; got {large.size} of "
            f"{large.dtype} and {small.size} of {small.dtype}"
        )


def reduce_scatter(
    output: Tensor, input_list: list[Tensor], op: ReduceOp = ReduceOp.SUM, group: Any = None, async_op: bool = False
) -> Work | None:
    """Combine the lists of all ranks; rank r gets what became of input_list[r]."""
    if not is_member(group):
        return None
    on = the_group(group)
    inputs = check_tensors("reduce_scatter", input_list, on.size(), check_tensor("reduce_scatter", output))
    return _reduce_scatter(on, output, joined(inputs, "reduce_scatter"), op, async_op, "reduce_scatter")


def reduce_scatter_tensor(
    output: Tensor, input: Tensor, op: ReduceOp = ReduceOp.SUM, group: Any = None, async_op: bool = False
) -> Work | None:
    """Combine the tensors of all ranks; rank r gets the r-th part of it."""
    if not is_member(group):
        return None
    sent = read(check_tensor("reduce_scatter_tensor", input), "reduce_scatter_tensor")
    return _reduce_scatter(the_group(group), output, sent, op, async_op, "reduce_scatter_tensor")


def _reduce_scatter(
    on: ProcessGroup, output: Tensor, sent: Array, op: ReduceOp, async_op: bool, what: str
) -> Work | None:
    out, finish = written(check_tensor(what, output), what)
    _check_multiple(what, sent, out, on.size())

    def end() -> Tensor:
        averaged(out, op, on.size())
        return finish()

    return over(on.start(what, on.channel.reduce_scatter(out, sent, op), end, (out, sent)), async_op)


def all_to_all(
    output_tensor_list: list[Tensor], input_tensor_list: list[Tensor], group: Any = None, async_op: bool = False
) -> Work | None:
    """Send input_tensor_list[r] to rank r; output_tensor_list[r] gets what rank r sent here. Sizes may differ."""
    if not is_member(group):
        return None
    on = the_group(group)
    outputs = check_tensors("all_to_all", output_tensor_list, on.size())
    inputs = check_tensors("all_to_all", input_tensor_list, on.size(), outputs[0])
    sent = joined(inputs, "all_to_all")
    out = np.empty(sum(t.numel() for t in outputs), sent.dtype)

    def end() -> list[Tensor]:
        spread(out, outputs, "all_to_all")
        return outputs

    request = on.channel.all_to_all(out, [t.numel() for t in outputs], sent, [t.numel() for t in inputs])
    return over(on.start("all_to_all", request, end, sent), async_op)


def all_to_all_single(
    output: Tensor, input: Tensor, output_split_sizes: Sequence[int] | None = None,
    input_split_sizes: Sequence[int] | None = None, group: Any = None, async_op: bool = False,
) -> Work | None:
    """The same over dim 0 of two tensors: equal parts, or as the split sizes say."""
    if not is_member(group):
        return None
    on = the_group(group)
    what = "all_to_all_single"
    sent, (out, finish) = read(check_tensor(what, input), what), written(check_tensor(what, output), what)
    counts = _counts(what, input, input_split_sizes, on.size())
    request = on.channel.all_to_all(out, _counts(what, output, output_split_sizes, on.size()), sent, counts)
    return over(on.start(what, request, finish, (out, sent)), async_op)


def _counts(what: str, tensor: Tensor, splits: Sequence[int] | None, size: int) -> list[int]:
    """Elements for each rank. Raises ShapeError where they do not add up."""
    rows = int(tensor.shape[0]) if tensor.ndim else 0
    if not splits:
        if rows % size:
            raise ShapeError(f"{what}: dim 0 has {rows} rows, not a multiple of {size} ranks; give split sizes")
        splits = [rows // size] * size
    if len(splits) != size or sum(splits) != rows:
        raise ShapeError(f"{what}: split sizes {list(splits)} must be {size} numbers with the sum {rows}")
    each = tensor.numel() // rows if rows else 0
    return [int(s) * each for s in splits]


def gather(
    tensor: Tensor, gather_list: list[Tensor] | None = None, dst: int | None = None, group: Any = None,
    async_op: bool = False, group_dst: int | None = None,
) -> Work | None:
    """Every rank's tensor in rank `dst` (0 if not given): rank r's in gather_list[r], which others leave out."""
    if not is_member(group):
        return None
    on = the_group(group)
    root = root_in(on, dst, group_dst, "gather", default=0)
    sent = read(check_tensor("gather", tensor), "gather")
    if on.rank() != root:
        if gather_list:
            raise ValueProblem("Argument ``gather_list`` must NOT be specified on non-destination ranks.")
        return over(on.start("gather", on.channel.gather(None, sent, root), keeps=sent), async_op)
    outputs = check_tensors("gather", gather_list, on.size(), tensor)
    out = np.empty(on.size() * sent.size, sent.dtype)
    request = on.channel.gather(out, sent, root)
    return over(on.start("gather", request, lambda: spread(out, outputs, "gather"), sent), async_op)


def scatter(
    tensor: Tensor, scatter_list: list[Tensor] | None = None, src: int | None = None, group: Any = None,
    async_op: bool = False, group_src: int | None = None,
) -> Work | None:
    """Rank r gets scatter_list[r] of rank `src` (0 if not given); others leave the list out."""
    if not is_member(group):
        return None
    on = the_group(group)
    root = root_in(on, src, group_src, "scatter", default=0)
    out, finish = written(check_tensor("scatter", tensor), "scatter")
    sent = None
    if on.rank() == root:
        inputs = check_tensors("scatter", scatter_list, on.size(), tensor)
        if any(t.numel() != out.size for t in inputs):
            raise ShapeError(f"scatter: every tensor of the list must have {out.size} elements, as the result")
        sent = joined(inputs, "scatter")
    elif scatter_list:
        raise ValueProblem("Argument ``scatter_list`` must NOT be specified on non-source ranks.")
    return over(on.start("scatter", on.channel.scatter(out, sent, root), finish, (out, sent)), async_op)


def barrier(group: Any = None, async_op: bool = False, device_ids: Any = None) -> Work | None:
    """Wait until every rank has called it."""
    if not is_member(group):
        return None
    on = the_group(group)
    return over(on.start("barrier", on.channel.barrier()), async_op)


_BARRIER_TAG = 32_001


def monitored_barrier(group: Any = None, timeout: timedelta | None = None, wait_all_ranks: bool = False) -> None:
    """A barrier that rank 0 watches: it raises DistBackendError that names the first rank, or all ranks, that did not
    come in time."""
    if not is_member(group):
        return
    on = the_group(group)
    channel, sign = on.channel, np.zeros(1, np.uint8)
    limit = timeout or on.timeout
    if on.rank():
        on.start("monitored_barrier", channel.send(sign, 0, _BARRIER_TAG), is_message=True).wait(limit)
        on.start("monitored_barrier", channel.receive(sign, 0, _BARRIER_TAG), is_message=True).wait(limit)
        return
    late: list[int] = []
    works = {
        r: on.start("monitored_barrier", channel.receive(np.zeros(1, np.uint8), r, _BARRIER_TAG), is_message=True)
        for r in range(1, on.size())
    }
    for r, work in works.items():
        try:
            work.wait(limit if not late else timedelta(seconds=0.01))
        except DistBackendError:
            late.append(on.ranks[r])
            if not wait_all_ranks:
                break
    if late:
        seconds = limit.total_seconds()
        raise DistBackendError(f"Rank 0: monitored_barrier: ranks {late} did not come within {seconds:g} s")
    for r in works:
        on.start("monitored_barrier", channel.send(sign, r, _BARRIER_TAG), is_message=True).wait(limit)

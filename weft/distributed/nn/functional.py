"""Collectives with results of their own, and with gradients: each rank's gradient of what it sent is the sum over the
ranks of what became of it there. So the backward of each is a collective too, and every rank must call backward().

In eager mode; `all_reduce` is an operator, and runs in compiled programs too.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from weft.autograd.function import Function
from weft.distributed import collectives
from weft.distributed.groups import ProcessGroup, get_group_rank, the_group
from weft.distributed.names import ReduceOp
from weft.ops.packet import namespace_of
from weft.support.errors import ValueProblem
from weft.tensor.tensor import Tensor

_SUM = ReduceOp.SUM
_comm = namespace_of("comm")  # the operators of entries.py


def all_reduce(tensor: Tensor, op: ReduceOp = _SUM, group: Any = None) -> Tensor:
    """The tensors of all ranks combined, in every rank. The backward of no sum or mean raises ValueProblem."""
    return _comm.all_reduce(tensor, op.name, the_group(group).number)  # type: ignore[no-any-return]


def broadcast(tensor: Tensor, src: int, group: Any = None) -> Tensor:
    """The tensor of rank `src`, in every rank; the gradients of all ranks are added up there."""
    return _Broadcast.apply(tensor, the_group(group), src)  # type: ignore[no-any-return]


def reduce(tensor: Tensor, dst: int, op: ReduceOp = _SUM, group: Any = None) -> Tensor:
    """The tensors of all ranks combined in rank `dst`; the others get their own."""
    _check_sum("reduce", op)
    return _Reduce.apply(tensor, the_group(group), dst, op)  # type: ignore[no-any-return]


def gather(tensor: Tensor, dst: int = 0, group: Any = None) -> tuple[Tensor, ...]:
    """Every rank's tensor in rank `dst`; zeros in the others."""
    return _Gather.apply(tensor, the_group(group), dst)  # type: ignore[no-any-return]


def scatter(tensors: Sequence[Tensor], src: int = 0, group: Any = None) -> Tensor:
    """tensors[r] of rank `src` in rank r. The other ranks give tensors of the same sizes, which are not read."""
    return _Scatter.apply(the_group(group), src, *tensors)  # type: ignore[no-any-return]


def all_gather(tensor: Tensor, group: Any = None) -> tuple[Tensor, ...]:
    """Every rank's tensor, in every rank."""
    return _AllGather.apply(tensor, the_group(group))  # type: ignore[no-any-return]


def reduce_scatter(output: Tensor, input_list: Sequence[Tensor], op: ReduceOp = _SUM, group: Any = None) -> Tensor:
    """Combine the lists of all ranks: a tensor of output's type, made of input_list[r] in rank r."""
    _check_sum("reduce_scatter", op)
    return _ReduceScatter.apply(the_group(group), op, output, *input_list)  # type: ignore[no-any-return]


def all_to_all(
    output_tensor_list: Sequence[Tensor], input_tensor_list: Sequence[Tensor], group: Any = None
) -> tuple[Tensor, ...]:
    """What rank r has sent here, for each r: tensors of the types of output_tensor_list."""
    outputs = [(t.shape, t.dtype) for t in output_tensor_list]
    return _AllToAll.apply(the_group(group), outputs, *input_tensor_list)  # type: ignore[no-any-return]


def all_to_all_single(
    output: Tensor, input: Tensor, output_split_sizes: Sequence[int] | None = None,
    input_split_sizes: Sequence[int] | None = None, group: Any = None,
) -> Tensor:
    """The same over dim 0 of one tensor: equal parts, or as the split sizes say."""
    on, sizes = the_group(group), (output_split_sizes, input_split_sizes)
    return _AllToAllSingle.apply(on, output.shape, *sizes, input)  # type: ignore[no-any-return]


def _check_sum(what: str, op: ReduceOp) -> None:
    if op not in (ReduceOp.SUM, ReduceOp.AVG):
        raise ValueProblem(f"{what}: gradients flow through SUM and AVG only, not through {op.name}")


def _scaled(grad: Tensor, op: ReduceOp, on: ProcessGroup) -> Tensor:
    """The gradient of what a mean was made of."""
    return grad / on.size() if op is ReduceOp.AVG else grad


def _is_root(on: ProcessGroup, root: int) -> bool:
    return on.rank() == get_group_rank(on, root)


def _gathered(tensor: Tensor, on: ProcessGroup, root: int) -> tuple[Tensor, ...]:
    results = [tensor.new_zeros(tensor.shape) for _ in range(on.size())]
    collectives.gather(tensor.contiguous(), results if _is_root(on, root) else None, root, on)
    return tuple(results)


def _scattered(tensors: Sequence[Tensor], on: ProcessGroup, root: int) -> Tensor:
    result = tensors[on.rank()].new_zeros(tensors[on.rank()].shape)
    collectives.scatter(result, [t.contiguous() for t in tensors] if _is_root(on, root) else None, root, on)
    return result


def _exchanged(inputs: Sequence[Tensor], outputs: Sequence[tuple[Any, Any]], on: ProcessGroup) -> tuple[Tensor, ...]:
    results = [inputs[0].new_empty(shape, dtype=dtype) for shape, dtype in outputs]
    collectives.all_to_all(results, [t.contiguous() for t in inputs], on)
    return tuple(results)


class _Broadcast(Function):
    """Rank src's tensor; its gradient is the sum of all."""

    @staticmethod
    def forward(ctx: Any, tensor: Tensor, on: ProcessGroup, src: int) -> Tensor:
        ctx.on, ctx.src = on, src
        result = tensor.detach().clone()
        collectives.broadcast(result, src, on)
        return result

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
        total = reduce(grad, ctx.src, _SUM, ctx.on)
        return total if _is_root(ctx.on, ctx.src) else total * 0, None, None


class _Reduce(Function):
    """The sum in rank dst; its gradient goes to all."""

    @staticmethod
    def forward(ctx: Any, tensor: Tensor, on: ProcessGroup, dst: int, op: ReduceOp) -> Tensor:
        ctx.on, ctx.dst, ctx.op = on, dst, op
        result = tensor.detach().clone()
        collectives.reduce(result, dst, op, on)
        return result

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
        return _scaled(broadcast(grad, ctx.dst, ctx.on), ctx.op, ctx.on), None, None, None


class _Gather(Function):
    """All tensors in rank dst, which gives back each one's gradient."""

    @staticmethod
    def forward(ctx: Any, tensor: Tensor, on: ProcessGroup, dst: int) -> tuple[Tensor, ...]:
        ctx.on, ctx.dst = on, dst
        return _gathered(tensor, on, dst)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Any, ...]:
        return scatter(grads, ctx.dst, ctx.on), None, None


class _Scatter(Function):
    """One tensor of rank src's list, which gets the gradients of all."""

    @staticmethod
    def forward(ctx: Any, on: ProcessGroup, src: int, *tensors: Tensor) -> Tensor:
        ctx.on, ctx.src = on, src
        return _scattered(tensors, on, src)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
        return None, None, *gather(grad, ctx.src, ctx.on)


class _AllGather(Function):
    """All tensors in all ranks: the gradient of each is the sum over the ranks."""

    @staticmethod
    def forward(ctx: Any, tensor: Tensor, on: ProcessGroup) -> tuple[Tensor, ...]:
        ctx.on = on
        results = [tensor.new_empty(tensor.shape) for _ in range(on.size())]
        collectives.all_gather(results, tensor.contiguous(), on)
        return tuple(results)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Any, ...]:
        return reduce_scatter(grads[ctx.on.rank()], grads, _SUM, ctx.on), None


class _ReduceScatter(Function):
    """Sums, one in each rank: the gradient of each goes to all."""

    @staticmethod
    def forward(ctx: Any, on: ProcessGroup, op: ReduceOp, output: Tensor, *tensors: Tensor) -> Tensor:
        ctx.on, ctx.op = on, op
        result = output.new_empty(output.shape)
        collectives.reduce_scatter(result, [t.contiguous() for t in tensors], op, on)
        return result

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
        return None, None, None, *[_scaled(each, ctx.op, ctx.on) for each in all_gather(grad, ctx.on)]


class _AllToAll(Function):
    """Tensors that are exchanged, and gradients the other way."""

    @staticmethod
    def forward(ctx: Any, on: ProcessGroup, outputs: Sequence[Any], *tensors: Tensor) -> tuple[Tensor, ...]:
        ctx.on, ctx.inputs = on, [(t.shape, t.dtype) for t in tensors]
        return _exchanged(tensors, outputs, on)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Any, ...]:
        return None, None, *_AllToAll.apply(ctx.on, ctx.inputs, *grads)


class _AllToAllSingle(Function):
    """Rows that are exchanged, and gradients the other way."""

    @staticmethod
    def forward(ctx: Any, on: ProcessGroup, shape: Any, taken: Any, sent: Any, tensor: Tensor) -> Tensor:
        ctx.on, ctx.shape, ctx.taken, ctx.sent = on, tensor.shape, taken, sent
        result = tensor.new_empty(shape)
        collectives.all_to_all_single(result, tensor.contiguous(), taken, sent, on)
        return result

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
        return None, None, None, None, _AllToAllSingle.apply(ctx.on, ctx.shape, ctx.sent, ctx.taken, grad)

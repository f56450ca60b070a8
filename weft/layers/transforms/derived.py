"""Batch rules that follow from an entry: pointwise bodies, reductions and views. Written ones (`batch` of the entry)
come first.

A rule is called as rule(op, size, flags, *args) one level below: batched tensors have the batch in front, flags say
which they are (a tuple of flags for a list). Its results all have the batch in front.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from weft.layers import walk
from weft.ops.batching import front
from weft.ops.op import Op
from weft.ops.packet import aten
from weft.ops.rules import Pointwise
from weft.tensor.tensor import Tensor
from weft.types.dims import Dim
from weft.types.tensor_type import tensor_type

Rule = Callable[..., Any]


@cache
def rule_of(op: Op) -> Rule | None:
    """The batch rule of an operator, or None where it must be opened or run example by example."""
    if op.batch is not None:
        return op.batch
    if isinstance(op.type, Pointwise) and op.decompose is None:
        return pointwise
    if op.reduce is not None:
        return reduction
    return None


def speaks_for_itself(op: Op) -> bool:
    """Whether the rule's own call fails exactly where the unbatched call would."""
    return op.scalar is not None


# ---- pointwise
def pointwise(op: Op, size: Dim, flags: tuple[Any, ...], *args: Any) -> Any:
    """Batched operands get one rank, so that the batch dims meet; the others broadcast as they are, but what is written
    into has every example."""
    assert isinstance(op.type, Pointwise)
    if op.type.into_self and flags[0] is not True:
        args, flags = (aten.expand(args[0], (size, *args[0].dims)), *args[1:]), (True, *flags[1:])
    return walk.walk(op, aligned(op, size, flags, args))


def aligned(op: Op, size: Dim, flags: tuple[Any, ...], args: tuple[Any, ...]) -> tuple[Any, ...]:
    """The arguments of a pointwise call with ranks padded after the batch dim, and the dtypes that the unbatched ranks
    promote to."""
    rank = max(a.ndim - f for a, f in zip(args, flags, strict=True) if isinstance(a, Tensor))
    out = tuple([front(a, rank) if f is True else a for a, f in zip(args, flags, strict=True)])
    return out if _alike(out) else _promoted(op, flags, args, out)


def _alike(args: tuple[Any, ...]) -> bool:
    dtype = None
    for a in args:
        if isinstance(a, Tensor):
            if dtype is None:
                dtype = a.dtype
            elif dtype is not a.dtype:
                return False
    return dtype is None or dtype.is_differentiable


def _promoted(op: Op, flags: tuple[Any, ...], args: tuple[Any, ...], out: tuple[Any, ...]) -> tuple[Any, ...]:
    """0-dim operands do not widen a category; with a batch dim they would: the unbatched types decide."""
    rule = op.type
    assert isinstance(rule, Pointwise)
    before = tuple(
        _example_type(a) if f is True else a.type_ if isinstance(a, Tensor) else a
        for a, f in zip(args, flags, strict=True)
    )
    after = tuple(a.type_ if isinstance(a, Tensor) else a for a in out)
    wanted = rule.promoted(before)
    if wanted is rule.promoted(after) or not any(f is True for f in flags):
        return out
    names = [a.name for a in op.schema.arguments]
    promotes = [n not in rule.keep and (rule.over is None or n in rule.over) for n in names]
    return tuple([
        aten._to_copy(a, wanted) if p and isinstance(a, Tensor) and a.dtype is not wanted else a
        for a, p in zip(out, promotes, strict=True)
    ])


def _example_type(value: Tensor) -> Any:
    return tensor_type(value.dtype, value.dims[1:])


def aligned_write(op: Op, flags: tuple[Any, ...], args: tuple[Any, ...]) -> tuple[Any, ...] | None:
    """The arguments of the same in-place call for all examples; None where the value must be computed first
    (other dtypes, kernels)."""
    if op.scalar is None or not isinstance(op.type, Pointwise) or op.batch is not None or not _alike(args):
        return None
    rank = args[0].ndim - 1
    return tuple([front(a, rank) if f is True else a for a, f in zip(args, flags, strict=True)])


def against(value: Any, is_batched: bool, target: Tensor) -> Any:
    """A value that will be copied into a batched target, with its dims where the target's are."""
    return front(value, target.ndim - 1) if is_batched and isinstance(value, Tensor) else value


# ---- reductions
def reduction(op: Op, size: Dim, flags: tuple[Any, ...], *args: Any) -> Any:
    """The same reduction one dim further; without a dim, over all dims of the example."""
    x, rank = args[0], args[0].ndim - 1
    names = [a.name for a in op.schema.arguments]
    at = names.index("dim")
    takes_list = op.schema.arguments[at].is_list
    dim, listed = args[at], list(args)
    keeps = "keepdim" in names and args[names.index("keepdim")]
    if rank == 0:
        x = aten.unsqueeze(x, 1)
        listed[0], listed[at] = x, (1,) if takes_list else 1
        if keeps:
            listed[names.index("keepdim")] = False
        return walk.walk(op, tuple(listed))
    if dim == () and op.reduce is not None and op.reduce.empty_is_none:
        return walk.walk(op, args)
    if dim is None or dim == ():
        if takes_list:
            listed[at] = tuple(range(1, rank + 1))
            return walk.walk(op, tuple(listed))
        listed[0], listed[at] = aten.flatten(x, 1), 1
        out = walk.walk(op, tuple(listed))
        return aten.reshape(out, (size, *(1,) * rank)) if keeps else out
    listed[at] = tuple(d % rank + 1 for d in dim) if isinstance(dim, tuple) else dim % rank + 1
    return walk.walk(op, tuple(listed))

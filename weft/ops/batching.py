"""What batch rules are written with: `rule(op, size, flags, *args)`, where batched tensors have the batch in front
and flags say which they are.

A rule computes for all examples at once, by calling operators, and gives results with the batch in front.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from weft.ops.op import Op
from weft.ops.packet import aten
from weft.ops.route import call
from weft.types.dims import Dim

Rule = Callable[..., Any]
Flags = tuple[Any, ...]


def whole(value: Any, size: Dim) -> Any:
    """A value that is the same for every example, with a batch dim."""
    return aten.expand(aten.unsqueeze(value, 0), (size, *value.dims))


def front(value: Any, rank: int) -> Any:
    """A batched value whose examples have at least `rank` dims: dims of size 1 after the batch."""
    missing = rank - (value.ndim - 1)
    return value if missing <= 0 else aten.reshape(value, (value.dims[0], *(1,) * missing, *value.dims[1:]))


def full_rank(value: Any, flag: bool, size: Dim, rank: int) -> Any:
    """A value with a batch dim and `rank` more."""
    return front(value if flag else whole(value, size), rank)


def everywhere(size: Dim, flags: Flags, args: Flags) -> list[Any]:
    """The arguments with every tensor batched, those in lists included."""
    out: list[Any] = []
    for a, f in zip(args, flags, strict=True):
        if type(f) is tuple:
            out.append(tuple(everywhere(size, f, a)))
        else:
            out.append(whole(a, size) if not f and hasattr(type(a), "__weft_route__") else a)
    return out


def ranks(op: Op, flags: Flags, args: Flags) -> int:
    """The number of dims of an example of the first tensor argument."""
    return next(int(a.ndim) - bool(f) for a, f in zip(args, flags, strict=True) if hasattr(type(a), "__weft_route__"))


def same(op: Op, size: Dim, flags: Flags, *args: Any) -> Any:
    """The operator treats leading dims as a batch already: every tensor gets the batch dim, and ranks that let
    the batch dims meet."""
    listed = everywhere(size, flags, args)
    rank = max(listed[i].ndim - 1 for i in op.tensor_positions if listed[i] is not None)
    for i in op.tensor_positions:
        if listed[i] is not None:
            listed[i] = front(listed[i], rank)
    return call(op, tuple(listed))


def unary(op: Op, size: Dim, flags: Flags, *args: Any) -> Any:
    """The operator treats all dims (or the last ones) alike, and only its first argument is a tensor."""
    return call(op, args)


def along(*names: str) -> Rule:
    """A rule for operators that work along dims given by name: they lie one further in the batch.
    0-dim examples get a dim for the call."""

    def rule(op: Op, size: Dim, flags: Flags, *args: Any) -> Any:
        rank = ranks(op, flags, args)
        listed = everywhere(size, flags, args)
        tensors = [i for i in op.tensor_positions if listed[i] is not None]
        scalars = [i for i in tensors if listed[i].ndim == 1]
        for i in scalars:
            listed[i] = aten.unsqueeze(listed[i], 1)
        for name in names:
            at = op.schema.index(name)
            listed[at] = shifted(listed[at], rank)
        out = call(op, tuple(listed))
        return _squeezed(out) if len(scalars) == len(tensors) and not _drops_dims(op, listed) else out

    return rule


def _drops_dims(op: Op, args: list[Any]) -> bool:
    """Whether a reduction of a 0-dim example has already dropped the dim that was added for it."""
    names = [a.name for a in op.schema.arguments]
    return "keepdim" in names and not args[names.index("keepdim")]


def _squeezed(out: Any) -> Any:
    if isinstance(out, (tuple, list)):
        return tuple([_squeezed(o) for o in out])
    return aten.squeeze(out, 1) if out.ndim > 1 else out


def shifted(dim: Any, rank: int) -> Any:
    """A dim, or several, of an example as dims of the batch."""
    if isinstance(dim, (tuple, list)):
        return tuple([shifted(d, rank) for d in dim])
    return dim % max(rank, 1) + 1


def over(*names: str) -> Rule:
    """A rule for reductions over a list of dims, None or () being all of an example's dims."""

    def rule(op: Op, size: Dim, flags: Flags, *args: Any) -> Any:
        listed = list(args)
        rank = args[0].ndim - 1
        keeps = [i for i, a in enumerate(op.schema.arguments) if a.name == "keepdim"]
        if rank == 0:
            listed[0] = aten.unsqueeze(args[0], 1)
            for i in keeps:
                listed[i] = False
        for name in names:
            at = op.schema.index(name)
            dims = listed[at] if isinstance(listed[at], (tuple, type(None))) else (listed[at],)
            listed[at] = tuple(range(1, max(rank, 1) + 1)) if not dims else shifted(dims, rank)
        return call(op, tuple(listed))

    return rule

"""Lists of what iterations gave that are stacked or concatenated: of a loop of a size, whose lists are as long as it
is, its rows are taken together."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from weft.ops.op import Op
from weft.ops.packet import aten
from weft.passes.fold.joins import JOINING
from weft.record.repeats.for_statement import LATE
from weft.record.repeats.pending import PendingStorage
from weft.tensor.tensor import Tensor

if TYPE_CHECKING:
    from weft.record.repeats.python_loop import PythonLoop

__all__ = ["JOINING", "is_joined", "joined"]
_CAT = aten.cat.default.op


def is_joined(op: Op, args: tuple[Any, ...]) -> bool:
    """Whether a call joins what loops of a size have given."""
    return op in JOINING and type(args[0]) is tuple and any(map(_source, args[0]))


def joined(op: Op, args: tuple[Any, ...]) -> tuple[Op, tuple[Any, ...]]:
    """A stack or concatenation of tensors, where some are all that a loop of a size has of one result: the same of
    pieces with many rows."""
    tensors, dim = args
    runs = list(_runs(tensors))
    if all(type(run) is Tensor for run in runs):
        return op, args
    adds_dim = op is not _CAT
    at = dim % (tensors[0].ndim + adds_dim)
    pieces: list[Tensor] = []
    for run in runs:
        if type(run) is tuple:
            loop, number, first, last = run
            rows = [aten.movedim(piece, 0, at) if at else piece for piece in loop.joined(number, first, last)]
            pieces += rows if adds_dim else [aten.flatten(row, at, at + 1) for row in rows]
        else:
            pieces.append(aten.unsqueeze(run, at) if adds_dim else run)
    return _CAT, (tuple(pieces), at)


def _runs(tensors: tuple[Tensor, ...]) -> Iterator[Any]:
    """The tensors one by one; or a loop, the number of a result, from which iteration on the list has it, and what
    stands there for the last ones of its: those that somebody has read are tensors as others. Where the list ends in
    front of the last iteration, it does so at every size (for_statement.py)."""
    i = 0
    while i < len(tensors):
        begin = _source(tensors[i])
        if begin is None:
            yield tensors[i]
            i += 1
            continue
        loop, number, first = begin
        late = i + loop.iterations - LATE - first
        expected = [(loop, number, n) for n in range(first, loop.iterations - LATE)]
        if not expected or list(map(_source, tensors[i:late])) != expected or not loop.has_more_than(first + LATE):
            yield tensors[i]
            i += 1
            continue
        yield loop, number, first, tensors[late : late + LATE]
        i = late + LATE


def _source(tensor: Any) -> tuple[PythonLoop, int, int] | None:
    """The loop of a size that gave a tensor, as which result of which iteration."""
    storage = tensor._storage
    loop: Any = storage.loop if isinstance(storage, PendingStorage) else None
    return None if loop is None or loop.trip is None else (loop, storage.number, storage.iteration)

"""The type of `x[...]`: dtype and rank, and the sizes that the index leaves alone or decides."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from weft.ir.graph import Operand, Value
from weft.ops.op import OPS
from weft.types import dtype as dt
from weft.types.tensor_type import INT, TensorType, Type, tensor_type

_SLICE = OPS["prim::make_slice"]
TypeOf = Callable[[Value], Type]
Sizes = list[int | None]


class _Untold(Exception):
    """The index has a part of which nothing is known."""


def indexed_type(source: TensorType, index: Operand, type_of: TypeOf, numbers: dict[Value, int]) -> TensorType:
    """What `source[index]` is, as far as it is the same in every run. Sizes are None where the run decides."""
    nothing = tensor_type(source.dtype, None, source.device)
    if source.dims is None:
        return nothing
    parts = index if isinstance(index, tuple) else (index,)
    try:
        taken = [_consumed(p, type_of) for p in parts]
        if sum(isinstance(p, Value) and isinstance(type_of(p), TensorType) for p in parts) > 1:
            return nothing
        rest = len(source.dims) - sum(taken)
        if rest < 0 or sum(p == "..." for p in parts if isinstance(p, str)) > 1:
            return nothing
        dims: Sizes = []
        left = [d if type(d) is int else None for d in source.dims]
        for part, count in zip(parts, taken, strict=True):
            if isinstance(part, str):
                dims, left, rest = [*dims, *left[:rest]], left[rest:], 0
                continue
            dims += _made(part, left[:count], type_of, numbers)
            left = left[count:]
    except _Untold:
        return nothing
    return source.with_dims((*dims, *left))


def _consumed(part: Operand, type_of: TypeOf) -> int:
    """How many dims a part of an index goes over."""
    if part is None or part == "...":
        return 0
    if not isinstance(part, Value):
        if type(part) is not int:
            raise _Untold
        return 1
    kind = type_of(part)
    if isinstance(kind, TensorType):
        if kind.dims is None or kind.dtype is None:
            raise _Untold
        return len(kind.dims) if kind.dtype is dt.bool_ else 1
    if kind is not INT and not _is_slice(part):
        raise _Untold
    return 1


def _is_slice(part: Value) -> bool:
    return part.node is not None and part.node.op is _SLICE


def _made(part: Operand, over: Sequence[int | None], type_of: TypeOf, numbers: dict[Value, int]) -> Sizes:
    """The sizes that stand in place of the dims that a part goes over."""
    if part is None:
        return [1]
    if not isinstance(part, Value) or type_of(part) is INT:
        return []
    kind = type_of(part)
    if isinstance(kind, TensorType):
        assert kind.dims is not None
        return [None] if kind.dtype is dt.bool_ else [d if type(d) is int else None for d in kind.dims]
    assert part.node is not None
    bounds = [numbers.get(b) if isinstance(b, Value) else b for b in part.node.args]
    unknown = any(isinstance(b, Value) and b not in numbers for b in part.node.args)
    if over[0] is None or unknown or not all(b is None or type(b) is int for b in bounds) or bounds[2] == 0:
        return [over[0]] if bounds == [None, None, None] and not unknown else [None]
    return [len(range(*slice(*bounds).indices(over[0])))]

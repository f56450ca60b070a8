"""scatter_rows: writes at computed places become writes of rows at the numbers of these rows, which the back end knows
(index_add, index_copy).

A tensor is read as a table: its dims up to the last indexed one number the rows, the dims after it are the columns.
`scatter` has no columns. Row numbers are sums of indices times strides, ordinary pointwise work. What repeats is added,
or overwritten, in the order of the index.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from weft.ir.builder import Builder, Handle
from weft.ir.graph import Node, Operand, Value
from weft.ops.geometry import contiguous_strides
from weft.ops.packet import Packet, aten
from weft.ops.rules import normalize_dim
from weft.passes.gather_as_mask import numbers_along
from weft.passes.rebuild import Rewrites, results_of
from weft.support.errors import UnknownSize
from weft.types import dtype as dt
from weft.types.dims import Dim, Expr, is_one, product
from weft.types.relation import Relation
from weft.types.shape_env import ShapeEnv

_INTEGERS = (dt.int64, dt.int32)


scatter_rows = Rewrites()


def _entered(*operators: Packet) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Enter a rule over handles; None leaves the node as it stands."""

    def enter(rule: Callable[..., Any]) -> Callable[..., Any]:
        @scatter_rows.of(*operators)
        def rewrite(builder: Builder, node: Node, args: tuple[Operand, ...]) -> tuple[Operand, ...] | None:
            base = args[0]
            if (
                type(base) is not Value or not base.tensor_type.shape or base.tensor_type.dtype is None
                or base.tensor_type.dtype.is_complex
            ):
                return None
            try:
                out = rule(builder.handle(base), *[_handled(builder, a) for a in args[1:]])
            except UnknownSize:  # whether the values are as many as the places, the run finds
                return None
            return None if out is None else results_of(builder, out)

        return rule

    return enter


def _handled(builder: Builder, operand: Operand) -> Any:
    if type(operand) is tuple:
        return tuple([_handled(builder, o) for o in operand])
    return builder.handle(operand) if type(operand) is Value else operand


def _is_tensor(operand: Any) -> bool:
    return type(operand) is Handle and not operand.is_number


# ---- scatter


@_entered(aten.scatter.src, aten.scatter.value)
def _scatter(base: Any, dim: int, index: Any, source: Any, adds: bool = False) -> Any:
    """One element for each index: rows are elements. An index without elements may have any other sizes."""
    if any(isinstance(d, int) and d == 0 for d in index.dims):
        return base
    if index.ndim != base.ndim or index.dtype not in _INTEGERS:
        return None
    if _is_tensor(source):
        if source.ndim != index.ndim or source.dtype is not base.dtype:
            return None
        source = _narrowed(source, index)
    return _written(base, base.ndim, _element_numbers(base, dim, index), source, adds)


def _narrowed(source: Any, index: Any) -> Any:
    """The part of a source that an index is for."""
    for i, size in enumerate(index.dims):
        source = aten.narrow(source, i, 0, size)
    return source


def _element_numbers(base: Any, dim: int, index: Any) -> Any:
    """The numbers of the elements of `base` that an index names along a dim."""
    axis = normalize_dim("scatter", dim, base.ndim)
    strides = contiguous_strides(base.dims)
    numbers = _checked(index, base.dims[axis]) * strides[axis]
    for i, size in enumerate(index.dims):
        if i != axis:
            numbers = numbers + numbers_along(size, index.ndim, i) * strides[i]
    return numbers


@_entered(aten.scatter_add)
def _scatter_add(base: Any, dim: int, index: Any, source: Any) -> Any:
    return _scatter(base, dim, index, source, True)


@_entered(aten.scatter_reduce.two)
def _scatter_reduce(base: Any, dim: int, index: Any, source: Any, reduce: str, include_self: bool) -> Any:
    """Of an index that may be smaller than self: one line of elements by their numbers."""
    if any(isinstance(d, int) and d == 0 for d in index.dims):
        return base
    if index.ndim != base.ndim or index.dtype not in _INTEGERS or source.ndim != index.ndim:
        return None
    axis, proves = normalize_dim("scatter", dim, base.ndim), index.builder.env.proves_equal
    if all(i == axis or proves(a, b) for i, (a, b) in enumerate(zip(base.dims, index.dims, strict=True))):
        return None
    count = product(index.dims)
    numbers, values = _element_numbers(base, dim, index), _narrowed(source, index)
    flat, places, values = (aten.reshape(x, (n,)) for x, n in (
        (base, product(base.dims)), (numbers, count), (values, count)
    ))
    return aten.reshape(aten.scatter_reduce(flat, 0, places, values, reduce, include_self=include_self), base.dims)


# ---- advanced indexing and slices by index


@_entered(aten.index_put)
def _index_put(base: Any, indices: Sequence[Any], values: Any, accumulate: bool) -> Any:
    """Integer tensors for dims next to each other; the dims before them are walked whole.
    One number by a mask is a choice."""
    at = [i for i, t in enumerate(indices) if t is not None]
    if (
        len(at) == 1 and indices[at[0]].dtype is dt.bool_ and not accumulate
        and all(map(is_one, values.dims))
    ):
        mask = indices[at[0]]
        trailing = base.ndim - at[0] - mask.ndim
        return aten.where(aten.reshape(mask, (*mask.dims, *(1,) * trailing)), aten.reshape(values, ()), base)
    if not at or at != list(range(at[0], at[-1] + 1)) or any(indices[i].dtype not in _INTEGERS for i in at):
        return None
    if base.dtype is dt.bool_ and accumulate:
        return None
    first, end = at[0], at[-1] + 1
    strides = contiguous_strides(base.dims[:end])
    numbers: Any = None
    for i in at:
        index = _checked(aten.where(indices[i] < 0, indices[i] + base.dims[i], indices[i]), base.dims[i])
        numbers = index * strides[i] if numbers is None else numbers + index * strides[i]
    rank = first + numbers.ndim
    for i in range(first):
        numbers = numbers + numbers_along(base.dims[i], rank, i) * strides[i]
    return _written(base, end, numbers, values, accumulate)


def _index_rows(base: Any, dim: int, index: Any, source: Any, adds: bool) -> Any:
    """Slices along dim: the dims before it are walked whole."""
    if index.ndim != 1 or index.dtype not in _INTEGERS:
        return None
    axis = normalize_dim("index", dim, base.ndim)
    if _is_tensor(source) and (source.ndim != base.ndim or source.dtype is not base.dtype):
        return None
    strides = contiguous_strides(base.dims[: axis + 1])
    numbers = _checked(index, base.dims[axis]) * strides[axis]
    for i in range(axis):
        numbers = numbers + numbers_along(base.dims[i], axis + 1, i) * strides[i]
    return _written(base, axis + 1, numbers, source, adds)


@_entered(aten.index_fill.int_Scalar)
def _index_fill(base: Any, dim: int, index: Any, value: Any) -> Any:
    return _index_rows(base, dim, index, value, False)


@_entered(aten.index_add)
def _index_add(base: Any, dim: int, index: Any, source: Any, alpha: Any) -> Any:
    if alpha == 1 and normalize_dim("index_add", dim, base.ndim) == 0:
        return _rows_as_they_stand(aten.index_add, base, index, source)
    return _index_rows(base, dim, index, source if alpha == 1 else source * alpha, True)


@_entered(aten.index_copy)
def _index_copy(base: Any, dim: int, index: Any, source: Any) -> Any:
    if normalize_dim("index_copy", dim, base.ndim) == 0:
        return _rows_as_they_stand(aten.index_copy, base, index, source)
    return _index_rows(base, dim, index, source, False)


# ---- pieces


def _rows_as_they_stand(write: Packet, base: Any, index: Any, source: Any) -> Any:
    """A write of rows, whose index is looked at first: what cannot fail may write over its base."""
    if index.ndim != 1 or index.dtype not in _INTEGERS:
        return None
    if is_in_bounds(index.value, base.dims[0], index.builder.env):
        return None
    return write(base, 0, _checked(index, base.dims[0]), source)


def _checked(index: Any, size: Dim) -> Any:
    return aten.checked_index(aten._to_copy(index, dtype=dt.int64) if index.dtype is not dt.int64 else index, size)


def _written(base: Any, end: int, numbers: Any, values: Any, adds: bool) -> Any:
    """The base with values (a tensor that expands, or a number) in the rows numbered `numbers`;
    dims before `end` count rows."""
    rest = base.dims[end:]
    rows, columns, count = product(base.dims[:end]), product(rest), product(numbers.dims)
    if not _is_tensor(values):
        values = aten.full((), values, dtype=base.dtype)
    source = aten.reshape(aten.expand(values, (*numbers.dims, *rest)), (count, columns))
    table, places = aten.reshape(base, (rows, columns)), aten.reshape(numbers, (count,))
    out = aten.index_add(table, 0, places, source) if adds else aten.index_copy(table, 0, places, source)
    return aten.reshape(out, base.dims)


# ---- which indices are certainly in bounds
_CHECKED, _ADD, _MUL = aten.checked_index.default.op, aten.add.Tensor.op, aten.mul.Tensor.op


def is_in_bounds(index: Value, count: Dim, env: ShapeEnv) -> bool:
    """Whether it is certain that no element of an index is negative, or `count` or more: of sums of checked indices and
    positions, times sizes. A kernel that writes there cannot fail, so that it may write over what it was given."""
    greatest = _greatest(index, env)
    return greatest is not None and _is_nonnegative(count - 1 - greatest, env)


def _greatest(value: Value, env: ShapeEnv) -> Dim | None:
    """A number that no element exceeds, where none is negative; None where that is not certain."""
    node = value.node
    if node is None:
        return None
    op, args = node.op, node.args
    if op is _CHECKED:
        return _dim(args[1], -1)
    if op.counts:
        return _dim(value.tensor_type.shape[0], -1)
    if op is _MUL:
        factor = args[1]
        greatest = _greatest(args[0], env) if type(args[0]) is Value else None
        if greatest is None or not isinstance(factor, (int, Expr)) or not _is_nonnegative(factor, env):
            return None
        return greatest * factor
    if op is _ADD and args[2] == 1 and type(args[0]) is Value and type(args[1]) is Value:
        first, second = _greatest(args[0], env), _greatest(args[1], env)
        return None if first is None or second is None else first + second
    if op.view is not None and op.type is None and type(args[0]) is Value:
        return _greatest(args[0], env)
    return None


def _dim(size: object, more: int) -> Dim | None:
    return size + more if isinstance(size, (int, Expr)) else None


def _is_nonnegative(number: Dim, env: ShapeEnv) -> bool:
    if isinstance(number, int):
        return number >= 0
    guard = env.guards.get(Relation("<", number))
    return (guard is not None and not guard.answer) or env.proves_not_less(number)

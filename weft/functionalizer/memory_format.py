"""The order in memory that eager gives an operator's results, found by running it on a few bytes that lie as its
operands do.

Graph values have no strides, but what is a view and what a copy hangs on those that the user sees. So a captured result
remembers its order wherever an operand is not row-major: eager computes on a stand-in of each operand, with the same
order of dims and at most two elements along each.
"""

from __future__ import annotations

import itertools
from functools import lru_cache
from typing import Any

import numpy as np

from weft.functionalizer.storage import Order
from weft.functionalizer.view import View
from weft.ops.compute import operand_of
from weft.ops.geometry import Geometry, contiguous_strides
from weft.ops.layout import Operand, Orders, joint_strides, like_strides
from weft.ops.op import Op
from weft.ops.route import call
from weft.support import limits
from weft.support.errors import CaptureError, WeftError
from weft.support.memo import Memo
from weft.tensor.dense import dense_array, is_dense
from weft.tensor.meta import MetaPayload
from weft.tensor.modes import by_itself
from weft.tensor.tensor import Tensor, tensor_around
from weft.types import shape_env
from weft.types.dims import Dim, Expr, evaluate, symbol
from weft.types.shape_env import ShapeEnv
from weft.types.sym import SymInt

ndarray = np.ndarray
# dtype, sizes up to 2, dims from the outermost, which of them have stride 0
Form = tuple[np.dtype[Any], tuple[int, ...], Order, tuple[bool, ...]]
_FOUND: Memo[Any, tuple[Order | None, ...]] = Memo(limits.MEMORY_FORMATS)
_UNKNOWN = "a value whose dims are not known"


def result_orders(op: Op, args: tuple[Any, ...], env: ShapeEnv | None) -> tuple[Order | None, ...]:
    """For each result its dims from the outermost inwards, None where it is row-major; () when all are."""
    if op.lies is not None:
        return orders_said(op, args, env) or ()
    try:
        if op.scalar is not None:  # (whatever its numbers are)
            return _told([_joint_order([a for a in args if isinstance(a, Tensor)], env)])
        forms = tuple([_form(a, env) for a in args])
        key = (op, forms, tuple(map(type, forms)))
        probed = _FOUND.get(key)
    except (TypeError, KeyError, CaptureError):
        return ()  # something without a form: a number of another kind, a size known only while running
    if probed is None:
        probed = _FOUND[key] = _probe(op, forms)
    return probed


def orders_said(op: Op, args: tuple[Any, ...], env: ShapeEnv | None) -> tuple[Order | None, ...] | None:
    """result_orders() of an entry that says it; None where it is not known how some operand lies."""
    assert op.lies is not None
    try:
        return _told(op.lies(*[_operand(a, env) for a in args]))
    except (TypeError, KeyError, CaptureError):
        return None


def is_permuted(value: Any, env: ShapeEnv | None) -> bool:
    """Whether a tensor's dims lie in another order than row-major; gaps do not count, dims of stride 0 do."""
    if type(value) is tuple or type(value) is list:
        return any([is_permuted(v, env) for v in value])
    if not isinstance(value, Tensor):
        return False
    data = value._data
    if isinstance(data, View) and data.permuted is not None:
        return data.permuted
    if is_dense(value):
        return not data.flags.c_contiguous and not _descend(data.shape, data.strides)
    if not isinstance(data, View):
        return isinstance(data, MetaPayload) and _lies_permuted(data.geometry())
    data.permuted = _is_view_permuted(data, env)
    return data.permuted


def _is_view_permuted(data: View[Any], env: ShapeEnv | None) -> bool:
    if not data.has_geometry or (not data.path and data.storage.is_row_major):
        return False
    if env is None:
        lies_permuted = _lies_permuted.__wrapped__ if data.type.is_symbolic else _lies_permuted
        return lies_permuted(data.geometry())
    try:
        return not _descend(*_examples(data.geometry(), env))
    except KeyError:
        return False


@lru_cache(maxsize=limits.RESULTS)
def _lies_permuted(g: Geometry) -> bool:
    return not _descend(*_examples(g, None))


def _examples(g: Geometry, env: ShapeEnv | None) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Sizes and strides where every symbol, and what is computed of symbols, is at least 2: the order must be that of
    any call, and a size of 1 tells nothing. Outside of graphs symbols are sizes that a program has yet to find.
    """
    if env is None:
        values = places = {name: 3 for d in (*g.dims, *g.strides) if type(d) is Expr for name in d.symbols()}
    else:
        values = {name: max(example, 2) for name, example in env.examples.items()}
        sizes = {name for d in g.dims if type(d) is Expr for name in d.symbols()}
        # (strides are what they are)
        places = values | {name: env.examples[name] for name in env.examples.keys() - sizes}
    return tuple([_example(d, values, env) for d in g.dims]), tuple([_example(s, places, env, 1) for s in g.strides])


def _example(d: Dim, values: dict[str, int], env: ShapeEnv | None, least: int = 2) -> int:
    if not isinstance(d, Expr):
        return d
    if env is not None and env.proves_equal(d, 1):
        return 1
    size = evaluate(d, values)
    if size == 1 and env is not None and all([env.proves_equal(symbol(n), values[n]) for n in d.symbols()]):
        return 1  # guards say what its symbols are
    return max(size, least)


def _descend(sizes: tuple[int, ...], strides: tuple[int, ...]) -> bool:
    real = [(s, d) for s, d in zip(strides, sizes, strict=True) if d != 1]
    return all([s != 0 for s, _ in real]) and all(a >= b for a, b in itertools.pairwise(real))


def order_like(source: Tensor, env: ShapeEnv | None) -> Order | None:
    """The order of what a `*_like` factory makes; None where it is row-major."""
    try:
        stand_in = _stand_in(_form(source, env))
    except (TypeError, KeyError, CaptureError):
        return None
    strides = like_strides(stand_in.geometry())
    order = _form_of(None, stand_in.dims, strides)[2]
    return None if strides == contiguous_strides(stand_in.dims) else order


# ---- stand-ins
def _form(value: Any, env: ShapeEnv | None) -> Any:
    kind = type(value)
    if kind is tuple or kind is list:
        return tuple([_form(v, env) for v in value])
    if isinstance(value, Tensor):
        data = value._data
        if is_dense(value):
            return _form_of(data.dtype, data.shape, data.strides)
        return _form_of(value.dtype.numpy, *_examples(_geometry(value), env))
    if kind is SymInt or kind is Expr:
        return _size(value, env)
    if kind is ndarray:
        return _form_of(value.dtype, value.shape, value.strides)
    hash(value)
    return value


def _size(value: Any, env: ShapeEnv | None) -> int:
    return 2 if env is None else min(env.hint(value.expr if type(value) is SymInt else value), 2)


def _form_of(dtype: Any, sizes: tuple[Any, ...], strides: tuple[Any, ...]) -> Form:
    # (of dims with one stride, which overlap, the longer one lies outside)
    real = [s if d != 1 else 0 for s, d in zip(strides, sizes, strict=True)]
    order = tuple(sorted(range(len(sizes)), key=lambda i: (-real[i], -sizes[i] if real[i] else 0, i)))
    repeated = tuple([s == 0 and d != 1 for s, d in zip(strides, sizes, strict=True)])
    return dtype, tuple([1 if d == 1 else 2 for d in sizes]), order, repeated


def _is_form(value: Any) -> bool:
    return type(value) is tuple and len(value) == 4 and isinstance(value[0], np.dtype)


def _stand_in(value: Any) -> Any:
    if type(value) is not tuple:
        return value
    if not _is_form(value):
        return tuple([_stand_in(v) for v in value])
    dtype, sizes, order, repeats = value
    packed = np.zeros([1 if repeats[i] else sizes[i] for i in order], dtype)
    array = packed.transpose([order.index(i) for i in range(len(order))])
    return tensor_around(np.broadcast_to(array, sizes) if any(repeats) else array)


def _joint_order(operands: list[Tensor], env: ShapeEnv | None) -> Order:
    """The order of a pointwise operator's result."""
    lie = [
        Geometry(t._data.shape, t._data.strides) if is_dense(t) else Geometry(*_examples(_geometry(t), env))
        for t in operands
    ]
    ndim = max(g.ndim for g in lie)
    # sizes that are equal in every call need not be in the examples: only which of them are 1 counts
    dims = tuple([max(row) for row in zip(*[(1,) * (ndim - g.ndim) + g.dims for g in lie], strict=True)])
    strides: Any = joint_strides(dims, lie)
    return _form_of(None, dims, strides)[2]


def _told(orders: Orders) -> tuple[Order | None, ...]:
    """Orders as result_orders gives them."""
    normalized = tuple([None if o is None or o == tuple(range(len(o))) else o for o in orders])
    return normalized if any(o is not None for o in normalized) else ()


def _operand(value: Any, env: ShapeEnv | None) -> Any:
    """An argument as an entry's `lies` is told of it."""
    if type(value) is tuple or type(value) is list:
        return tuple([_operand(v, env) for v in value])
    if isinstance(value, ndarray):
        return operand_of(value)
    if not isinstance(value, Tensor):
        return _size(value, env) if type(value) is SymInt or type(value) is Expr else value
    data = value._data
    if is_dense(value):
        return operand_of(data)
    return Operand(*_examples(_geometry(value), env), 0, value.dtype)


def _geometry(tensor: Tensor) -> Geometry:
    """How a tensor without bytes lies. Raises TypeError where its dims are not known."""
    data: Any = tensor._data
    if not isinstance(data, MetaPayload) and not (isinstance(data, View) and data.has_geometry):
        raise TypeError(_UNKNOWN)
    return data.geometry()


def _probe(op: Op, forms: tuple[Any, ...]) -> tuple[Order | None, ...]:
    try:
        with by_itself(), shape_env.using(None):
            out = call(op, tuple([_stand_in(f) for f in forms]))
    except (WeftError, ValueError, TypeError, IndexError, ArithmeticError, RuntimeError):
        return ()  # it needs other sizes than 2: row-major is as good a guess as any
    return _told([_order_of(t) for t in (out if isinstance(out, (tuple, list)) else (out,))])


def _order_of(out: Any) -> Order | None:
    data = dense_array(out) if isinstance(out, Tensor) else None
    if data is None or data.flags.c_contiguous:
        return None
    return _form_of(data.dtype, data.shape, data.strides)[2]

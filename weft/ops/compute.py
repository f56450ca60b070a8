"""The NumPy value of any entry: `evaluate(op, args)` on ndarrays, out of place. Eager mode, the interpreter and host
segments share it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from operator import itemgetter
from typing import Any

import numpy as np

from weft.ops.geometry import Geometry, contiguous_strides, outside_storage
from weft.ops.layout import Operand, ordered
from weft.ops.op import Op
from weft.ops.rules import reduction_axes
from weft.ops.scalar_numpy import NUMPY
from weft.ops.sums import reducer
from weft.support import limits
from weft.support.errors import NoFake, StateError, WeftError
from weft.support.memo import Memo
from weft.types import dtype as dt
from weft.types.dtype import DType
from weft.types.tensor_type import TensorType, tensor_type

Array = np.ndarray[Any, Any]
Function = Callable[..., Any]
_rule_runner: list[Callable[[Any, tuple[Any, ...]], Any]] = []


def install_rule_runner(runner: Callable[[Any, tuple[Any, ...]], Any]) -> None:
    """Give `evaluate` the way to run decompositions on arrays (ops/array.py installs it)."""
    _rule_runner[:] = [runner]


def type_of(value: Any) -> Any:
    """What a type rule sees for an argument: TensorType for an ndarray, through tuples; other values as they are."""
    if isinstance(value, np.ndarray):
        return tensor_type(dt.from_numpy(value.dtype), value.shape)
    if type(value) is tuple or type(value) is list:
        return tuple(type_of(v) for v in value)
    return value


def evaluate(op: Op, args: tuple[Any, ...]) -> Any:
    """The operator's value on ndarrays in schema order: an ndarray, or a tuple of them. Views share memory with their
    base.

    Floating point exceptions are silent, as in PyTorch. Raises what the type rule raises.
    """
    return EVALUATE[op.how](op, args)


def evaluate_in_program(op: Op, args: tuple[Any, ...]) -> Any:
    """The operator's value in a program: what as_strided looks at lies row-major, and so do a kernel's results, where
    its entry does not say otherwise. (NumPy follows its operands, and reductions add up in the order of memory.)"""
    return _placed(op, args, evaluate(op, laid_out(op, args)))


def laid_out(op: Op, args: tuple[Any, ...]) -> tuple[Any, ...]:
    """Arguments in a program, where a value is all of its memory, row-major: what as_strided looks at must lie so."""
    if op.view is None or not op.view.is_free or args[0].flags.c_contiguous:
        return args
    return (args[0].copy(order="C"), *args[1:])


def evaluate_numbers(op: Op, args: tuple[Any, ...]) -> Any:
    """A pointwise operator on Python numbers alone: a Python number, computed as Python does (64 bits)."""
    operands = number_operands(op, args, args, np.bool_, lambda v, dtype: v if v is None else NUMPY.const(v, dtype))
    with np.errstate(all="ignore"):
        return np.asarray(op.scalar(NUMPY, *operands)).item()  # type: ignore[misc]


def number_operands(
    op: Op, args: tuple[Any, ...], types: tuple[Any, ...], read: Callable[[Any], Any],
    cast: Callable[[Any, DType], Any],
) -> list[Any]:
    """What the body of a pointwise operator on numbers is given: those that it keeps as they are, read, the others
    cast to the dtype in which it runs (floats are doubles, integers 64 bits wide). types: what its rule is asked about.
    """
    rule: Any = op.type
    computed = rule.compute_dtype(types)
    wide = dt.float64 if computed.is_floating_point else computed
    operands: list[Any] = []
    for argument, value in zip(op.schema.arguments, args, strict=True):
        if argument.kind == "Scalar" and is_default(value, argument.default):
            operands.append(None)
        elif argument.kind in ("Tensor", "Scalar"):
            operands.append(read(value) if argument.name in rule.keep else cast(value, wide))
        else:
            operands.append(value)
    return operands


def is_default(value: Any, default: Any) -> bool:
    """Whether a Scalar argument literally has its default; bodies then receive None, so that they can leave the work
    out.
    """
    return default is not None and type(value) in (int, float, bool) and value == default


def call_of(op: Op, args: tuple[Any, ...]) -> tuple[Function, int]:
    """The NumPy call for an operator that is neither a composite nor pointwise, and how many of its first arguments it
    takes. Raises what the type rule raises.

    The call serves all arguments with the same dtypes, shapes and other values; its results own their memory, but for
    views.
    """
    if op.reduce is not None:
        return _reduction(op, args), 1
    if op.view is not None:
        return _view_call(op, args[1:]), 1
    if op.kernel is None:
        return (lambda *values: evaluate(op, values)), len(args)
    if op.type is not None:
        op.type(*[type_of(a) for a in args])
    kernel = op.kernel

    def run(*values: Any) -> Any:
        out = kernel(*values)
        if type(out) is np.ndarray and out.base is None and out.flags.c_contiguous:
            return out
        return fresh(out)

    return run, len(args)


def _view_call(op: Op, rest: tuple[Any, ...]) -> Function:
    """A view of arrays of one dtype and shape: how it is shown hangs on their strides."""
    shows: Memo[tuple[int, ...], Function] = Memo(limits.STRIDES_OF_A_VIEW)

    def run(x: Any) -> Any:
        show = shows.get(x.strides)
        if show is None:
            if view(op, x, rest) is None:  # strides cannot express it
                return view(op, np.ascontiguousarray(x), rest)
            show = shows[x.strides] = _shows(op, x, rest)
        return show(x)

    return run


def _placed(op: Op, args: tuple[Any, ...], value: Any) -> Any:
    """A kernel's results with their dims in memory as the entry says."""
    results = value if isinstance(value, (tuple, list)) else (value,)
    if op.kernel is None or all([type(v) is not np.ndarray or v.flags.c_contiguous for v in results]):
        return value
    orders = [None] * len(results) if op.lies is None else op.lies(*map_arrays(operand_of, args))
    pairs = zip(results, orders, strict=True)
    laid = [in_order(v, order) if type(v) is np.ndarray else v for v, order in pairs]
    return tuple(laid) if isinstance(value, (tuple, list)) else laid[0]


def fresh(value: Any) -> Any:
    """A kernel's results, row-major and with memory of their own."""
    if type(value) is np.ndarray:
        return value if value.base is None and value.flags.c_contiguous else value.copy()
    if isinstance(value, (tuple, list)):
        return tuple([fresh(v) for v in value])
    return np.asarray(value) if isinstance(value, np.generic) else value


def _reduction(op: Op, args: tuple[Any, ...]) -> Function:
    result: TensorType = op.type(*(type_of(a) for a in args))  # type: ignore[misc]
    x, dim, keepdim = reduce_arguments(op, args)
    assert op.reduce is not None and result.dtype is not None
    combine = op.reduce.combine
    if combine in ("argmax", "argmin"):
        return lambda v: arg_reduce(combine, v, dim, keepdim)
    axes = reduction_axes(op, dim, x.ndim) if x.ndim else ()
    target = result.dtype.numpy
    reduce = reducer(combine, axes, dt.compute_dtype(result.dtype).numpy, keepdim)

    def run(v: Array) -> Any:
        out = reduce(v)
        if type(out) is not np.ndarray:
            out = np.asarray(out)
        if out.dtype != target or not out.flags.c_contiguous:
            out = np.asarray(out, target, order="C")
        # (NumPy's strides of dims of one element are those of the operand's order)
        return out if not keepdim or v.flags.c_contiguous else out.reshape(-1).reshape(out.shape)

    return run


@cache
def views_of(op: Op) -> Memo[tuple[Any, ...], Function]:
    """How a view operator's views are shown, by dtype, sizes and strides and by its other arguments."""
    return Memo(limits.VIEWS_OF_AN_OPERATOR)


def view(op: Op, x: Array, rest: tuple[Any, ...]) -> Any:
    """What a view operator shows of x: a view or a tuple of them; None where strides cannot express it."""
    key, shows = (x.dtype, x.shape, x.strides, rest), views_of(op)
    show = shows.get(key)
    if show is None:
        show = shows[key] = _shows(op, x, rest)
    return show(x)


def _shows(op: Op, x: Array, rest: tuple[Any, ...]) -> Function:
    of = op.view
    assert of is not None
    is_lost = not x.size and op.type is None  # NumPy forgets the strides of no elements; another dtype is its affair
    if of.index is not None and not is_lost:
        index = of.index(x.shape, *rest)
        if index is not None:
            return itemgetter(index)
    example = None if of.numpy is None or is_lost else of.numpy(x, *rest)
    if example is not None:
        if of.keeps_order and x.flags.c_contiguous:
            return _reshaping(example.shape)
        numpy: Any = of.numpy
        return lambda x: numpy(x, *rest)
    if of.is_free:  # it may reach into memory that is not x's
        return lambda x: strided(x, of.geometry(geometry_of(x), *rest))
    shown = of.geometry(geometry_of(x), *rest)
    if shown is None:
        return lambda x: None
    if isinstance(shown, tuple):
        parts = [_showing(x, g) for g in shown]
        return lambda x: tuple([part(x) for part in parts])
    return _showing(x, shown)


def _showing(x: Array, g: Any) -> Function:
    """A geometry as a function of arrays that lie as x does."""
    if not x.size or 0 in g.dims:
        return lambda x: strided(x, g)
    if not x.flags.c_contiguous:
        return _reshaping(g.dims) if _is_reshaped(x, g) else lambda x: strided(x, g)
    if not g.offset and g.strides == contiguous_strides(g.dims) and math.prod(g.dims) == x.size:
        return _reshaping(g.dims)
    size, make = x.dtype.itemsize, np.ndarray
    dims, start, strides = tuple(map(int, g.dims)), int(g.offset) * size, tuple(int(s) * size for s in g.strides)
    return lambda x: make(dims, x.dtype, x, start, strides)


def _is_reshaped(x: Array, g: Any) -> bool:
    """Whether NumPy's reshape gives this view (by sizes and strides alone)."""
    if g.offset or math.prod(g.dims) != x.size:
        return False
    reshaped = x.reshape(g.dims)
    return np.may_share_memory(reshaped, x) and geometry_of(reshaped).strides == g.strides


def _reshaping(dims: tuple[int, ...]) -> Function:
    return lambda x: x.reshape(dims)


def _evaluate_reduce(op: Op, args: tuple[Any, ...]) -> Any:
    with np.errstate(all="ignore"):
        return _reduction(op, args)(args[0])


def reduce_arguments(op: Op, args: tuple[Any, ...]) -> tuple[Any, Any, bool]:
    """(self, dim, keepdim) of a reduction, whichever of them its schema has."""
    named = {a.name: v for a, v in zip(op.schema.arguments, args, strict=True)}
    return args[0], named.get("dim"), bool(named.get("keepdim", False))


def arg_reduce(combine: str, x: Array, dim: int | None, keepdim: bool) -> Array:
    """NumPy's argmax or argmin with PyTorch's rules for dims."""
    find = np.argmax if combine == "argmax" else np.argmin
    if x.dtype.kind == "V":
        x = x.astype(np.float32)
    if dim is None:
        out = np.asarray(find(x), np.int64)
        return out.reshape((1,) * x.ndim) if keepdim else out
    if x.ndim == 0:
        return np.zeros((), np.int64)
    return np.asarray(find(x, axis=dim, keepdims=keepdim), np.int64)


def _evaluate_kernel(op: Op, args: tuple[Any, ...]) -> Any:
    if op.type is not None:
        with suppress(NoFake):
            op.type(*(type_of(a) for a in args))
    with np.errstate(all="ignore"):
        return op.kernel(*args)  # type: ignore[misc]


def _evaluate_view(op: Op, args: tuple[Any, ...]) -> Any:
    """In a program a value lies row-major, whatever the array does that stands for it: what strides cannot express is
    shown of a copy.
    """
    x, rest = args[0], args[1:]
    try:
        shown = view(op, x, rest)
    except WeftError:
        if x.flags.c_contiguous:
            raise
        shown = None
    return view(op, np.ascontiguousarray(x), rest) if shown is None else shown


def geometry_of(x: Array) -> Geometry:
    """Dims and element strides of an array; offset 0 is its first element."""
    return Geometry(x.shape, element_strides(x), 0)


def operand_of(x: Array) -> Operand:
    """An array as an entry's `lies` is told of it."""
    return Operand(x.shape, element_strides(x), 0, dt.from_numpy(x.dtype))


def with_strides(x: Array, strides: tuple[int, ...]) -> Array:
    """The array's elements with these strides, in elements."""
    if not x.size:
        return x
    laid: Array = np.ndarray(x.shape, x.dtype, np.empty(x.size, x.dtype), 0, tuple(s * x.itemsize for s in strides))
    laid[...] = x
    return laid


def in_order(x: Array, order: tuple[int, ...] | None) -> Array:
    """The array's elements densely with its dims in this order, the outermost first (None: row-major)."""
    strides = strides_in_order(x, order)
    return x if strides is None else with_strides(x, strides)


def strides_in_order(x: Array, order: tuple[int, ...] | None) -> tuple[int, ...] | None:
    """The strides that the array has with its dims densely in this order; None where it lies so."""
    strides: Any = contiguous_strides(x.shape) if order is None else ordered(x.shape, order).strides  # integers
    axes = zip(element_strides(x), strides, x.shape, strict=True)
    return None if 0 in x.shape or all([a == b or n == 1 for a, b, n in axes]) else strides


def map_arrays(function: Callable[[Array], Any], value: Any) -> Any:
    """A value with function(array) in place of each array, through tuples."""
    if type(value) is tuple:
        return tuple([map_arrays(function, v) for v in value])
    return function(value) if type(value) is np.ndarray else value


def element_strides(x: Array) -> tuple[int, ...]:
    """The strides of an array in elements. Where NumPy made one without elements it has none: row-major ones are."""
    if not x.size and not any(x.strides):
        return contiguous_strides(x.shape)  # type: ignore[return-value]
    size = x.dtype.itemsize
    return tuple([s // size for s in x.strides])


def strided(x: Array, g: Geometry) -> Array:
    """The view of `x`'s memory with this geometry, offset counted from x's first element."""
    size = x.dtype.itemsize
    root = dense_root(x)
    concrete: Any = g  # sizes of an array are numbers
    start = address(x) - address(root) + int(concrete.offset) * size
    strides = tuple(int(s) * size for s in concrete.strides)
    dims = tuple(map(int, concrete.dims))
    if 0 in dims:
        start = max(0, min(start, root.nbytes))
    elif not root.nbytes:  # NumPy lets a buffer of no bytes pass for any
        raise outside_storage(Geometry(dims, concrete.strides, start // size), 0)
    try:
        view: Array = np.ndarray(dims, x.dtype, buffer=root, offset=start, strides=strides)
    except ValueError:
        raise outside_storage(Geometry(dims, concrete.strides, start // size), root.nbytes // size) from None
    return view


def dense_root(x: Array) -> Array:
    """x's memory as one flat array (roots that are dense in another order than row-major are read in memory order)."""
    root = root_of(x)
    if not root.flags.c_contiguous:
        root = root.ravel(order="K")
    return root


def root_of(x: Array) -> Array:
    """The contiguous array that owns (or stands for) x's memory."""
    while isinstance(x.base, np.ndarray):
        x = x.base
    return x


def address(x: Array) -> int:
    """Address of x's first element."""
    return int(x.__array_interface__["data"][0])


def _evaluate_decompose(op: Op, args: tuple[Any, ...]) -> Any:
    if op.type is not None:
        op.type(*(type_of(a) for a in args))
    if not _rule_runner:
        raise StateError("no runner for decompositions is installed; import weft")
    return _rule_runner[0](op.decompose, args)


EVALUATE: dict[str, Callable[[Op, tuple[Any, ...]], Any]] = {  # (ops/planned.py adds "scalar")
    "reduce": _evaluate_reduce, "kernel": _evaluate_kernel, "view": _evaluate_view, "decompose": _evaluate_decompose,
}

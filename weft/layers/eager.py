"""The eager back end: NumPy computes, results are wrapped, views share storage. Pointwise calls take a path cached per operand kinds."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from weft.ops import compute
from weft.ops.compute import is_default
from weft.ops.geometry import contiguous_strides
from weft.ops.op import Op
from weft.ops.quiet import SILENT, quiet, reset, set_silent
from weft.ops.replay import LARGE
from weft.ops.rules import Pointwise
from weft.ops.scalar_numpy import NUMPY
from weft.ops.steps import finish_as
from weft.ops.straight import PLAIN, straight
from weft.runtime.storage import InferenceStorage, root_of
from weft.support.errors import DTypeError, ShapeError, StateError
from weft.support.locations import user_mark
from weft.tensor import replayed
from weft.tensor.history import ViewOf
from weft.tensor.modes import modes
from weft.tensor.tensor import Tensor
from weft.types import dtype as dt
from weft.types import promotion
from weft.types.dtype import DType
from weft.types.tensor_type import TensorType, tensor_type

ndarray = np.ndarray


class NotDense(StateError):
    """An operand has no bytes here; the back end of its payload must run the call."""


Array = np.ndarray[Any, Any]


def run(op: Op, args: tuple[Any, ...]) -> Any:
    """The operator's value on dense tensors, without history."""
    if op.scalar is not None and isinstance(op.type, Pointwise):
        return Tensor(pointwise(op, args))
    if op.view is not None:
        return run_view(op, args)
    out = replayed.run(op, args)
    if out is not replayed.NOT_REPLAYED:
        return out
    return wrap(compute.evaluate(op, unwrap(args)))


def unwrap(value: Any) -> Any:
    """Arrays out of tensors, through tuples."""
    if isinstance(value, Tensor):
        data = value._data
        if type(data) is not ndarray:
            raise NotDense(f"an operator got a tensor on {value.device} where bytes are needed")
        return data
    if type(value) is tuple:
        return tuple([unwrap(v) for v in value])
    return value


def wrap(value: Any) -> Any:
    """Tensors around arrays, through tuples; results are row-major and own their memory, so views of other arrays are copied."""
    if type(value) is ndarray:
        return Tensor(value if value.base is None and value.flags.c_contiguous else value.copy())
    if isinstance(value, (tuple, list)):
        return tuple([wrap(v) for v in value])
    if isinstance(value, np.generic):
        return Tensor(np.asarray(value))
    return value


# ---- pointwise: one plan per operand kinds
_NUMBERS = frozenset((int, float, complex, bool))
PointwisePlan = tuple[Any, "tuple[Callable[[Any], Any] | None, ...] | None", Any]  # body, conversions (None: operands as they are), default dtype
_PLANS: dict[Any, PointwisePlan] = {}


def pointwise(op: Op, args: tuple[Any, ...]) -> Array:
    """The array of a pointwise call."""
    kinds: list[Any] = [op]
    is_large = False
    operands: list[Any] = []
    for a in args:
        if isinstance(a, Tensor):
            data = a._data
            if type(data) is not ndarray:
                raise NotDense(f"an operator got a tensor on {a.device} where bytes are needed")
            kinds.append(data.dtype)
            kinds.append(data.ndim == 0)
            operands.append(data)
            is_large = is_large or data.size >= LARGE
        else:
            kind = type(a)
            kinds.append(kind)
            if kind not in _NUMBERS:
                kinds.append(a)
            operands.append(a)
    if is_large and compute.single_ufunc(op) is None:  # a body of several calls, each of which would pass over memory
        found = replayed.run(op, args)
        if found is not replayed.NOT_REPLAYED:
            return found._data
    key = tuple(kinds)
    plan = _PLANS.get(key)
    try:
        if plan is None or plan[2] is not dt.get_default():
            plan = _PLANS[key] = _make_plan(op, args)
        body, casts, _ = plan
        token = set_silent(SILENT)
        try:
            out = body(*operands) if casts is None else body(*[o if c is None else c(a) for o, a, c in zip(operands, args, casts, strict=True)])
        finally:
            reset(token)
    except (ValueError, TypeError):
        op.type(*[compute.type_of(unwrap(a)) for a in args])  # type: ignore[misc]
        raise
    return out if type(out) is ndarray else np.asarray(out)


def _make_plan(op: Op, args: tuple[Any, ...]) -> PointwisePlan:
    rule = op.type
    assert isinstance(rule, Pointwise) and op.scalar is not None
    types = tuple(_scalar_type(a) for a in args)
    wide = rule.operand_dtype(types)
    result = rule.result_dtype(types)
    casts: list[Callable[[Any], Any] | None] = []
    looks = rule.looks_at_numbers(types)
    for argument, value in zip(op.schema.arguments, args, strict=True):
        casts.append(_cast_of(argument.kind, argument.name in rule.keep, value, wide))
        if argument.kind == "Scalar" and argument.default is not None:
            casts[-1] = _defaulted(argument.default, casts[-1])
        if looks and type(value) in _NUMBERS:
            casts[-1] = _checked(rule, types, len(casts) - 1, casts[-1])
    operands = tuple([a if c is None else c(a) for a, c in zip(args, casts, strict=True)])
    token = set_silent(SILENT)
    try:
        body = _body(op, result, args, operands)
    finally:
        reset(token)
    if rule.into_self:
        body = _within_self(body)
    as_they_are = all([c is _data_of or (c is None and not isinstance(a, Tensor)) for a, c in zip(args, casts, strict=True)])
    return (body, None if as_they_are else tuple(casts), dt.get_default())


def _within_self(body: Any) -> Any:
    """A body whose result must have the dims of its first operand."""

    def run(first: Array, *rest: Any) -> Any:
        out = body(first, *rest)
        if out.shape != first.shape:
            raise ValueError("the operands do not fit into the first one")  # the type rule has the words
        return out

    return run


def _scalar_type(value: Any) -> Any:
    if isinstance(value, Tensor):
        data = value._data
        return tensor_type(dt.from_numpy(data.dtype), () if data.ndim == 0 else (1,) * data.ndim)
    return value


def _defaulted(default: Any, cast: Callable[[Any], Any] | None) -> Callable[[Any], Any]:
    def convert(value: Any) -> Any:
        if is_default(value, default):
            return None
        return value if cast is None else cast(value)

    return convert


def _checked(rule: Pointwise, types: tuple[Any, ...], position: int, cast: Callable[[Any], Any] | None) -> Callable[[Any], Any]:
    def convert(value: Any) -> Any:
        rule.check_numbers((*types[:position], value, *types[position + 1 :]))
        return value if cast is None else cast(value)

    return convert


def _cast_of(kind: str, keeps: bool, value: Any, wide: DType) -> Callable[[Any], Any] | None:
    if isinstance(value, Tensor):
        if keeps or value._data.dtype == wide.numpy:
            return _data_of
        return lambda t: NUMPY.cast(t._data, wide)
    if kind in ("Tensor", "Scalar") and value is not None:
        return _number_as(wide)
    return None


def _number_as(dtype: DType) -> Callable[[Any], Any]:
    """Python numbers of one type as arrays of a dtype; those seen before are at hand (no zero of floats: it has two signs)."""
    seen: dict[Any, Array] = {}

    def cast(value: Any) -> Array:
        found = seen.get(value)
        if found is None:
            found = np.asarray(NUMPY.const(value, dtype))
            if len(seen) < 64 and (value or type(value) is int):
                seen[value] = found
        return found

    return cast


def _data_of(tensor: Tensor) -> Array:
    return tensor._data


def _body(op: Op, result: DType, args: tuple[Any, ...], operands: tuple[Any, ...]) -> Callable[..., Any]:
    """What computes the array (or NumPy scalar) from operands like these, which the arguments were converted to."""
    ufunc = compute.single_ufunc(op)
    finish, target = finish_as(result), result.numpy
    loose = tuple([i for i, a in enumerate(args) if not isinstance(a, Tensor)])  # absent (None) or not, and what a body reads in Python
    if not loose:
        return straight(op.scalar, target, finish, operands)  # type: ignore[arg-type]
    variants: dict[Any, Callable[..., Any]] = {}

    def run_body(*values: Any) -> Any:
        key = tuple([_as_key(values[i]) for i in loose])
        body = variants.get(key)
        if body is None:
            if len(variants) > 64:
                variants.clear()
            body = variants[key] = straight(op.scalar, target, finish, values)  # type: ignore[arg-type]
        return body(*values)

    def run_ufunc(*values: Any) -> Any:
        if len(values) > ufunc.nin and any([o is not None for o in values[ufunc.nin :]]):
            return run_body(*values)  # an argument such as alpha that is not its default
        out = ufunc(*values[: ufunc.nin])
        return out if out.dtype == target else NUMPY.cast(out, result)

    return run_body if ufunc is None else run_ufunc


def _as_key(value: Any) -> Any:
    """What of an operand that is no array a body may read in Python: all of a plain value (0.0 is not -0.0), nothing of a number that was cast."""
    if type(value) not in PLAIN:
        return _as_key
    return value if type(value) is not float or value else repr(value)


# ---- views
def run_view(op: Op, args: tuple[Any, ...]) -> Any:
    """A view (or views) of the first argument; a copy where strides cannot express it."""
    source: Tensor = args[0]
    data = unwrap(source)
    rest = args[1:]
    view = op.view
    assert view is not None
    made = view.numpy(data, *rest) if view.numpy is not None else None
    if made is None:
        made = _by_geometry(op, data, rest)
        if made is None:
            return wrap(np.ascontiguousarray(compute.evaluate(op, (data, *rest))))
    storage = source.storage()
    if isinstance(made, tuple):
        return tuple([view_of(source, storage, m, op, rest, i) for i, m in enumerate(made)])
    return view_of(source, storage, made, op, rest, 0)


_RESHAPES: dict[Any, tuple[int, ...] | None] = {}  # views of row-major arrays that NumPy's reshape gives; None for those that it does not


def _by_geometry(op: Op, data: Array, rest: tuple[Any, ...]) -> Any:
    if not data.flags.c_contiguous:
        return _strided(op, data, rest)
    key = (op, data.shape, rest)
    if key not in _RESHAPES:
        if len(_RESHAPES) > 4096:
            _RESHAPES.clear()
        _RESHAPES[key] = _reshaped(op, data, rest)
    dims = _RESHAPES[key]
    return _strided(op, data, rest) if dims is None else data.reshape(dims)


def _reshaped(op: Op, data: Array, rest: tuple[Any, ...]) -> tuple[int, ...] | None:
    """The dims of a view that shows a row-major array's elements in order."""
    assert op.view is not None
    shape = op.view.geometry(compute.geometry_of(data), *rest)
    if shape is None or isinstance(shape, tuple) or shape.offset or not data.size:
        return None
    return shape.dims if shape.strides == contiguous_strides(shape.dims) and math.prod(shape.dims) == data.size else None


def _strided(op: Op, data: Array, rest: tuple[Any, ...]) -> Any:
    assert op.view is not None
    shape = op.view.geometry(compute.geometry_of(data), *rest)
    if shape is None:
        return None
    return tuple([compute.strided(data, g) for g in shape]) if isinstance(shape, tuple) else compute.strided(data, shape)


def view_of(source: Tensor, storage: Any, array: Any, op: Op, rest: tuple[Any, ...], index: int) -> Tensor:
    """A tensor over `array` that knows how it is seen: result `index` of op(source, *rest), in source's storage."""
    out = Tensor(array)
    out._storage = storage
    step = (op, rest, index)
    parent = source._view
    if modes.inference:
        creation = "inference"
    elif not modes.grad:
        creation = "no_grad"
    else:
        creation = "multi" if op.schema.returns_list else "default"
    if parent is None:
        out._view = ViewOf(source, (step,), creation)
    else:
        out._view = ViewOf(parent.base, (*parent.path, step), creation if creation != "default" else parent.creation, parent.array)
    if storage.version and creation in ("no_grad", "inference"):
        out._state().version = storage.version  # it has no history, whatever was written before
    return out


# ---- writes
_EXACT = frozenset((np.dtype(np.float32), np.dtype(np.float64)))  # computed in themselves: a number is rounded once, to them
_ONE_VALUE = frozenset(("fill", "zero"))  # every element gets the same value, so that elements may share memory


def write(target: Tensor, op: Op, args: tuple[Any, ...]) -> None:
    """Put the operator's value into the bytes of `target` (which is args[0]) and raise the version."""
    data: Array = unwrap(target)
    storage = target.storage()
    if type(storage) is InferenceStorage and not modes.inference:
        raise StateError(INFERENCE_WRITE)
    if op.base not in _ONE_VALUE:
        _check_overlap(data)
    ufunc = compute.single_ufunc(op) if op.scalar is not None else None
    if ufunc is None or not _write_ufunc(op, ufunc, data, args):
        value = run(op, args)
        store(data, value._data)
    storage.version += 1
    storage.written = (storage.version, user_mark(2))


INFERENCE_WRITE = (
    "Inplace update to inference tensor outside InferenceMode is not allowed. You can make a clone to get a normal tensor before doing inplace update."
)


@cache
def _answers(ufunc: Any) -> bool:
    """Whether a ufunc gives bools for all dtypes, as comparisons do."""
    return all(types.endswith("?") for types in ufunc.types)


def _write_ufunc(op: Op, ufunc: Any, data: Array, args: tuple[Any, ...]) -> bool:
    """The write as one ufunc call with out=, when every operand has the target's dtype (or is a number) and the result its shape."""
    operands: list[Any] = []
    for argument, a in zip(op.schema.arguments, args, strict=True):
        if isinstance(a, Tensor):
            other = a._data
            if type(other) is not ndarray or other.dtype != data.dtype or other.ndim > data.ndim or (other is not data and np.may_share_memory(other, data)):
                return False
            operands.append(other)
        elif argument.kind == "Tensor" and type(a) in (int, float) and data.dtype in _EXACT:
            operands.append(a)
        elif not is_default(a, argument.default):
            return False
    if len(operands) != ufunc.nin or _answers(ufunc) or data.dtype.kind not in "fc":
        return False
    try:
        quiet(ufunc, *operands, data)
    except (ValueError, TypeError, OverflowError):
        return False
    return True


def store(data: Array, value: Array) -> None:
    """Copy an array of the right shape into `data`, converting as an in-place operator may."""
    source, target = dt.from_numpy(value.dtype), dt.from_numpy(data.dtype)
    if not promotion.can_cast(source, target):
        raise DTypeError(f"result type {_name(source)} can't be cast to the desired output type {_name(target)}")
    if value.shape != data.shape:
        raise ShapeError(f"output with shape {list(data.shape)} doesn't match the broadcast shape {list(value.shape)}")
    if not data.flags.writeable:
        raise StateError("the tensor shares memory that its owner made read-only; clone() it before writing")
    data[...] = NUMPY.cast(value, target) if value.dtype != data.dtype else value


_CAPITALS = {
    "bool": "Bool", "uint8": "Byte", "int8": "Char", "int16": "Short", "int32": "Int", "int64": "Long", "float16": "Half",
    "bfloat16": "BFloat16", "float32": "Float", "float64": "Double", "complex64": "ComplexFloat", "complex128": "ComplexDouble",
}


def _name(dtype: DType) -> str:
    return _CAPITALS[dtype.name]


def _check_overlap(data: Array) -> None:
    if data.size and any(s == 0 and n > 1 for s, n in zip(data.strides, data.shape, strict=True)):
        raise StateError(
            "unsupported operation: more than one element of the written-to tensor refers to a single memory location. Please clone() the tensor "
            "before performing the operation."
        )


def type_of(value: Any) -> Any:
    """What a type rule sees of a tensor argument."""
    if isinstance(value, Tensor):
        return value.type_
    if type(value) is tuple:
        return tuple(type_of(v) for v in value)
    return value


def empty_like_type(type: TensorType) -> Array:
    """An uninitialised array of a complete type."""
    assert type.dtype is not None
    return np.empty(tuple(int(d) for d in type.shape), type.dtype.numpy)  # type: ignore[arg-type]


def owns_memory(array: Array) -> bool:
    """Whether the array is its own root."""
    return root_of(array) is array

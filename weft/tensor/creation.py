"""Tensors from data: weft.tensor, as_tensor, from_numpy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from weft.ops.overrides import overridable
from weft.ops.packet import aten
from weft.ops.rules import check_fits
from weft.runtime.storage import ElementRow, UntypedStorage
from weft.support.errors import ArgumentError, DTypeError, StateError, ValueProblem
from weft.tensor.backend import backend_at
from weft.tensor.dense import lend
from weft.tensor.device import Device, chosen, device_named, usable
from weft.tensor.modes import modes
from weft.tensor.tensor import Tensor, tensor_around
from weft.types import dtype as dt
from weft.types import promotion
from weft.types.dtype import DType
from weft.types.sym import SymInt


@overridable
def tensor(
    data: Any, *, dtype: DType | None = None, device: Any = None, requires_grad: bool = False, pin_memory: bool = False
) -> Tensor:
    """A new tensor that owns a copy of `data` (number, nested sequences, ndarray, tensor, or storage).

    Python floats become the default dtype, integers int64, bools bool. The bytes of an untyped storage are elements of
    the dtype (int64 without one). Raises ValueProblem for ragged nesting.
    """
    if dtype is not None:
        dtype = dt.as_dtype(dtype)
    where = _where(data, device)
    if modes.capture is not None and _has_symbols(data):
        return _recorded(data, dtype).requires_grad_(requires_grad)
    out = tensor_around(_copied(data, dtype))
    if where.type != "cpu":
        out = backend_at(where).receive(out)
    elif modes.capture is not None:
        out = modes.capture.backend.receive(out)
    for level in modes.special or ():
        out = level.lift(out)
    return out.requires_grad_() if requires_grad else out


def _where(data: Any, device: Any) -> Device:
    """Where a tensor of some data goes: to the device given, to that of a tensor, else to the chosen one."""
    if device is not None:
        return usable(device)
    return data.device if isinstance(data, Tensor) else chosen.device or device_named("cpu")


def _has_symbols(data: Any) -> bool:
    """Whether sizes or lifted numbers are among the data, whose values are known when the program runs."""
    return (
        any(map(_has_symbols, data)) if isinstance(data, (list, tuple))
        else type(data) is SymInt or hasattr(type(data), "__weft_number__") or _is_run_time(data)
    )


def _is_run_time(value: Any) -> bool:
    """Whether a value stands for a number that a program finds while it runs, and has it as a tensor."""
    return hasattr(type(value), "__weft_tensor__")


def _recorded(data: Any, dtype: DType | None) -> Tensor:
    """A tensor of numbers that a graph is recorded for: one operator for each, then a stack of them."""
    flat = [data]
    sizes: list[int] = []
    while isinstance(flat[0], (list, tuple)):
        sizes.append(len(flat[0]))
        if any(not isinstance(row, (list, tuple)) or len(row) != sizes[-1] for row in flat):
            raise ValueProblem(f"weft.tensor: {_ragged_text(data)}")
        flat = [x for row in flat for x in row]
    kind = dtype or _dtype_of(data)
    elements = [x.__weft_tensor__(kind) if _is_run_time(x) else aten.scalar_tensor(x, dtype=kind) for x in flat]
    return aten.stack(elements).reshape(sizes) if sizes else elements[0]  # type: ignore[no-any-return]


def _copied(data: Any, dtype: DType | None) -> np.ndarray[Any, Any]:
    if isinstance(data, Tensor):
        array = data.detach()._array("weft.tensor()")
        return np.array(array, dtype=None if dtype is None else dtype.numpy, order="C")
    if isinstance(data, (np.ndarray, np.generic)):
        array = np.asarray(data)
        wanted = dt.from_numpy(array.dtype) if dtype is None else dtype
        return np.array(array, dtype=wanted.numpy, order="C")
    if isinstance(data, UntypedStorage):  # memory, not numbers
        return data.copy_as((dtype or dt.int64).numpy)
    if isinstance(data, ElementRow):
        return _copied(data.elements("weft.tensor()"), dtype)
    plain = _plain(data)
    dtype = dtype or _dtype_of(data)
    try:
        with np.errstate(all="ignore"):
            if dtype.category == dt.INT:
                integers = np.array(plain, dtype=np.int64)
                for extreme in (integers.min(), integers.max()) if integers.size and dtype is not dt.int64 else ():
                    check_fits(int(extreme), dtype)
                return integers.astype(dtype.numpy)
            return np.array(plain, dtype=np.float64 if dtype is dt.bfloat16 else dtype.numpy).astype(
                dtype.numpy, copy=False
            )
    except (OverflowError, ValueError, TypeError) as problem:
        if "too large" in str(problem):
            raise ValueProblem("Overflow when unpacking long long") from None
        if "to integer" in str(problem):
            raise StateError(f"weft.tensor: a value cannot be converted to {dtype}: {problem}") from None
        if "inhomogeneous" in str(problem):
            raise ValueProblem(f"weft.tensor: {_ragged_text(plain)}") from None
        raise ArgumentError(f"weft.tensor: cannot make a tensor of {type(data).__name__}: {problem}") from None


def _dtype_of(data: Any) -> DType:
    held: set[DType] = set()
    _gather_dtypes(data, held)
    return promotion.result_type(tuple(held), (), ()) if held else dt.get_default()


def _gather_dtypes(data: Any, held: set[DType]) -> None:
    """The dtypes of everything in nested sequences: tensors and arrays say theirs, numbers their category's.
    Raises StateError for anything else."""
    kind = type(data)
    if kind is list or kind is tuple:
        kinds = set(map(type, data))
        if kinds <= _NUMBERS:
            held.update(map(promotion.number_dtype, kinds))
            return
        for item in data:
            _gather_dtypes(item, held)
    elif isinstance(data, (Tensor, np.ndarray, np.generic)):
        held.add(data.dtype if isinstance(data, Tensor) else dt.from_numpy(data.dtype))
    elif _is_run_time(data):
        held.add(data.__weft_tensor__(None).dtype)
    elif isinstance(data, Sequence):
        _gather_dtypes(list(data), held)
    elif isinstance(data, (int, float, complex, SymInt)):
        held.add(promotion.number_dtype(next((k for k in (bool, float, complex) if isinstance(data, k)), int)))
    else:
        raise StateError(f"Could not infer dtype of {kind.__name__}")


_NUMBERS = frozenset((bool, int, float, complex))


def _plain(data: Any) -> Any:
    if isinstance(data, Tensor):  # in a sequence it stands for a number
        if data.numel() != 1:
            raise ValueProblem("only one element tensors can be converted to Python scalars")
        return data.item()
    if isinstance(data, SymInt):
        return int(data)
    if isinstance(data, (list, tuple)):
        if any(isinstance(d, (str, bytes)) for d in data):
            raise ValueProblem("weft.tensor: too many dimensions 'str'")
        return [_plain(d) for d in data]
    if isinstance(data, Sequence) and not isinstance(data, (str, bytes)):
        return [_plain(d) for d in data]
    if isinstance(data, np.ndarray):
        return data.tolist()
    if isinstance(data, (str, bytes)):
        raise ArgumentError(f"weft.tensor: invalid data type '{type(data).__name__}'")
    return data


def _ragged_text(data: Any) -> str:
    lengths = sorted({len(d) if isinstance(d, list) else 0 for d in data})
    return f"expected sequences of equal length at dim 1, got lengths {lengths}"


@overridable
def as_tensor(data: Any, dtype: DType | None = None, device: Any = None) -> Tensor:
    """`data` as a tensor, sharing memory where it can (tensors and ndarrays of the right dtype)."""
    if dtype is not None:
        dtype = dt.as_dtype(dtype)
    if isinstance(data, Tensor):
        return data.to(device=device, dtype=dtype)
    is_there = isinstance(data, np.ndarray) and _where(data, device).type == "cpu"
    if is_there and (dtype is None or dtype.numpy == data.dtype):
        return from_numpy(data)
    return tensor(data, dtype=dtype, device=device)


@overridable
def from_numpy(array: np.ndarray[Any, Any]) -> Tensor:
    """A tensor over the array's own memory: writes on either side show on the other. Raises DTypeError for a dtype
    that weft has not."""
    if not isinstance(array, np.ndarray):
        raise ArgumentError(f"expected np.ndarray (got {type(array).__name__})")
    dt.from_numpy(array.dtype)
    if not array.dtype.isnative:
        raise DTypeError("given numpy array has byte order different from the native byte order; convert it first")
    if any(s < 0 for s in array.strides):
        raise ValueProblem(
            "At least one stride in the given numpy array is negative, and tensors with negative strides are not "
            "currently supported. (You can probably work around this by making a copy of your array with array.copy().)"
        )
    if any(s % array.itemsize for s in array.strides):
        raise ValueProblem(
            "given numpy array strides not a multiple of the element byte size. "
            "Copy the numpy array to reallocate the memory."
        )
    out = tensor_around(np.asarray(array))  # of a memmap or another subclass its memory alone
    lend(out, "from_numpy()", True)
    return out


def from_payload(data: Any, storage: Any = None) -> Tensor:
    """A tensor around a payload."""
    if data is None:
        raise StateError("a tensor needs a payload")
    out = tensor_around(data)
    out._storage = storage
    return out

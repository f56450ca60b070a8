"""Element types: twelve dtypes, each one interned object."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

import numpy as np

from weft.support.errors import DTypeError, ForeignDType, UnheldDTypeError
from weft.support.naming import shown

BOOL, INT, FLOAT, COMPLEX = 0, 1, 2, 3  # promotion categories, in order


class DType:
    """An element type. Compare by identity; `str(weft.float32) == "weft.float32"`.

    numpy: the NumPy dtype (bfloat16 comes from ml_dtypes), found when first asked for.
    """

    __slots__ = (
        "bits", "category", "is_complex", "is_differentiable", "is_floating_point", "is_signed", "itemsize", "name",
        "numpy", "short",
    )
    numpy: np.dtype[Any]

    def __init__(self, name: str, short: str, category: int, itemsize: int, is_signed: bool = True) -> None:
        self.name, self.short, self.category, self.itemsize, self.is_signed = name, short, category, itemsize, is_signed
        self.bits = 8 * itemsize
        self.is_floating_point, self.is_complex = category == FLOAT, category == COMPLEX
        self.is_differentiable = category >= FLOAT

    def __getattr__(self, name: str) -> Any:
        if name != "numpy":
            raise AttributeError(f"{self!r} has no attribute {name!r}")
        numpy = self.numpy = _numpy_dtype(self)
        BY_NUMPY[numpy] = self
        return numpy

    def to_real(self) -> DType:
        """The dtype of the real part."""
        return {complex64: float32, complex128: float64}.get(self, self)

    def to_complex(self) -> DType:
        """The complex dtype with parts of this precision."""
        return {float64: complex128, float32: complex64}.get(self, self if self.is_complex else complex64)

    def __repr__(self) -> str:
        return f"{shown.name}.{self.name}"

    def __reduce__(self) -> tuple[Any, ...]:
        return (by_name, (self.name,))

    def __deepcopy__(self, memo: object) -> DType:
        return self

    def __copy__(self) -> DType:
        return self


class UnheldDType(DType):
    """An element type that no tensor of weft has: a name with limits (types/unheld.py)."""

    __slots__ = ()

    def __getattr__(self, name: str) -> Any:
        if name == "numpy":
            self.refuse()
        return super().__getattr__(name)

    def refuse(self) -> NoReturn:
        """Raises the error of whoever is to make a tensor of it."""
        raise UnheldDTypeError(
            f"weft has no tensors of {self.name}: the name is there to be compared with, and for its limits. There are "
            f"{', '.join(d.name for d in ALL)}"
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return (_unheld, (self.name,))


def _unheld(name: str) -> DType:
    """The dtype of this name among those that no tensor has."""
    from weft.types import unheld  # it stands on this module, and few programs name its dtypes

    dtype: DType = getattr(unheld, name)
    return dtype


def _numpy_dtype(dtype: DType) -> np.dtype[Any]:
    if dtype.name == "bfloat16":
        import ml_dtypes  # deferred: costs import time, and few programs use bfloat16

        numpy_dtype: np.dtype[Any] = np.dtype(ml_dtypes.bfloat16)
        return numpy_dtype
    return np.dtype(dtype.name)


bool_ = DType("bool", "b1", BOOL, 1, False)
uint8 = DType("uint8", "u8", INT, 1, False)
int8 = DType("int8", "i8", INT, 1)
int16 = DType("int16", "i16", INT, 2)
int32 = DType("int32", "i32", INT, 4)
int64 = DType("int64", "i64", INT, 8)
float16 = DType("float16", "f16", FLOAT, 2)
bfloat16 = DType("bfloat16", "bf16", FLOAT, 2)
float32 = DType("float32", "f32", FLOAT, 4)
float64 = DType("float64", "f64", FLOAT, 8)
complex64 = DType("complex64", "c64", COMPLEX, 8)
complex128 = DType("complex128", "c128", COMPLEX, 16)

ALL: tuple[DType, ...] = (
    bool_, uint8, int8, int16, int32, int64, float16, bfloat16, float32, float64, complex64, complex128,
)
_BY_NAME: dict[str, DType] = {d.name: d for d in ALL} | {
    "half": float16, "float": float32, "double": float64, "short": int16, "int": int32, "long": int64,
    "cfloat": complex64, "cdouble": complex128,
}
_BY_SHORT: dict[str, DType] = {d.short: d for d in ALL}
# Filled with what NumPy has, and each dtype by itself, since the values of some tensors say that; read on every call.
BY_NUMPY: dict[Any, DType] = {d: d for d in ALL}
for _d in ALL:
    if _d is not bfloat16:
        BY_NUMPY[_d.numpy] = _d


def by_name(name: str) -> DType:
    """The dtype of this name (`float32`). Raises DTypeError."""
    try:
        return _BY_NAME[name]
    except KeyError:
        raise DTypeError(f"no dtype named {name!r}; there are {', '.join(d.name for d in ALL)}") from None


def by_short(short: str) -> DType | None:
    """The dtype of a text form (`f32`), or None."""
    return _BY_SHORT.get(short)


def from_numpy(dtype: np.dtype[Any]) -> DType:
    """The weft dtype of a NumPy dtype. Raises DTypeError for one that weft has not."""
    exact = BY_NUMPY.get(dtype)
    if exact is not None:
        return exact
    if dtype.name == "bfloat16" and dtype == bfloat16.numpy:
        return bfloat16
    native = BY_NUMPY.get(dtype.newbyteorder("="))
    if native is not None:
        return native
    raise ForeignDType(
        f"can't convert np.ndarray of type {dtype}. The only supported types are: {', '.join(d.name for d in ALL)}"
    )


_PYTHON: dict[type, DType] = {bool: bool_, int: int64, float: float64, complex: complex128}


def as_dtype(value: Any) -> DType:
    """A DType from a DType, a Python type (as wide as Python's: float means float64) or a NumPy dtype."""
    if type(value) is DType:
        return value
    if isinstance(value, UnheldDType):
        value.refuse()
    if isinstance(value, type) and value in _PYTHON:
        return _PYTHON[value]
    if isinstance(value, (np.dtype, type)):
        return from_numpy(np.dtype(value))
    raise DTypeError(f"{value!r} is not a dtype")


_default = float32


class _Within(threading.local):
    """The default dtype of the block that a thread is in (within_default)."""

    dtype: DType | None = None


_within = _Within()
_open: list[DType] = []  # of all threads, the blocks that they are in


def get_default() -> DType:
    """The dtype of tensors made from Python floats."""
    return (_within.dtype or _default) if _open else _default


def set_default(dtype: DType) -> None:
    """Set the default dtype; it must be a floating point dtype."""
    global _default
    dtype = as_dtype(dtype)
    if not dtype.is_floating_point:
        raise DTypeError(f"set_default_dtype: only floating-point types are supported as the default type, got {dtype}")
    if dtype is _default:
        return
    for listener in _before:
        listener()
    _default = dtype
    _forget_plans()
    for listener in _listeners:
        listener()


@contextmanager
def within_default(dtype: DType) -> Iterator[None]:
    """Within the block this is the default dtype of this thread: what was recorded under it is computed as it was.
    Nothing may wait within."""
    if dtype is get_default():
        yield
        return
    before, _within.dtype = _within.dtype, dtype
    _open.append(dtype)
    _forget_plans()
    try:
        yield
    finally:
        _forget_plans()
        _open.remove(dtype)
        _within.dtype = before


def is_within_some() -> bool:
    """Whether any thread is in such a block: plans of the one are none of the others'."""
    return bool(_open)


def _forget_plans() -> None:
    for forget in _plans:
        forget()


_plans: list[Callable[[], None]] = []
_before: list[Callable[[], None]] = []
_listeners: list[Callable[[], None]] = []


def before_default_change(listener: Callable[[], None]) -> None:
    """Call `listener` before the default dtype becomes another one: what was called under it is to run under it."""
    _before.append(listener)


def on_default_change(listener: Callable[[], None]) -> None:
    """Call `listener` when the default dtype is another one."""
    _listeners.append(listener)


def forget_by(forget: Callable[[], None]) -> None:
    """Call `forget` when the default dtype is another one, if only within a block: what was found out about numbers may
    not hold any more."""
    _plans.append(forget)


def compute_dtype(dtype: DType) -> DType:
    """The dtype in which arithmetic on `dtype` is done: half precisions compute in float32."""
    return float32 if dtype is float16 or dtype is bfloat16 else dtype

# The numbers by which TorchScript's programs name dtypes.
BY_NUMBER = dict(enumerate((uint8, int8, int16, int32, int64, float16, float32, float64))) | {
    9: complex64, 10: complex128, 11: bool_, 15: bfloat16
}
NUMBERS = {dtype: number for number, dtype in BY_NUMBER.items()}

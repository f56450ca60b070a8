"""Tensor methods that are not operators of their own: conversions, layout, indexing syntax, properties."""

from __future__ import annotations

import math
import sys
from typing import Any

import numpy as np

from weft.layers import factories
from weft.layers.devices import moved
from weft.layers.memory_formats import in_format
from weft.ops.overrides import handle, overridable, override_classes, overriding
from weft.ops.packet import aten
from weft.support.errors import ArgumentError, DTypeError, StateError, ValueProblem
from weft.support.naming import shown
from weft.support.removed import FUNCTIONS as REMOVED
from weft.support.removed import METHODS as REMOVED_METHODS
from weft.support.warn import warn
from weft.tensor import indexing
from weft.tensor.creation import from_numpy
from weft.tensor.device import usable
from weft.tensor.legacy import TYPE_NAMES, construct, dtype_of_name
from weft.tensor.tensor import Tensor, tensor_around
from weft.types import dtype as dt
from weft.types.dtype import DType


def to(self: Tensor, *args: Any, dtype: Any = None, device: Any = None, non_blocking: bool = False, copy: bool = False,
       memory_format: Any = None) -> Tensor:
    """The tensor with another dtype or on another device. Returns self when nothing changes, unless copy=True.

    To "meta" the type goes and the value is left behind; from "meta" nothing comes back (Unsupported).
    """
    if override_classes:
        keywords = {
            "dtype": dtype, "device": device, "non_blocking": non_blocking, "copy": copy, "memory_format": memory_format
        }
        asked = overriding((self, *args), keywords)
        if asked is not None:
            return handle(to, asked, (self, *args), _given(keywords))
    flags = [a for a in args if isinstance(a, bool)]
    copy = copy or (len(flags) > 1 and flags[1])  # by position: non_blocking, then copy
    for a in args:
        if isinstance(a, Tensor):
            dtype = a.dtype
            device = a.device if device is None else device
        elif isinstance(a, DType) or a in (float, int, bool, complex):
            dtype = a
        elif isinstance(a, str):
            device = a
        elif isinstance(a, bool) or a is None:
            continue
        else:
            raise ArgumentError(f"to(): expected a dtype, device or Tensor, got {type(a).__name__}")
    if device is not None:
        self = moved(self, usable(device))
    wanted = self.dtype if dtype is None else dt.as_dtype(dtype)
    if wanted is not self.dtype:
        return in_format(aten._to_copy(self, wanted), memory_format)
    return in_format(aten.clone(self) if copy else self, memory_format)


def cpu(self: Tensor, memory_format: Any = None) -> Tensor:
    """The tensor on the CPU. Raises Unsupported for a meta tensor, which has no data."""
    return to(self, device="cpu")


def clone(self: Tensor, *, memory_format: Any = None) -> Tensor:
    """A copy with memory of its own, laid out as the tensor is,
    or row-major with memory_format=weft.contiguous_format."""
    if override_classes:
        asked = overriding((self,))
        if asked is not None:
            return handle(clone, asked, (self,), _given({"memory_format": memory_format}))
    if memory_format in (None, "preserve_format") or self.is_contiguous(memory_format):
        return aten.clone(self)
    return in_format(self, memory_format)


def to_device(self: Tensor, device: Any, /, *, stream: Any = None) -> Tensor:
    """The tensor on a device (the Array API's name for `to`). Raises ValueProblem for a stream: there are none."""
    if stream is not None:
        raise ValueProblem(f"to_device(): there are no streams on {self.device}; pass stream=None")
    return to(self, device=device)


def array_namespace(self: Tensor, *, api_version: str | None = None) -> Any:
    """The module with the functions for this tensor, in the sense of the Array API: weft.array_api.
    Raises ValueProblem for a version that is not known."""
    if api_version not in (None, "2021.12", "2022.12", "2023.12", "2024.12"):
        raise ValueProblem(f"__array_namespace__(): the version {api_version!r} of the Array API is not known")
    return sys.modules["weft"].array_api  # the front door loads it when it is asked for


def _caster(name: str, dtype: DType) -> Any:
    def method(self: Tensor, memory_format: Any = None) -> Tensor:
        if override_classes:
            asked = overriding((self,))
            if asked is not None:
                return handle(method, asked, (self,), _given({"memory_format": memory_format}))
        return to(self, dtype, memory_format=memory_format)

    method.__name__ = method.__qualname__ = name
    method.__doc__ = f"The tensor as {dtype}."
    return method


def contiguous(self: Tensor, memory_format: Any = None) -> Tensor:
    """Self if its elements lie row-major (or as the memory format says), else a copy that does."""
    if override_classes:
        asked = overriding((self,))
        if asked is not None:
            return handle(contiguous, asked, (self,), _given({"memory_format": memory_format}))
    return in_format(self, memory_format or "contiguous_format")


@overridable
def type_(self: Tensor, dtype: Any = None) -> Any:
    """The type name, or the tensor converted to a dtype."""
    if dtype is None:
        return f"{shown.name}.{_TYPE_NAMES[self.dtype]}Tensor"
    if isinstance(dtype, str):
        named = dt.get_default() if dtype.rpartition(".")[2] == "Tensor" else dtype_of_name(dtype)
        if named is None:
            raise ValueProblem(f"invalid type: '{dtype}'")
        return to(self, named)
    if isinstance(dtype, type) and issubclass(dtype, Tensor):
        if dtype is not Tensor:
            raise ValueProblem(f"invalid type: '{dtype.__name__}'")
        return to(self, dt.get_default())  # Tensor is the type of the default dtype
    return to(self, getattr(dtype, "dtype", dtype))


_TYPE_NAMES = {dtype: name for name, dtype in TYPE_NAMES.items()}


def new(self: Tensor, *args: Any, size: Any = None, device: Any = None) -> Tensor:
    """A tensor of this dtype and device, as the older constructors make it: uninitialised of the sizes, or a copy of
    the data."""
    tensor = construct(self.dtype, args if size is None else tuple(size))
    return moved(tensor, self.device if device is None else usable(device))


def _real(self: Tensor) -> Tensor:
    """The real part, as a view; of a real tensor the tensor itself."""
    return aten.real(self) if self.dtype.is_complex else self


def _set_real(self: Tensor, value: Any) -> None:
    self.real.copy_(value if isinstance(value, Tensor) else aten.full((), value))


def _imag(self: Tensor) -> Tensor:
    """The imaginary part, as a view. Raises DTypeError for a real tensor."""
    if not self.dtype.is_complex:
        raise DTypeError("imag is not implemented for tensors with non-complex dtypes.")
    return aten.imag(self)


def _set_imag(self: Tensor, value: Any) -> None:
    self.imag.copy_(value if isinstance(value, Tensor) else aten.full((), value))


def _mapped(self: Tensor, others: tuple[Tensor, ...], callable: Any, name: str) -> Tensor:
    """Each element replaced by what the callable gives for it and those of others at its place."""
    arrays = np.broadcast_arrays(*(t.detach()._array(name) for t in (self, *others)))
    rows = zip(*(a.reshape(-1).tolist() for a in arrays), strict=True)
    values = np.array([callable(*row) for row in rows], dtype=arrays[0].dtype)
    self.copy_(tensor_around(values.reshape(arrays[0].shape)))
    return self


def apply_(self: Tensor, callable: Any) -> Tensor:
    """Replace each element by `callable(element)`, one call of Python after another. Returns self."""
    return _mapped(self, (), callable, "apply_")


def map_(self: Tensor, tensor: Tensor, callable: Any) -> Tensor:
    """Replace each element by `callable(element, the other's element)`. Returns self."""
    return _mapped(self, (tensor,), callable, "map_")


def map2_(self: Tensor, x: Tensor, y: Tensor, callable: Any) -> Tensor:
    """Replace each element by `callable(element, x's element, y's element)`. Returns self."""
    return _mapped(self, (x, y), callable, "map2_")


def const_data_ptr(self: Tensor) -> int:
    """The address of the first element, which nobody means to write."""
    return self.data_ptr()


def record_stream(self: Tensor, stream: Any) -> None:
    """Nothing: there are no streams, and memory is kept while a tensor shows it."""


def module_load(self: Tensor, other: Tensor, assign: bool = False) -> Tensor:
    """What load_state_dict puts in place of self: `other`, or self with other's values."""
    loaded: Tensor = other.detach() if assign else self.copy_(other).detach()
    return loaded


def resize(self: Tensor, *sizes: Any) -> Tensor:
    """The elements with other sizes, of as many elements. PyTorch has `view` in its place. Raises StateError."""
    warn("non-inplace resize is deprecated")
    dims = tuple(sizes[0]) if len(sizes) == 1 and not isinstance(sizes[0], int) else sizes
    count = math.prod(dims)
    if count != self.numel():
        raise StateError(
            f"requested resize to {'x'.join(map(str, dims))} ({count} elements in total), but the given tensor has a "
            f"size of {'x'.join(map(str, self.shape))} ({self.numel()} elements). autograd's resize can only change "
            "the shape of a given tensor, while preserving the number of elements. "
        )
    return self.contiguous().view(dims)


def resize_as(self: Tensor, tensor: Tensor) -> Tensor:
    """`resize` to the sizes of another tensor."""
    return resize(self, tuple(tensor.shape))


def getitem(self: Tensor, index: Any) -> Tensor:
    """Indexing: basic indexing gives views, tensors and lists gather copies."""
    if override_classes:
        asked = overriding((self, index))
        if asked is not None:
            return handle(Tensor.__getitem__, asked, (self, index))
    return indexing.getitem(self, index)


def setitem(self: Tensor, index: Any, value: Any) -> None:
    """Indexed assignment: broadcasts and casts `value` into the selected elements."""
    if override_classes:
        asked = overriding((self, index, value))
        if asked is not None:
            handle(Tensor.__setitem__, asked, (self, index, value))
            return
    if index is False:
        return
    view, indices = indexing.setitem_plan(self, None if index is True else index)
    if not isinstance(value, Tensor):
        value = _as_value(self, value)
    if indices is None:
        view.copy_(_dropped(value, view))
    else:
        value = _without_leading_ones(value, indexing.room(view, indices))
        if value.ndim == 0 and value.dtype is not view.dtype and all(i is None or i.dtype is dt.bool_ for i in indices):
            value = value.to(view.dtype)  # one number under a mask is cast, as by masked_fill
        view.index_put_(indices, value)


def delitem(self: Tensor, index: Any) -> None:
    """Raises ArgumentError (a TypeError): elements can be written, not taken away."""
    raise ArgumentError("Tensor does not support deleting items")


def _given(kwargs: dict[str, Any]) -> dict[str, Any]:
    """Keyword arguments that differ from their defaults."""
    return {name: value for name, value in kwargs.items() if value is not None and value is not False}


def _as_value(self: Tensor, value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return tensor_around(value.astype(self.dtype.numpy))
    return aten.full((), value, dtype=self.dtype)


def _without_leading_ones(value: Tensor, room: int) -> Tensor:
    """Values for indexed places with so many dims: leading dims of size 1 that they lack may be left out."""
    ones = 0
    while ones < value.ndim - room and type(value.dims[ones]) is int and value.dims[ones] == 1:
        ones += 1
    return aten.reshape(value, value.dims[ones:]) if ones else value


def _dropped(value: Tensor, view: Tensor) -> Tensor:
    """Leading dims of size 1 that the destination lacks may be left out, as in assignment."""
    while value.ndim > view.ndim and value.shape[0] == 1:
        value = value[0]
    return value


@overridable
def new_tensor(
    self: Tensor, data: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    """A tensor from data with this tensor's dtype."""
    from weft.tensor.creation import tensor  # creation knows Tensor only

    return tensor(data, dtype=dtype or self.dtype, device=device or self.device, requires_grad=requires_grad)


def _transposed(self: Tensor) -> Tensor:
    """All dims reversed (`x.T`)."""
    return aten.permute(self, tuple(range(self.ndim - 1, -1, -1)))


def _matrix_transposed(self: Tensor) -> Tensor:
    """The last two dims swapped (`x.mT`)."""
    return aten.mT(self)


def _conj_transposed(self: Tensor) -> Tensor:
    """The conjugate transpose of a matrix (`x.H`)."""
    return aten.matrix_H(self)


def _matrix_conj_transposed(self: Tensor) -> Tensor:
    """The conjugate transpose of each matrix (`x.mH`)."""
    return aten.mH(self)


@overridable
def type_as(self: Tensor, other: Tensor) -> Tensor:
    """The tensor as other's dtype."""
    return to(self, other.dtype)


@overridable
def where(self: Tensor, condition: Tensor, other: Any) -> Tensor:
    """Self where the condition holds, else other."""
    return aten.where(condition, self, other)


@overridable
def reshape_as(self: Tensor, other: Tensor) -> Tensor:
    """The tensor with other's sizes."""
    return aten.reshape(self, other.dims)


def dlpack(
    self: Tensor, *, stream: Any = None, max_version: tuple[int, int] | None = None, dl_device: Any = None,
    copy: bool | None = None,
) -> Any:
    """A DLPack capsule of the tensor's memory (of a copy with copy=True).
    Raises BufferError for what cannot be shared."""
    if self.requires_grad:
        raise BufferError("Can't export tensors that require gradient, use tensor.detach()")
    if stream is not None:
        raise BufferError("__dlpack__: a tensor on the cpu has no stream; pass stream=None")
    if dl_device is not None and tuple(dl_device) != _CPU:
        raise BufferError(f"__dlpack__: the tensor is on the cpu {_CPU}, not on {tuple(dl_device)}")
    array = self.numpy()
    if copy:
        array = array.copy(order="K")
    if self.dtype is dt.bfloat16:
        raise BufferError("__dlpack__: NumPy has no bfloat16 to share; x.view(weft.int16) shares its bits")
    return array.__dlpack__() if max_version is None else array.__dlpack__(max_version=max_version)


_CPU = (1, 0)  # DLPack's device type and index


def dlpack_device(self: Tensor) -> tuple[int, int]:
    """DLPack's device type and index: the cpu is (1, 0)."""
    if self.device.type != "cpu":
        raise BufferError(f"__dlpack_device__: a tensor on {self.device} has no memory to share")
    return _CPU


def polygamma(self: Tensor, n: int) -> Tensor:
    """The n-th derivative of digamma (the operator takes n first)."""
    result: Tensor = aten.polygamma(n, self)
    return result


def polygamma_(self: Tensor, n: int) -> Tensor:
    """The n-th derivative of digamma, in place."""
    result: Tensor = self.copy_(polygamma(aten.clone(self), n))
    return result


# Those that ask classes and modes themselves, for all of their arguments (see tensor/subclass.py).
_ASKING = frozenset(
    ("to", "contiguous", "type", "__getitem__", "__setitem__", "new_tensor", "clone", "type_as", "reshape_as", "where")
)


def install() -> None:
    """Put the methods on Tensor."""
    for name, dtype in (
        ("float", dt.float32), ("double", dt.float64), ("half", dt.float16), ("bfloat16", dt.bfloat16),
        ("int", dt.int32), ("long", dt.int64), ("short", dt.int16), ("char", dt.int8), ("byte", dt.uint8),
        ("bool", dt.bool_), ("cfloat", dt.complex64), ("cdouble", dt.complex128),
    ):
        setattr(Tensor, name, _caster(name, dtype))
    for name, method in (
        ("to", to), ("contiguous", contiguous), ("type", type_), ("__getitem__", getitem), ("__setitem__", setitem),
        ("__delitem__", delitem), ("new_tensor", new_tensor),
        ("new", new), ("apply_", apply_), ("map_", map_), ("map2_", map2_), ("const_data_ptr", const_data_ptr),
        ("record_stream", record_stream), ("module_load", module_load), ("resize", resize), ("resize_as", resize_as),
        *((name, REMOVED[name]) for name in REMOVED_METHODS), ("cpu", cpu), ("clone", clone),
        ("type_as", type_as), ("reshape_as", reshape_as), ("where", where), ("polygamma", polygamma),
        ("polygamma_", polygamma_),
    ):
        method.__name__ = name
        method.__dict__["asks"] = name in _ASKING
        setattr(Tensor, name, method)
    for name, transposed in (("T", _transposed), ("mT", _matrix_transposed), ("mH", _matrix_conj_transposed), (
        "H", _conj_transposed
    )):
        setattr(Tensor, name, property(transposed))
    setattr(Tensor, "_over_array", staticmethod(from_numpy))  # noqa: B010
    setattr(Tensor, "real", property(_real, _set_real))  # noqa: B010
    setattr(Tensor, "imag", property(_imag, _set_imag))  # noqa: B010
    setattr(Tensor, "__dlpack__", dlpack)  # noqa: B010
    setattr(Tensor, "__array_namespace__", array_namespace)  # noqa: B010
    setattr(Tensor, "to_device", to_device)  # noqa: B010
    setattr(Tensor, "__dlpack_device__", dlpack_device)  # noqa: B010
    factories.install()

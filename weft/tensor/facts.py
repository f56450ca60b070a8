"""What a tensor says of its value without reading it: type, sizes, strides, layout, memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from weft.ops.geometry import Geometry, is_contiguous
from weft.ops.methods import OperatorMethods
from weft.runtime.storage import Storage, UntypedStorage
from weft.support.errors import IndexBoundsError
from weft.tensor.device import Device
from weft.types import dtype as dt
from weft.types.dims import Dim
from weft.types.dtype import BY_NUMPY, DType
from weft.types.sym import wrap as wrap_dim
from weft.types.tensor_type import TensorType, tensor_type

if TYPE_CHECKING:
    from weft.tensor.operators import Operators  # a stub written from the entries (scripts/make_stubs.py)
    from weft.tensor.size import Size
else:
    Operators = OperatorMethods

ndarray = np.ndarray


def _within(dim: int, ndim: int) -> int:
    """A dim that exists. Raises IndexBoundsError."""
    bound = max(ndim, 1)
    if not -bound <= dim < bound or not ndim:
        if not ndim:
            raise IndexBoundsError(f"Dimension specified as {dim} but tensor has no dimensions")
        raise IndexBoundsError(f"Dimension out of range (expected to be in range of [{-bound}, {bound - 1}], but got {dim})")
    return dim


class Facts(Operators):
    """The part of Tensor that answers from the payload's type and geometry."""

    __slots__ = ()
    _data: Any
    _storage: Any

    @property
    def type_(self) -> TensorType:
        """The TensorType of the value."""
        data = self._data
        if type(data) is ndarray:
            return tensor_type(dt.from_numpy(data.dtype), data.shape)
        found: TensorType = data.type
        return found

    @property
    def dims(self) -> tuple[Dim, ...]:
        """Sizes as dims: integers or symbolic expressions."""
        data = self._data
        found: tuple[Dim, ...] = data.shape if type(data) is ndarray else data.type.shape
        return found

    @property
    def shape(self) -> Size:
        """Sizes, as a weft.Size; symbolic while a function is captured."""
        from weft.tensor.size import Size  # Size and Tensor know each other

        data = self._data
        if type(data) is ndarray:
            return tuple.__new__(Size, data.shape)  # what Size.__new__ checks is known
        env = data.env
        return Size(wrap_dim(d, env) for d in data.type.shape)

    def size(self, dim: int | None = None) -> Any:
        """All sizes, or the size of one dim."""
        return self.shape if dim is None else self.shape[_within(dim, self.ndim)]

    @property
    def ndim(self) -> int:
        """The number of dims."""
        data = self._data
        return data.ndim if type(data) is ndarray else data.type.ndim

    def dim(self) -> int:
        """The number of dims."""
        return self.ndim

    ndimension = dim

    @property
    def dtype(self) -> DType:
        """The element type, one of the dtypes of weft."""
        data = self._data
        if type(data) is ndarray:
            return BY_NUMPY.get(data.dtype) or dt.from_numpy(data.dtype)
        found: DType | None = data.type.dtype
        assert found is not None
        return found

    @property
    def device(self) -> Device:
        """Where the value is: weft.device("cpu") or weft.device("meta")."""
        data = self._data
        return Device("cpu") if type(data) is ndarray else Device(data.type.device)

    @property
    def layout(self) -> str:
        """Always "weft.strided"."""
        return "weft.strided"

    def numel(self) -> Any:
        """The number of elements."""
        n: Any = 1
        for d in self.shape:
            n = n * d
        return n

    nelement = numel

    @property
    def itemsize(self) -> int:
        """Bytes per element."""
        return self.dtype.itemsize

    def element_size(self) -> int:
        """Bytes per element."""
        return self.dtype.itemsize

    @property
    def nbytes(self) -> Any:
        """Bytes of all elements."""
        return self.numel() * self.dtype.itemsize

    def geometry(self) -> Geometry:
        """Dims, strides and storage offset, in elements."""
        data = self._data
        if type(data) is ndarray:
            size = data.dtype.itemsize
            return Geometry(data.shape, tuple(s // size for s in data.strides), self._storage.offset_of(data) if self._storage else 0)
        found: Geometry = data.geometry()
        return found

    def stride(self, dim: int | None = None) -> Any:
        """Element strides, or the stride of one dim."""
        data = self._data
        env = None if type(data) is ndarray else data.env
        strides = tuple(wrap_dim(s, env) if env is not None else s for s in self.geometry().strides)
        return strides if dim is None else strides[_within(dim, len(strides))]

    def storage_offset(self) -> Any:
        """Element offset of the first element within the storage."""
        if type(self._data) is ndarray:
            return self.storage().offset_of(self._data)
        return self._data.offset()

    def is_contiguous(self, memory_format: Any = None) -> bool:
        """Whether elements lie row-major without gaps; with "channels_last", whether those of images do with the channels innermost."""
        data = self._data
        if memory_format == "channels_last":
            g = self.geometry()
            last = (0, 2, 3, 1)
            return g.ndim == 4 and is_contiguous(Geometry(tuple(g.dims[i] for i in last), tuple(g.strides[i] for i in last)))
        if type(data) is ndarray:
            return bool(data.flags.c_contiguous)
        return is_contiguous(data.geometry())

    def is_floating_point(self) -> bool:
        """Whether the dtype is a floating point one."""
        return self.dtype.is_floating_point

    def is_complex(self) -> bool:
        """Whether the dtype is complex."""
        return self.dtype.is_complex

    def is_signed(self) -> bool:
        """Whether the dtype has negative values."""
        return self.dtype.is_signed

    # ---- memory
    def storage(self) -> Any:
        """The Storage (made when first asked for)."""
        found = self._storage
        if found is None:
            data = self._data
            found = self._storage = Storage(data) if type(data) is ndarray else data.new_storage()
        return found

    def untyped_storage(self) -> UntypedStorage:
        """The memory as bytes."""
        return UntypedStorage(self.storage())

    def data_ptr(self) -> int:
        """Address of the first element; 0 where there is none."""
        if type(self._data) is np.ndarray and not self._data.size:
            return 0
        inner = getattr(self._data, "value", None)  # of a tensor inside of a transform
        if inner is not None:
            self._data.materialize("data_ptr()")
            return int(inner.data_ptr())
        if type(self._data) is not np.ndarray:
            self._data.materialize("data_ptr()")
        storage = self.storage()
        return int(storage.address + storage.offset_of(self._data) * self.dtype.itemsize)

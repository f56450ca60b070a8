"""What a tensor says of its value without reading it: type, sizes, strides, layout, memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from weft.ops.geometry import Geometry, is_contiguous
from weft.ops.methods import OperatorMethods
from weft.runtime.moving import Move
from weft.runtime.storage import UntypedStorage
from weft.support.errors import IndexBoundsError
from weft.tensor.dense import follow, lend, payload_of
from weft.tensor.device import Device, device_named
from weft.tensor.modes import modes
from weft.tensor.size import Size
from weft.types import dtype as dt
from weft.types.dims import Dim
from weft.types.dtype import BY_NUMPY, DType
from weft.types.formats import DIM_ORDERS, layout, strided
from weft.types.sym import wrap as wrap_dim
from weft.types.tensor_type import TensorType

if TYPE_CHECKING:
    from weft.tensor.operators import Operators  # a stub written from the entries (scripts/make_stubs.py)
    from weft.tensor.size import Size
else:
    Operators = OperatorMethods

def _within(dim: int, ndim: int) -> int:
    """A dim that exists. Raises IndexBoundsError."""
    bound = max(ndim, 1)
    if not -bound <= dim < bound or not ndim:
        if not ndim:
            raise IndexBoundsError(f"Dimension specified as {dim} but tensor has no dimensions")
        raise IndexBoundsError(
            f"Dimension out of range (expected to be in range of [{-bound}, {bound - 1}], but got {dim})"
        )
    return dim


class Facts(Operators):
    """The part of Tensor that answers from the payload's type and geometry."""

    __slots__ = ()
    _data: Any
    _storage: Any
    _view: Any

    @property
    def type_(self) -> TensorType:
        """The TensorType of the value."""
        return payload_of(self).type

    @property
    def dims(self) -> tuple[Dim, ...]:
        """Sizes as dims: integers or symbolic expressions."""
        dims: tuple[Dim, ...] = self._data.shape
        return dims

    @property
    def shape(self) -> Size:
        """Sizes, as a weft.Size; symbolic while a function is captured."""
        return tuple.__new__(Size, payload_of(self).sizes())  # what Size.__new__ checks is known

    def size(self, dim: int | None = None) -> Any:
        """All sizes, or the size of one dim."""
        return self.shape if dim is None else self.shape[_within(dim, self.ndim)]

    @property
    def ndim(self) -> int:
        """The number of dims."""
        return self._data.ndim  # type: ignore[no-any-return]

    def dim(self) -> int:
        """The number of dims."""
        return self.ndim

    ndimension = dim

    @property
    def dtype(self) -> DType:
        """The element type, one of the dtypes of weft."""
        dtype = self._data.dtype
        return BY_NUMPY.get(dtype) or dt.from_numpy(dtype)

    @property
    def device(self) -> Device:
        """Where the value is: weft.device("cpu"), weft.device("meta"), ..."""
        return device_named(payload_of(self).type.device)

    @property
    def layout(self) -> layout:
        """Always `weft.strided`."""
        return strided

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
        return payload_of(self).geometry()

    def stride(self, dim: int | None = None) -> Any:
        """Element strides, or the stride of one dim."""
        payload = payload_of(self)
        env = payload.env
        strides: tuple[Any, ...] = payload.geometry().strides
        if env is not None:
            strides = tuple([wrap_dim(s, env) for s in strides])
        return strides if dim is None else strides[_within(dim, len(strides))]

    def storage_offset(self) -> Any:
        """Element offset of the first element within the storage."""
        payload = payload_of(self)
        env = payload.env
        return payload.offset() if env is None else wrap_dim(payload.offset(), env)

    def is_contiguous(self, memory_format: Any = None) -> bool:
        """Whether elements lie row-major without gaps; with "channels_last" (of images) or "channels_last_3d" (of
        volumes), whether they do with the channels innermost."""
        order = DIM_ORDERS.get(memory_format)
        if order is not None:
            g = self.geometry()
            return g.ndim == len(order) and is_contiguous(Geometry(
                tuple(g.dims[i] for i in order), tuple(g.strides[i] for i in order)
            ))
        return payload_of(self).is_contiguous()

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
        storage = self._storage
        if storage is None:
            storage = self._storage = payload_of(self).new_storage()
        return storage

    def untyped_storage(self) -> UntypedStorage:
        """The memory as bytes."""
        lend(self, "untyped_storage()")  # type: ignore[arg-type]
        return UntypedStorage(self.storage())

    def _may_follow(self) -> None:
        """The bytes are about to move. Raises CaptureError within a captured function, which is yet to run."""
        if modes.capture is not None:
            modes.capture.outside.refuse_reshaping(self, "resize_")  # type: ignore[arg-type]

    def _follow(self, move: Move) -> None:
        """The bytes have moved."""
        self._data = follow(self._data, self._storage, move)
        view = self._view
        if view is not None:
            view.array = follow(view.array, self._storage, move)

    def data_ptr(self) -> int:
        """Address of the first element; 0 where there is none."""
        return payload_of(self).data_ptr(self)  # type: ignore[arg-type]

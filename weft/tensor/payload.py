"""Payload: what a tensor holds when it is not an ndarray. (An ndarray is asked the same through tensor/dense.py.)"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from weft.ops.geometry import Geometry, is_contiguous
from weft.support.errors import StateError
from weft.types.dims import Dim
from weft.types.dtype import DType
from weft.types.sym import wrap
from weft.types.tensor_type import TensorType

if TYPE_CHECKING:
    from weft.tensor.backend import Backend
    from weft.tensor.tensor import Tensor


class Payload:
    """The value of a tensor that is not dense derives from this.

    `type` is its TensorType, `geometry()` its dims and strides, `backend` what runs operators on it (tensor/backend.py:
    `register`). What an ndarray answers at once has the same name here: shape, ndim, dtype, base.
    """

    __slots__ = ()
    type: TensorType
    backend: ClassVar[Backend]
    env: Any = None  # what symbolic sizes belong to
    # whether there are bytes that can be read now; a write is seen through them by whoever shares them
    has_bytes: Any = False
    # whether storage and version are those of a tensor below, so that marks on it say nothing of this one
    shares_version = False
    is_row_major = False  # whether dims certainly lie so; others are asked for their geometry
    is_walked = False  # whether its back end takes calls with their history (Backend.walked)
    differs = False  # whether there is a value, and it is not one (an example's inside vmap)
    base: Any = NotImplemented  # None where the memory is known to be its own, and whole

    @property
    def shape(self) -> tuple[Dim, ...]:
        """Sizes as dims: integers or symbolic expressions."""
        return self.type.shape

    @property
    def ndim(self) -> int:
        """The number of dims."""
        return self.type.ndim

    @property
    def dtype(self) -> DType:
        """The element type."""
        dtype = self.type.dtype
        assert dtype is not None
        return dtype

    @property
    def companions(self) -> str:
        """The device of constants that are made to go with the value, such as an index."""
        return self.type.device

    def sizes(self) -> tuple[Any, ...]:
        """Sizes as users see them: integers, or SymInts."""
        env = self.env
        return self.shape if env is None else tuple([wrap(d, env) for d in self.shape])

    def geometry(self) -> Geometry:
        """Dims, strides and storage offset, in elements."""
        raise StateError(f"{self.__class__.__name__} has no strides")

    def offset(self) -> Any:
        """The place of the first element in the storage."""
        return self.geometry().offset

    def is_contiguous(self) -> bool:
        """Whether elements lie row-major without gaps."""
        return is_contiguous(self.geometry())

    def item(self) -> Any:
        """The only element as a Python number."""
        array = self.materialize("item()")
        if array.size != 1:
            raise StateError(f"a Tensor with {array.size} elements cannot be converted to Scalar")
        return array.item() if array.dtype.kind != "V" else float(array.reshape(()))

    def materialize(self, what: str) -> Any:
        """The bytes that `what` asks for as an ndarray, or an error that says why there are none."""
        raise StateError(f"{what}: {self.__class__.__name__} has no bytes")

    def whole(self, what: str) -> Any:
        """All bytes of the storage that it is a view of, in one row: an ndarray of the storage's dtype."""
        return self.materialize(what).reshape(-1)

    def has_nan(self) -> bool:
        """Whether there are bytes, with a NaN among them."""
        return bool(self.has_bytes and np.isnan(self.materialize("anomaly mode")).any())

    def fetched(self) -> Any:
        """A copy of the bytes, for a tensor on the CPU."""
        return self.materialize("to('cpu')").copy()

    def data_ptr(self, owner: Tensor) -> int:
        """The address of the first element."""
        self.materialize("data_ptr()")
        storage = owner.storage()
        return int(storage.address + storage.offset_of(self) * self.dtype.itemsize)

    def shares_memory(self, other: Any) -> bool:
        """Whether writes to the value of another tensor, of which this is the payload, may be seen here."""
        return other is self

    def overlaps(self, other: Any) -> bool:
        """Whether this and the value of another tensor, of which that is the payload, are blocks of one memory that
        meet (`blocks_meet`)."""
        return other is self

    def new_storage(self) -> Any:
        """What the aliases of a tensor with this payload share."""
        return self.materialize("storage()")

    def copied(self) -> Any:
        """The payload of an independent copy."""
        return self.materialize("deepcopy")

    def copied_like(self, tensor: Tensor) -> Tensor | None:
        """A tensor with an independent copy, laid out as another tensor is; None where that takes an operator."""
        return None

    def copy_to(self, out: Tensor, memo: dict[int, Any]) -> None:
        """Give an empty tensor a copy of the value. memo: of a deepcopy, in which tensors that share a storage share
        its copy."""
        out._data = self.copied()
        out._storage = out._autograd = out._view = None
        out._data.adopt(out)

    def rewrapped(self, out: Tensor) -> Tensor:
        """A tensor that machinery made around this payload, as users know it."""
        return out

    def adopt(self, owner: Tensor) -> None:
        """Learn which tensor holds the payload."""

    def moved_to(self, owner: Tensor) -> Any:
        """The payload for a tensor that shows from now on what another one shows (`x.data = y`, transpose_)."""
        return self

    def reduced(self, owner: Tensor) -> Any:
        """What pickle keeps of the tensor; None where its values, dtype and device say it all."""
        return None

    def detached(self) -> Any:
        """The payload of an alias without history."""
        return self

    def kept(self, owner: Tensor) -> Any:
        """The payload that is saved of a view, without what it is a view of."""
        return self

    def laid_out_like(self, tensor: Tensor, source: Tensor) -> Tensor:
        """A new tensor with this payload, its dims in the order in memory that another tensor's have."""
        return tensor

    def note_inference(self, owner: Tensor) -> None:
        """The owner was made in inference mode."""

    def refuse_gradients(self) -> None:
        """Raises StateError where a leaf with this payload can have no gradient."""

    def text(self) -> str:
        """The repr of a tensor with this payload; "" where its values, type and device say it all."""
        return ""

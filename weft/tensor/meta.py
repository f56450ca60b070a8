"""Meta tensors: a type and strides, no bytes. They answer what an operator would give, at no cost of memory or time."""

from __future__ import annotations

from typing import Any, NoReturn

from weft.ops.geometry import Geometry, contiguous, reach
from weft.ops.layout import like_strides
from weft.runtime.storage import ElementRow
from weft.support.errors import Unsupported
from weft.tensor.payload import Payload
from weft.tensor.tensor import Tensor, tensor_around
from weft.types.dims import Dim
from weft.types.tensor_type import TensorType, tensor_type

DEVICE = "meta"


class MetaStorage(ElementRow):
    """What the aliases of a meta tensor share: a version counter, whether inference mode made it, and how many bytes
    there would be, of elements of so many."""

    __slots__ = ("__weakref__", "_itemsize", "_source", "is_inference", "nbytes", "version")
    address = 0

    def __init__(self, nbytes: Dim, itemsize: int, source: MetaStorage | None = None) -> None:
        self.version = 0
        self.is_inference = False
        self.nbytes, self._itemsize, self._source = nbytes, itemsize, source

    @property
    def memory(self) -> object:
        """What all storages of the same memory would have in common."""
        return self if self._source is None else self._source

    def offset_of(self, view: MetaPayload) -> int:
        """The number that added to no address is no address."""
        return 0

    def silent_alias(self) -> MetaStorage:
        """The same absence of bytes under a version counter of its own (Tensor.data)."""
        return MetaStorage(self.nbytes, self._itemsize, self if self._source is None else self._source)

    # ---- what Python asks
    def data_ptr(self) -> int:
        """No address."""
        return 0

    def element_size(self) -> int:
        """Bytes per element."""
        return self._itemsize

    def resize(self, nbytes: Dim) -> None:
        """Say that there would be so many bytes."""
        self.nbytes = nbytes

    def elements(self, what: str) -> NoReturn:
        """Refused: there are no bytes."""
        raise no_data(what, "of its size")

    def edited(self, what: str) -> NoReturn:
        """Refused: there are no bytes."""
        raise no_data(what, "of its size")


class MetaPayload(Payload):
    """A value of which only the type and the geometry are known. Sizes are integers."""

    __slots__ = ("_geometry", "type")
    env = None  # no symbols

    def __init__(self, type: TensorType, geometry: Geometry | None = None) -> None:
        self.type = type
        self._geometry = contiguous(type.shape) if geometry is None else geometry

    def geometry(self) -> Geometry:
        """Dims, strides and offset as an ordinary tensor of this type would have them."""
        return self._geometry

    def item(self) -> NoReturn:
        """Refused: there is no value."""
        self._refuse("Tensor.item(), int(), float(), bool() and `if tensor`")

    def materialize(self, what: str) -> NoReturn:
        """Refused: there are no bytes."""
        self._refuse(what)

    def fetched(self) -> NoReturn:
        """Refused: the value was left behind."""
        raise Unsupported(
            "Cannot copy out of meta tensor; no data! Make a tensor of its type with weft.empty_like(x, device='cpu')"
        )

    def note_inference(self, owner: Tensor) -> None:
        """The owner was made in inference mode."""
        owner.storage().is_inference = True

    def new_storage(self) -> MetaStorage:
        """A version counter for a family of aliases."""
        size = self.dtype.itemsize
        return MetaStorage(0 if 0 in self.shape else reach(self._geometry) * size, size)

    def copied(self) -> MetaPayload:
        """Itself: there is nothing to copy."""
        return self

    def laid_out_like(self, tensor: Tensor, source: Tensor) -> Tensor:
        """With strides in the order of the source's."""
        return meta_tensor(tensor.type_, Geometry(tensor.dims, like_strides(source.geometry())))

    def _refuse(self, what: str) -> NoReturn:
        raise no_data(what, f"({self.type})")


def no_data(what: str, which: str) -> Unsupported:
    """The error for what asks a meta tensor for its bytes."""
    return Unsupported(
        f"{what}: a tensor on device meta {which} has a type but no data; make it on the cpu, "
        "for example with weft.empty_like(x, device='cpu')"
    )


def meta_type(type: TensorType) -> TensorType:
    """The same type on device meta."""
    return type if type.device == DEVICE else tensor_type(type.dtype, type.dims, DEVICE)


def is_meta(value: Any) -> bool:
    """Whether a value is a meta tensor."""
    return isinstance(value, Tensor) and isinstance(value._data, MetaPayload)


def meta_tensor(type: TensorType, geometry: Geometry | None = None) -> Tensor:
    """A meta tensor of a complete type, contiguous unless a geometry is given."""
    return tensor_around(MetaPayload(meta_type(type), geometry))


def like(tensor: Tensor) -> Tensor:
    """The meta tensor with another's type and strides."""
    g = tensor.geometry()
    return meta_tensor(tensor.type_, Geometry(g.dims, g.strides, 0))

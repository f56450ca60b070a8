"""Questions that programs ask of any tensor and that have one answer here: weft's tensors are dense, strided,
on the CPU, and show their own values."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from weft.support import seams
from weft.support.absent import ABSENT_METHODS, Absent
from weft.support.errors import StateError

if TYPE_CHECKING:
    from weft.tensor.tensor import Tensor


class Questions:
    """The part of Tensor that answers about devices, layouts and lazily applied conjugation."""

    __slots__ = ()
    is_cuda = is_xpu = is_mps = is_sparse = is_sparse_csr = is_quantized = is_mkldnn = is_nested = False

    @property
    def is_cpu(self: Any) -> bool:
        """Whether the tensor is on the CPU."""
        return bool(self.device.type == "cpu")

    @property
    def is_meta(self: Any) -> bool:
        """Whether the tensor has a type and no bytes."""
        return bool(self.device.type == "meta")

    def get_device(self) -> int:
        """The number of the device: -1, the CPU."""
        return -1

    def is_pinned(self, device: Any = None) -> bool:
        """Whether the memory is page-locked: never."""
        return False

    def pin_memory(self, device: Any = None) -> Tensor:
        """Refused: there is no accelerator to pin memory for."""
        raise StateError("pin_memory: Cannot access accelerator device when none is available.")

    def is_shared(self) -> bool:
        """Whether the memory is shared between processes: never (threads share all memory)."""
        return False

    def share_memory_(self: Any) -> Tensor:
        """Self: threads share all memory."""
        shared: Tensor = self
        return shared

    def is_conj(self) -> bool:
        """Whether a conjugation is still to be applied: never, conj() computes."""
        return False

    def is_neg(self) -> bool:
        """Whether a negation is still to be applied: never."""
        return False

    def resolve_conj(self: Any) -> Tensor:
        """Self."""
        same: Tensor = self
        return same

    resolve_neg = resolve_conj

    def is_same_size(self: Any, other: Tensor) -> bool:
        """Whether the sizes are equal."""
        return bool(self.shape == other.shape)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__()} - {*ABSENT_METHODS})

    def dim_order(self: Any, *, ambiguity_check: Any = False) -> tuple[int, ...]:
        """The dims from the outermost in memory to the innermost."""
        strides = self.stride()
        return tuple(sorted(range(self.ndim), key=lambda i: (-strides[i], i)))


for _name in ABSENT_METHODS:
    setattr(Questions, _name, Absent(_name))

# methods that have to do with layouts: weft.sparse has them, and is imported when the first is called
SPARSE_METHODS = (
    "_coalesced_", "_dimI", "_dimV", "_indices", "_nnz", "_to_sparse_like", "_values", "ccol_indices", "coalesce",
    "col_indices", "crow_indices", "dense_dim", "indices", "is_coalesced", "resize_as_sparse_", "row_indices", "smm",
    "sparse_dim", "sparse_mask", "sparse_resize_", "sparse_resize_and_clear_", "sspaddmm", "to_dense", "to_sparse",
    "to_sparse_bsc", "to_sparse_bsr", "to_sparse_coo", "to_sparse_csc", "to_sparse_csr", "values",
)


def _sparse_method(name: str) -> Callable[..., Any]:
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        return seams.sparse_method(name, self, *args, **kwargs)

    method.__name__ = method.__qualname__ = name
    method.__doc__ = f"`{name}` of weft.sparse (weft/sparse/methods.py)."
    return method


for _name in SPARSE_METHODS:
    setattr(Questions, _name, _sparse_method(_name))

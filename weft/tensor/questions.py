"""Questions that programs ask of any tensor and that have one answer here: weft's tensors are on the
CPU, strided but for those of weft.sparse, and show their own values."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from weft.support import seams
from weft.support.absent import ABSENT_METHODS, Absent
from weft.support.errors import StateError

if TYPE_CHECKING:
    from weft.tensor.tensor import Tensor


def _sparse_method(name: str) -> Callable[..., Any]:
    """A method that weft.sparse has, which is imported when the first is called."""

    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        return seams.sparse_method(name, self, *args, **kwargs)

    method.__name__ = method.__qualname__ = name
    method.__doc__ = f"`{name}` of weft.sparse (weft/sparse/methods.py)."
    return method


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

    # ---- layouts
    _coalesced_ = _sparse_method("_coalesced_")
    _dimI = _sparse_method("_dimI")
    _dimV = _sparse_method("_dimV")
    _indices = _sparse_method("_indices")
    _nnz = _sparse_method("_nnz")
    _to_sparse_like = _sparse_method("_to_sparse_like")
    _values = _sparse_method("_values")
    ccol_indices = _sparse_method("ccol_indices")
    coalesce = _sparse_method("coalesce")
    col_indices = _sparse_method("col_indices")
    crow_indices = _sparse_method("crow_indices")
    dense_dim = _sparse_method("dense_dim")
    indices = _sparse_method("indices")
    is_coalesced = _sparse_method("is_coalesced")
    resize_as_sparse_ = _sparse_method("resize_as_sparse_")
    row_indices = _sparse_method("row_indices")
    smm = _sparse_method("smm")
    sparse_dim = _sparse_method("sparse_dim")
    sparse_mask = _sparse_method("sparse_mask")
    sparse_resize_ = _sparse_method("sparse_resize_")
    sparse_resize_and_clear_ = _sparse_method("sparse_resize_and_clear_")
    sspaddmm = _sparse_method("sspaddmm")
    to_dense = _sparse_method("to_dense")
    to_sparse = _sparse_method("to_sparse")
    to_sparse_bsc = _sparse_method("to_sparse_bsc")
    to_sparse_bsr = _sparse_method("to_sparse_bsr")
    to_sparse_coo = _sparse_method("to_sparse_coo")
    to_sparse_csc = _sparse_method("to_sparse_csc")
    to_sparse_csr = _sparse_method("to_sparse_csr")
    values = _sparse_method("values")

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__()} - {*ABSENT_METHODS})

    def dim_order(self: Any, *, ambiguity_check: Any = False) -> tuple[int, ...]:
        """The dims from the outermost in memory to the innermost."""
        strides = self.stride()
        return tuple(sorted(range(self.ndim), key=lambda i: (-strides[i], i)))


for _name in ABSENT_METHODS:
    setattr(Questions, _name, Absent(_name))

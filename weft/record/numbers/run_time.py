"""A number of Python's that is only known when the program runs: a function may return it."""

from __future__ import annotations

from weft.tensor.tensor import Tensor
from weft.types import dtype as dt
from weft.types.dtype import DType


class RunTimeNumber:
    """A number as the 0-dim tensor that holds it."""

    __slots__ = ("tensor",)

    def __init__(self, tensor: Tensor) -> None:
        self.tensor = tensor

    def __weft_tensor__(self, dtype: DType | None) -> Tensor:
        """The number as a tensor of this dtype, or of its kind's."""
        if dtype is None:
            dtype = dt.get_default() if self.tensor.dtype.is_floating_point else self.tensor.dtype
        return self.tensor.to(dtype)

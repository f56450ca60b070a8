"""finfo and iinfo: the limits of dtypes, as PyTorch names them."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from weft.support.errors import ArgumentError
from weft.types import dtype as dt
from weft.types.dtype import DType


class finfo:
    """Limits of a floating point dtype (for complex ones: of their parts): bits, eps, max, min, tiny,
    smallest_normal, resolution."""

    def __init__(self, type: DType | None = None) -> None:
        wanted = dt.get_default() if type is None else type
        if not (wanted.is_floating_point or wanted.is_complex):
            raise ArgumentError(
                f"weft.finfo() requires a floating point input type. Use weft.iinfo to handle '{wanted}'"
            )
        real = wanted.to_real() if wanted.is_complex else wanted
        found: Any = ml_dtypes.finfo(real.numpy)  # type: ignore[no-untyped-call]
        self.bits, self.dtype = real.itemsize * 8, real.name
        self.eps, self.max, self.min = float(found.eps), float(found.max), float(found.min)
        self.tiny = self.smallest_normal = float(found.smallest_normal)
        self.resolution = 10.0 ** -int(found.precision)

    def __repr__(self) -> str:
        return (
            f"finfo(resolution={self.resolution:g}, min={self.min:g}, max={self.max:g}, eps={self.eps:g}, "
            f"smallest_normal={self.smallest_normal:g}, tiny={self.tiny:g}, dtype={self.dtype})"
        )


class iinfo:
    """Limits of an integer dtype: bits, max, min."""

    def __init__(self, type: DType) -> None:
        if type.is_floating_point or type.is_complex or type is dt.bool_:
            raise ArgumentError(f"weft.iinfo() requires an integer input type. Use weft.finfo to handle '{type}'")
        found = np.iinfo(type.numpy)
        self.bits, self.dtype = found.bits, type.name
        self.max, self.min = int(found.max), int(found.min)

    def __repr__(self) -> str:
        return f"iinfo(min={self.min}, max={self.max}, dtype={self.dtype})"

"""abs() of complex numbers into out=: as PyTorch, what the magnitude can be cast to, and the numbers' own dtype."""

from __future__ import annotations

import numpy as np
import pytest

import weft
from weft.types.dtype import DType

_TAKEN = {
    weft.complex64: (weft.float16, weft.bfloat16, weft.float32, weft.float64, weft.complex64),
    weft.complex128: (weft.float16, weft.bfloat16, weft.float32, weft.float64, weft.complex128),
    weft.float32: (weft.float32,), weft.int64: (weft.int64,),
}
_ALL = (weft.bool, weft.uint8, weft.int32, weft.int64, weft.float16, weft.bfloat16, weft.float32, weft.float64,
        weft.complex64, weft.complex128)


@pytest.mark.parametrize("name", ["abs", "absolute"])
@pytest.mark.parametrize("dtype", list(_TAKEN), ids=str)
def test_dtypes_of_out(name: str, dtype: DType, rng: np.random.Generator) -> None:
    parts = rng.normal(size=(2, 5)) * 4
    x, function = weft.tensor(parts[0] + 1j * parts[1]), getattr(weft, name)
    x = x.to(dtype) if dtype.is_complex else x.real.to(dtype)
    for kind in _ALL:
        for run in (lambda out: function(x, out=out), lambda out: function(input=x, out=out)):
            for way in (run, weft.compile(run)):
                out = weft.zeros(5, dtype=kind)
                if kind in _TAKEN[dtype]:
                    assert way(out) is out
                    np.testing.assert_allclose(out.to(weft.complex128).numpy(), x.abs().numpy(), rtol=1e-2)
                else:
                    with pytest.raises(RuntimeError, match=r"dtype|can't be cast"):
                        way(out)
                    assert not out.any()

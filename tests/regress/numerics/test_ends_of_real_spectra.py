"""The first frequency of a real signal, and the last one of an even number of samples, are real: a rounding in place of
their imaginary part turned the angle of a negative one from pi to -pi.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import weft


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("is_fixed", [False, True])
def test_frequencies_that_are_their_own_mirror_have_no_imaginary_part(dtype: Any, is_fixed: bool) -> None:
    rng = np.random.default_rng(3)
    for count in (1, 2, 3, 6, 8, 11, 12, 30, 97, *rng.integers(100, 140, size=2).tolist()):
        compiled = weft.compile(lambda v, n=count if is_fixed else None: weft.fft.rfft(v, n))
        x = rng.normal(size=(3, count)).astype(dtype)
        spectrum = compiled(weft.from_numpy(x)).numpy()
        np.testing.assert_allclose(spectrum, np.fft.rfft(x.astype(np.float64)), rtol=0, atol=2e-5 * count)
        ends = spectrum.imag[:, [0, count // 2] if count % 2 == 0 else [0]]
        assert not ends.any() and not np.signbit(ends).any()

"""The estimate of a distance from projections is the distance, within a factor of two."""

from __future__ import annotations

import numpy as np

from tests.differential.fingerprint import fingerprint, relative_distance


def test_the_estimate_finds_a_difference_of_any_kind(rng: np.random.Generator) -> None:
    a = rng.standard_normal((13, int(rng.integers(3, 40))))
    stored = fingerprint({"w": a})["w"]
    assert relative_distance("w", a, stored) < 1e-14
    one_element, everywhere = a.copy(), a + 1e-5 * rng.standard_normal(a.shape)
    one_element[5, 2] += 1e-4
    for b in (one_element, everywhere, 1.5 * a):
        true = np.linalg.norm(a - b) / np.linalg.norm(a)
        assert true / 2.2 < relative_distance("w", b, stored) < true * 2.2

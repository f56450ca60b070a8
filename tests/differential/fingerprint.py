"""A tensor too large to store, as a few numbers that still tell by how much another tensor differs from it.

The distance |a - b| is estimated from random projections: for rows r of independent standard normals,
the root mean square of r.a - r.b has the expectation |a - b|. With 16 projections the estimate is within a factor of 2,
nearly always.
"""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

PROJECTIONS = 16


def project(name: str, tensor: NDArray[Any]) -> NDArray[np.float64]:
    """PROJECTIONS numbers, float64; the directions depend on the name and size alone."""
    rng = np.random.default_rng(zlib.crc32(name.encode()))
    flat = tensor.astype(np.float64).reshape(-1)
    return np.array([rng.standard_normal(flat.size) @ flat for _ in range(PROJECTIONS)])


def fingerprint(tensors: dict[str, NDArray[Any]]) -> dict[str, dict[str, Any]]:
    """Norm and projections of each tensor, ready for JSON."""
    return {
        name: {"norm": float(np.linalg.norm(tensor.astype(np.float64))), "projections": project(name, tensor).tolist()}
        for name, tensor in tensors.items()
    }


def relative_distance(name: str, tensor: NDArray[Any], stored: dict[str, Any]) -> float:
    """Estimate of |tensor - stored| / |stored|."""
    difference = project(name, tensor) - np.array(stored["projections"])
    return float(np.sqrt(np.mean(difference**2)) / stored["norm"])

"""weft.backends: switches of back ends that weft does not have. They can be read and set, and mean nothing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace


def _absent(**switches: object) -> SimpleNamespace:
    return SimpleNamespace(enabled=False, is_available=lambda: False, **switches)


@contextmanager
def _flags(**switches: object) -> Iterator[None]:
    yield


cudnn = _absent(flags=_flags, benchmark=False, deterministic=False, allow_tf32=True, version=lambda: None)
cuda = _absent(matmul=SimpleNamespace(allow_tf32=False), is_built=lambda: False)
mps = _absent(is_built=lambda: False)
mkldnn = _absent()
mkl = _absent()
openmp = _absent()

__all__ = ["cuda", "cudnn", "mkl", "mkldnn", "mps", "openmp"]

"""weft.backends: switches of back ends that weft does not have. They can be read and set, and mean nothing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace


def _absent(**switches: object) -> SimpleNamespace:
    return SimpleNamespace(enabled=False, is_available=lambda: False, **switches)


def _cpu_capability() -> str:
    """What compiled functions are made for, in PyTorch's words: "AVX512", "AVX2", "DEFAULT"."""
    from weft.codegen.target import host_target  # brings in llvmlite

    features = host_target().features
    return "AVX512" if "+avx512f" in features else "AVX2" if "+avx2" in features else "DEFAULT"


@contextmanager
def _flags(**switches: object) -> Iterator[None]:
    yield


cudnn = _absent(flags=_flags, benchmark=False, deterministic=False, allow_tf32=True, version=lambda: None)
cuda = _absent(matmul=SimpleNamespace(allow_tf32=False), is_built=lambda: False)
mps = _absent(is_built=lambda: False)
mkldnn = _absent(flags=_flags)
mkl = _absent()
openmp = _absent()
cusparselt = _absent(version=lambda: None)
nnpack = _absent(flags=_flags)
opt_einsum = _absent(strategy=None)  # weft.einsum plans products itself
cpu = SimpleNamespace(get_cpu_capability=_cpu_capability)

__all__ = ["cpu", "cuda", "cudnn", "cusparselt", "mkl", "mkldnn", "mps", "nnpack", "openmp", "opt_einsum"]

"""weft.backends: switches of back ends that weft does not have. They can be read and set, and mean nothing.
Each back end is a module, `import weft.backends.cudnn`."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import ModuleType, SimpleNamespace
from typing import Any

__path__: list[str] = []  # its modules are made here, not read from files


def _module(name: str, **names: Any) -> Any:
    module = ModuleType(f"{__name__}.{name}", "Switches of a back end that weft does not have.")
    vars(module).update(names)
    return sys.modules.setdefault(module.__name__, module)


def _absent(name: str, **switches: Any) -> Any:
    return _module(name, **{"enabled": False, "is_available": lambda: False, **switches})


def _cpu_capability() -> str:
    """What compiled functions are made for, in PyTorch's words: "AVX512", "AVX2", "DEFAULT"."""
    from weft.codegen.target import host_target  # brings in llvmlite

    features = host_target().features
    return "AVX512" if "+avx512f" in features else "AVX2" if "+avx2" in features else "DEFAULT"


@contextmanager
def _flags(*switches: object, **more: object) -> Iterator[None]:
    yield


def _attention() -> dict[str, Callable[..., Any]]:
    """Which kernels of attention a GPU may use: none is there but the one that computes it step by step."""
    switches: dict[str, Callable[..., Any]] = {"sdp_kernel": _flags}
    for kind in ("flash", "mem_efficient", "math", "cudnn"):
        switches[f"{kind}_sdp_enabled"] = lambda is_on=kind == "math": is_on
        switches[f"enable_{kind}_sdp"] = lambda enabled: None
    return switches


cudnn = _absent(
    "cudnn", flags=_flags, benchmark=False, deterministic=False, allow_tf32=True, version=lambda: None,
    is_acceptable=lambda tensor: False,
)
_products = SimpleNamespace(
    allow_tf32=False, allow_fp16_reduced_precision_reduction=True, allow_bf16_reduced_precision_reduction=True,
)
cuda = _absent("cuda", matmul=_products, is_built=lambda: False, **_attention())
mps = _absent("mps", is_built=lambda: False)
mkldnn = _absent("mkldnn", flags=_flags)
mkl = _absent("mkl")
openmp = _absent("openmp")
cusparselt = _absent("cusparselt", version=lambda: None)
nnpack = _absent("nnpack", flags=_flags)
opt_einsum = _absent("opt_einsum", strategy=None)  # weft.einsum plans products itself
cpu = _module("cpu", get_cpu_capability=_cpu_capability)

__all__ = ["cpu", "cuda", "cudnn", "cusparselt", "mkl", "mkldnn", "mps", "nnpack", "openmp", "opt_einsum"]

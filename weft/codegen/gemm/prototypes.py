"""The native matrix product: the functions that a module may call, and their contract.

    C[m0:m1] = A[m0:m1] @ B, or += with accumulate;  A: [M, K], B: [K, N], C: [M, N] with unit column stride

Sizes and strides (in elements) are run-time values; A and B may have any strides, and are fast with a unit stride on
either axis, so a transposed operand is only another pair of strides. C must not overlap A or B. With K = 0, C becomes
zero (or stays, when accumulating).

Workers split rows by calling with ranges [m0, m1) of one M, each with a workspace of its own. A result is the same,
bit by bit, for every
split: an element is always the sum over k in order, in steps of K that hang on K alone; M <= 4 and N = 1, which are
summed another way, are told by the sizes of the whole product. B is packed anew by each range; with many small ranges
of one product, pack it once with `pack_b` and run the ranges on `packed`, whose results are equal to the big driver's.

`declare_gemm` adds the prototypes to a module that calls them; library.py writes the functions.
"""

from __future__ import annotations

from dataclasses import dataclass

from weft.codegen.emit import I32, I64, PTR, VOID, LType, Module, Signature
from weft.codegen.target import Target

from .tiles import GemmPlan, plan_gemm

_GEMM = [
    *[(PTR, name) for name in ("A", "B", "C")],
    *[(I64, name) for name in ("M", "N", "K", "rsA", "csA", "rsB", "csB", "rsC")],
    (I32, "accumulate"),
    (PTR, "workspace"),
]
_RANGE = [(I64, "m0"), (I64, "m1")]
_BATCH = [(I64, "sA"), (I64, "sB"), (I64, "sC"), (I64, "b0"), (I64, "b1")]
PARAMETERS: dict[str, list[tuple[LType, str]]] = {
    "gemm": _GEMM + _RANGE,
    "batched": _GEMM + _BATCH,
    "pack_b": [
        (PTR, "B"),
        *[(I64, name) for name in ("N", "K", "rsB", "csB")],
        (PTR, "packed"),
        (I64, "p0"),
        (I64, "p1"),
    ],
    "packed": [p for p in _GEMM if p[1] not in ("rsB", "csB")] + _RANGE,
    "workspace": [(I64, "M"), (I64, "N"), (I64, "K")],
    "packed_bytes": [(I64, "N"), (I64, "K")],
    "panels": [(I64, "N")],
}


@dataclass(frozen=True)
class GemmLibrary:
    """Signatures of the library's functions, to be called from the module that they were declared or emitted in.

    gemm          (A, B, C, M, N, K, rsA, csA, rsB, csB, rsC, i32 accumulate, workspace, m0, m1)
    batched       the same up to workspace, then (sA, sB, sC, b0, b1): products b0 <= b < b1, operands sA,
                  sB, sC elements apart
    pack_b        (B, N, K, rsB, csB, packed, p0, p1): panels p0 <= p < p1 of all `panels(N)`; workers may share them
    packed        gemm with `packed` for B and without rsB, csB
    workspace     (M, N, K) -> bytes of scratch that gemm, packed and (per product) batched need
    packed_bytes  (N, K) -> bytes of `packed`
    panels        (N) -> how many panels pack_b makes
    """

    gemm: Signature
    batched: Signature
    pack_b: Signature
    packed: Signature
    workspace: Signature
    packed_bytes: Signature
    panels: Signature

    @property
    def symbols(self) -> list[str]:
        """The exported names."""
        return [signature.name for signature in vars(self).values()]


def gemm_symbol(entry: str, plan: GemmPlan) -> str:
    """The exported name of an entry: weft_gemm_f32, weft_gemm_batched_f32, ..."""
    return f"{plan.prefix}_{plan.suffix}" if entry == "gemm" else f"{plan.prefix}_{entry}_{plan.suffix}"


def result_of(entry: str) -> LType:
    """The type that an entry returns."""
    return I64 if entry in ("workspace", "packed_bytes", "panels") else VOID


def declare_gemm(module: Module, dtype: str, target: Target) -> GemmLibrary:
    """Prototypes of the library in a module that is linked with it.
    Raises EmitError for a dtype without a native product."""
    plan = plan_gemm(dtype, target)
    signatures = {
        entry: module.declare(gemm_symbol(entry, plan), result_of(entry), [type for type, _ in params])
        for entry, params in PARAMETERS.items()
    }
    return GemmLibrary(**signatures)

"""The native matrix product: the functions that a module may call, and their contract.

    C = A @ B, or += with accumulate;  A: [M, K], B: [K, N], C: [M, N] with unit column stride

Sizes and strides (in elements) are run-time values; A and B may have any strides, and are fast with a unit stride on
either axis, so a transposed operand is only another pair of strides. C must not overlap A or B. With K = 0, C becomes
zero (or stays, when accumulating).

A call computes rows [m0, m1) and columns [n0, n1) of C: workers take ranges of one product, each with a workspace of
its own. A result is the same, bit by bit, for every split: an element is always the sum over k in order, in steps of K
that hang on K alone; M <= 4 and N = 1, which are summed another way, are told by the sizes of the whole product.
B is packed anew by each call of `gemm`; where many ranges share their columns, pack it once with `pack_b` and run the
ranges on `packed`, whose results are equal to the big driver's.

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
_RANGE = [(I64, "m0"), (I64, "m1"), (I64, "n0"), (I64, "n1")]
PARAMETERS: dict[str, list[tuple[LType, str]]] = {
    "gemm": _GEMM + _RANGE,
    "pack_b": [
        (PTR, "B"),
        *[(I64, name) for name in ("N", "K", "rsB", "csB")],
        (PTR, "packed"),
        (I64, "p0"),
        (I64, "p1"),
    ],
    "packed": [p for p in _GEMM if p[1] not in ("rsB", "csB")] + _RANGE,
}


@dataclass(frozen=True)
class GemmLibrary:
    """Signatures of the library's functions, to be called from the module that they were declared or emitted in.

    gemm    (A, B, C, M, N, K, rsA, csA, rsB, csB, rsC, i32 accumulate, workspace, m0, m1, n0, n1)
    pack_b  (B, N, K, rsB, csB, packed, p0, p1): panels p0 <= p < p1 of all `GemmPlan.panels(N)`;
            workers may share them
    packed  gemm with `packed` (GemmPlan.packed_elements) for B and without rsB, csB; n0 is a multiple
            of a panel's width

    The workspace has GemmPlan.workspace_bytes.
    """

    gemm: Signature
    pack_b: Signature
    packed: Signature

    @property
    def symbols(self) -> list[str]:
        """The exported names."""
        return [signature.name for signature in vars(self).values()]


def gemm_symbol(entry: str, plan: GemmPlan) -> str:
    """The exported name of an entry: weft_gemm_f32, weft_gemm_batched_f32, ..."""
    return f"{plan.prefix}_{plan.suffix}" if entry == "gemm" else f"{plan.prefix}_{entry}_{plan.suffix}"


def declare_gemm(module: Module, dtype: str, target: Target) -> GemmLibrary:
    """Prototypes of the library in a module that is linked with it.
    Raises EmitError for a dtype without a native product."""
    plan = plan_gemm(dtype, target)
    signatures = {
        entry: module.declare(gemm_symbol(entry, plan), VOID, [type for type, _ in params])
        for entry, params in PARAMETERS.items()
    }
    return GemmLibrary(**signatures)

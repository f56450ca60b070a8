"""The text builder of generated code: a Module of Functions, printed as LLVM IR with explicit vectors.

    module = Module.for_target(host_target())
    f = module.function("scale", VOID, [(PTR, "x"), (F32, "by"), (I64, "n")])
    x, by, n = f.params
    with f.loop(0, n, 8) as loop:
        p = f.gep(F32, x, loop.index)
        f.store(f.fmul(f.load(vec(F32, 8), p), f.splat(by, 8)), p)
    f.ret()
    module.text()

No optimisation pipeline runs on this text, only code generation at level 2: what can be hoisted, unrolled or folded
is the caller's business (constant arithmetic is folded here). Imports nothing of codegen/ but target.py.

Start reading at module.py (Module and Function); types.py has types and constants, and arith.py, vector.py, memory.py
and flow.py the instruction set, one subject each.
"""

from .flow import Branches, Loop, Phi, WhileLoop
from .module import Function, Module
from .types import (
    BF16,
    F16,
    F32,
    F64,
    I1,
    I8,
    I16,
    I32,
    I64,
    NULL,
    PTR,
    VOID,
    EmitError,
    LType,
    Signature,
    Value,
    const,
    const_vector,
    iota,
    like,
    poison,
    round_to,
    vec,
)

__all__ = [
    "BF16", "F16", "F32", "F64", "I1", "I8", "I16", "I32", "I64", "NULL", "PTR", "VOID", "Branches", "EmitError",
    "Function", "LType", "Loop", "Module", "Phi", "Signature", "Value", "WhileLoop", "const", "const_vector", "iota",
    "like", "poison", "round_to", "vec",
]

"""What a pointwise body costs per element, in simple vector instructions: a handler of the scalar protocol that counts."""

from __future__ import annotations

from functools import cache
from typing import Any

from weft.ops.op import Op
from weft.types import dtype as dt
from weft.types.dtype import DType

_FREE = frozenset(("const", "dtype", "bits", "from_bits", "real", "imag"))
_CHEAP_HEAVY = {"div": 4, "sqrt": 4, "rsqrt": 6, "floordiv": 8, "truncdiv": 8, "remainder": 10, "fmod": 10, "cast": 1}
_SIMPLE = frozenset((
    "add", "sub", "mul", "neg", "abs", "sign", "floor", "ceil", "trunc", "round", "copysign", "maximum", "minimum", "eq", "ne", "lt", "le", "gt",
    "ge", "isnan", "isinf", "isfinite", "signbit", "bit_and", "bit_or", "bit_xor", "bit_not", "shl", "shr", "where", "conj", "complex",
))
FUNCTION_WEIGHT = 16  # exp, log, tanh, ...


class _Counter:
    def __init__(self, dtype: DType) -> None:
        self.total = 0
        self._dtype = dtype

    def dtype(self, x: Any) -> DType:
        return self._dtype

    def __getattr__(self, name: str) -> Any:
        def method(*args: Any) -> object:
            self.total += 0 if name in _FREE else 1 if name in _SIMPLE else _CHEAP_HEAVY.get(name, FUNCTION_WEIGHT)
            return object()

        return method


@cache
def body_weight(op: Op, compute: DType | None) -> int:
    """Simple instructions in the op's body. A body that looks closely at its operands counts as one function."""
    counter = _Counter(compute or dt.float32)
    operands = [a.default if a.kind not in ("Tensor", "Scalar") else object() for a in op.schema.arguments]
    try:
        op.scalar(counter, *operands)  # type: ignore[misc]
    except Exception:  # the body branches on something that a count has not
        return FUNCTION_WEIGHT
    return counter.total

"""What a pointwise body costs per element, in simple vector instructions: a handler of the scalar protocol
that counts."""

from __future__ import annotations

from functools import cache
from typing import Any

from weft.ops.op import Op
from weft.types import dtype as dt
from weft.types.dtype import DType

_FREE = frozenset(("const", "dtype", "bits", "from_bits", "real", "imag"))
_CHEAP_HEAVY = {"div": 4, "sqrt": 4, "rsqrt": 6, "floordiv": 8, "truncdiv": 8, "remainder": 10, "fmod": 10, "cast": 1}
_SIMPLE = frozenset((
    "add", "sub", "mul", "neg", "abs", "sign", "floor", "ceil", "trunc", "round", "copysign", "maximum", "minimum",
    "eq", "ne", "lt", "le", "gt", "ge", "isnan", "isinf", "isfinite", "signbit", "bit_and", "bit_or", "bit_xor",
    "bit_not", "shl", "shr", "where", "conj", "complex",
))
_ARITHMETIC = _FREE | _SIMPLE | _CHEAP_HEAVY.keys()
FUNCTION_WEIGHT = 16  # exp, log, tanh, ...


_ROOTS = frozenset(("sqrt", "rsqrt"))


class _Counter:
    def __init__(self, dtype: DType) -> None:
        self.total = 0
        self.functions = 0  # beyond arithmetic
        self._dtype = dtype

    def dtype(self, x: Any) -> DType:
        return self._dtype

    def __getattr__(self, name: str) -> Any:
        def method(*args: Any) -> object:
            self.functions += name in _ROOTS or name not in _ARITHMETIC
            self.total += 0 if name in _FREE else 1 if name in _SIMPLE else _CHEAP_HEAVY.get(name, FUNCTION_WEIGHT)
            return object()

        return method


@cache
def body_weight(op: Op, compute: DType | None) -> int:
    """Simple instructions in the op's body. A body that looks closely at its operands counts as one function."""
    counter = _counted(op, compute or dt.float32)
    return FUNCTION_WEIGHT if counter is None else counter.total


@cache
def calls_functions(op: Op) -> bool:
    """Whether the op's body is more than arithmetic: a root, an exponential, a sine."""
    counter = _counted(op, dt.float32)
    return counter is None or counter.functions > 0


def _counted(op: Op, compute: DType) -> _Counter | None:
    """The body, counted; None for a body that branches on something that a count has not."""
    counter = _Counter(compute)
    operands = [a.default if a.kind not in ("Tensor", "Scalar") else object() for a in op.schema.arguments]
    try:
        op.scalar(counter, *operands)  # type: ignore[misc]
    except Exception:
        return None
    return counter

"""Settings of the lazy device: `weft.lazy.config`."""

from __future__ import annotations

from weft.ops.op import OPS, Op
from weft.support.errors import ArgumentError

forced: frozenset[str] = frozenset()


def set_force_fallback(op: str) -> None:
    """Compute these operators at once instead of tracing them: "aten::sub", or several with commas between; "" for
    none. The in-place form is the same operator ("aten::sub_"). Raises ArgumentError for a name that no operator has.
    """
    global forced
    operators = {f"{o.schema.namespace}::{o.base}" for o in OPS.values()}
    names_given = [name.strip() for name in op.split(",") if name.strip()]
    # scripts enter in-place forms beside what they write
    names = frozenset([form if (form := name.removesuffix("_")) in operators else name for name in names_given])
    for name in names - operators:
        raise ArgumentError(f"set_force_fallback: there is no operator {name!r}; names look like 'aten::sub'")
    forced = names


def get_force_fallback() -> str:
    """The operators that are computed at once."""
    return ",".join(sorted(forced))


def is_forced(op: Op) -> bool:
    """Whether an operator is computed at once."""
    return bool(forced) and f"{op.schema.namespace}::{op.base}" in forced


__all__ = ["get_force_fallback", "is_forced", "set_force_fallback"]

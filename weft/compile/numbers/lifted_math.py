"""Python's math module on lifted numbers: while a function is captured, `math.cos(self.n / total)` is recorded instead
of answered once and for all.

And `len` of a tensor, which Python's own makes a plain integer of.
"""

from __future__ import annotations

import builtins
import functools
import math
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from weft.compile.capture.symbolic import SymbolicPayload
from weft.compile.numbers.sym_float import SymFloat, float_of, is_live
from weft.ops.op import OPS
from weft.tensor.tensor import Tensor
from weft.types.sym import SymInt

Function = Callable[..., Any]
_RECORDED: Final = tuple(str.split(
    "sqrt exp expm1 log log2 log10 log1p sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh erf erfc"
))
_PYTHONS: Final[dict[str, Function]] = {
    name: getattr(math, name) for name in (*_RECORDED, "pow", "fabs", "isnan", "isinf", "isfinite")
}
_PYTHONS_LEN: Final = len
_lock = threading.Lock()
_depth = [0]


def _lifted(value: Any) -> SymFloat | None:
    if type(value) is SymInt:
        return float_of(value)
    return value if type(value) is SymFloat and is_live(value) else None


def _recorded(name: str) -> Function:
    python, op = _PYTHONS[name], OPS[f"aten::{name}"]

    @functools.wraps(python)
    def function(x: Any, *rest: Any) -> Any:
        number = _lifted(x)
        if number is None:
            return python(x, *rest)
        if rest:  # log(x, base)
            return function(number) / function(rest[0])
        python(number.now())  # what Python refuses now is refused now
        number.ask(lambda v: _is_defined(python, v))
        compute = number.compute
        assert number.capture is not None  # (it is live)
        return SymFloat(
            number.capture.recorder.builder.emit(op, (number.value,)).output, number.capture,
            lambda values: python(compute(values)),
        )

    return function


def _is_defined(function: Function, x: float) -> bool:
    try:
        function(x)
    except (ValueError, OverflowError):
        return False
    return True


def _question(name: str) -> Function:
    python = _PYTHONS[name]

    @functools.wraps(python)
    def function(x: Any) -> Any:
        number = _lifted(x)
        return python(x) if number is None else number.ask(python)

    return function


def _pow(x: Any, y: Any) -> Any:
    a, b = _lifted(x), _lifted(y)
    return _PYTHONS["pow"](x, y) if a is None and b is None else (x if a is None else a) ** (y if b is None else b)


def _fabs(x: Any) -> Any:
    number = _lifted(x)
    return _PYTHONS["fabs"](x) if number is None else abs(number)


def _len(x: Any) -> Any:
    return x.shape[0] if type(x) is Tensor and type(x._data) is SymbolicPayload and x.shape else _PYTHONS_LEN(x)


_OURS: Final[dict[str, Function]] = {
    **{name: _recorded(name) for name in _RECORDED},
    **{name: _question(name) for name in ("isnan", "isinf", "isfinite")},
    "pow": _pow,
    "fabs": _fabs,
}
_PAIRS: Final = (
    *((math, name, ours, _PYTHONS[name]) for name, ours in _OURS.items()), (builtins, "len", _len, _PYTHONS_LEN)
)
# ours while capturing, Python's own otherwise
STANDS_FOR: Final[dict[Any, Any]] = {ours: pythons for _, _, ours, pythons in _PAIRS}


@contextmanager
def lifted_math() -> Iterator[None]:
    """Let math's functions and `len` take what is symbolic within a block; for all else, also on other threads,
    they are Python's own."""
    _exchange(1)
    try:
        yield
    finally:
        _exchange(-1)


def _exchange(step: int) -> None:
    with _lock:
        before = _depth[0]
        _depth[0] += step
        if before and _depth[0]:
            return
        for module, name, ours, pythons in _PAIRS:
            old, new = (pythons, ours) if _depth[0] else (ours, pythons)
            if getattr(module, name) is old:  # what someone else put there stays
                setattr(module, name, new)

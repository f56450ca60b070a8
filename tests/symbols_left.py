"""Whether a call has left symbols behind: tensors and numbers of a capture, on anything that a test holds."""

from __future__ import annotations

import gc
from types import BuiltinFunctionType, CodeType, FrameType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np

import weft
from weft.jit.interpreter.recording.values import RunTime
from weft.record.numbers.sym_float import SymFloat
from weft.record.symbolic import SymbolicPayload
from weft.support.reachable import reachable
from weft.types.sym import SymInt

_CLOSED = (str, bytes, int, float, complex, bool, type(None), np.ndarray, np.generic, ModuleType, CodeType, FrameType)
_OPEN_OF_WEFT = (weft.Tensor, weft.nn.Module, weft.optim.Optimizer, weft.Generator)


def symbols_left(*roots: Any) -> list[str]:
    """Where symbols are: what each hangs on. What weft itself keeps (programs, histories) is not looked into."""
    lines: list[str] = []
    paths: dict[int, str] = {id(root): f"root {i}" for i, root in enumerate(roots)}

    def inside(value: Any) -> list[Any]:
        path = paths[id(value)]
        if isinstance(value, (SymInt, SymFloat, RunTime)):
            lines.append(f"{path}: {type(value).__name__} {value!r}")
            return []
        if isinstance(value, weft.Tensor) and type(value._data) is SymbolicPayload:
            lines.append(f"{path}: a symbolic tensor")
            return []
        if type(value) in _CLOSED or len(path) >= 300:
            return []
        inner = _inside(value)
        for name, part in inner:
            paths.setdefault(id(part), f"{path} > {name}")
        return [part for _, part in inner]

    keep = list(reachable(roots, inside))  # (their ids stay theirs)
    del keep
    return lines


def _inside(value: Any) -> list[tuple[str, Any]]:
    if isinstance(value, dict):
        return [(repr(k)[:40], part) for k, v in list(value.items()) for part in (k, v)]
    if isinstance(value, weft.Tensor):
        return [*vars(value).items(), ("grad", value.grad if value.is_leaf else None)]
    if isinstance(value, FunctionType):
        cells = [c for c in value.__closure__ or ()]
        return [("closure", c) for c in cells] + [("default", d) for d in value.__defaults__ or ()]
    if isinstance(value, (MethodType, BuiltinFunctionType)):
        return [("self", value.__self__)]
    if isinstance(value, type):
        return [] if _is_wefts(value) else [(k, v) for k, v in vars(value).items() if not k.startswith("__")]
    if _is_wefts(type(value)) and not isinstance(value, _OPEN_OF_WEFT):
        return []
    return [(type(inner).__name__, inner) for inner in gc.get_referents(value) if not isinstance(inner, type)] + [
        ("class", type(value))
    ]


def _is_wefts(cls: type) -> bool:
    return cls.__module__.partition(".")[0] in ("weft", "builtins", "collections", "numpy", "threading")

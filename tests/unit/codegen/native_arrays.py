"""Run a scalar body natively over NumPy arrays: the tests' way into LlvmScalar."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from weft.codegen.emit import I64, PTR, Function, Module, Value
from weft.codegen.native import build
from weft.codegen.scalar.handler import Element, LlvmScalar, memory_type
from weft.codegen.target import Target, host_target
from weft.types import dtype as dt
from weft.types.dtype import DType

Array = np.ndarray[Any, Any]
Body = Callable[..., Element]


def body_module(body: Body, dtypes: Sequence[DType], lanes: int, target: Target) -> tuple[Module, DType]:
    """`void kernel(ptr in.., ptr out, i64 n)` for n a multiple of `lanes`, and the dtype of the result."""
    module = Module.for_target(target)
    params = [(PTR, f"in{i}") for i in range(len(dtypes))]
    f = module.function("kernel", params=[*params, (PTR, "out"), (I64, "n")])
    *ins, out, n = f.params
    s = LlvmScalar(f, lanes, target)
    with f.loop(0, n, lanes) as loop:
        operands = [_load(s, f, d, p, loop.index, n) for d, p in zip(dtypes, ins, strict=True)]
        result = body(s, *operands)
        _store(s, f, result, out, loop.index, n)
    f.ret()
    return module, result.dtype


def _load(s: LlvmScalar, f: Function, dtype: DType, base: Value, index: Value, n: Value) -> Element:
    type = memory_type(dtype, s.lanes)
    if not dtype.is_complex:
        return s.from_memory(dtype, f.load(type, f.gep(type.elem, base, index)))
    second = f.gep(type.elem, base, n)  # parts are stored one after the other
    return s.element(dtype, f.load(type, f.gep(type.elem, base, index)), f.load(type, f.gep(type.elem, second, index)))


def _store(s: LlvmScalar, f: Function, x: Element, base: Value, index: Value, n: Value) -> None:
    if x.imag is None:
        value = s.to_memory(x)
        f.store(value, f.gep(value.type.elem, base, index))
        return
    f.store(x.value, f.gep(x.value.type.elem, base, index))
    f.store(x.imag, f.gep(x.value.type.elem, f.gep(x.value.type.elem, base, n), index))


def run(body: Body, *arrays: Array, lanes: int = 0, target: Target | None = None) -> Array:
    """body over arrays of one length; lanes 0 is one register of the widest operand."""
    target = target or host_target()
    dtypes = [dt.from_numpy(a.dtype) for a in arrays]
    lanes = lanes or target.lanes(max(d.itemsize for d in dtypes))
    module, result = body_module(body, dtypes, lanes, target)
    library = build(module.text(), ["kernel"], target)
    length = len(arrays[0])
    count = -(-length // lanes) * lanes
    ins = [_in_parts(a, count) for a in arrays]
    out = np.empty(count * result.itemsize, np.uint8)
    call = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * (len(ins) + 1), ctypes.c_int64)(library["kernel"])
    call(*(a.ctypes.data for a in ins), out.ctypes.data, count)
    return _from_parts(out, result, count)[:length]


def _in_parts(a: Array, count: int) -> Array:
    padded = np.ones(count, a.dtype)
    padded[: len(a)] = a
    return np.concatenate([padded.real, padded.imag]) if a.dtype.kind == "c" else padded


def _from_parts(out: Array, dtype: DType, count: int) -> Array:
    if not dtype.is_complex:
        return out.view(dtype.numpy)
    parts = out.view(dtype.to_real().numpy)
    made = np.empty(count, dtype.numpy)
    made.real, made.imag = parts[:count], parts[count:]
    return made

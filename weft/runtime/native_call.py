"""A native function as a Python callable that costs tens of nanoseconds and releases the GIL.

`ctypes` spends 130 ns and more on a call with one argument. A Python builtin of kind METH_FASTCALL costs half of
that, and one can be made at run time: a small native gate, compiled like any other code, is wrapped by
`PyCFunction_NewEx`. The gate uses C-API functions only, no struct layouts, so it serves every CPython from 3.10 on.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from typing import Any

from weft.runtime.engine import Library

METH_NOARGS, METH_FASTCALL = 0x0004, 0x0080

GATE_EXPORTS = ("weft_gate_one", "weft_gate_bound")

# self is a Python int. For weft_gate_one it is the entry's address and the argument is the frame's address; for
# weft_gate_bound it is the address of the pair {entry, frame}. -1 from PyLong_AsSsize_t may be an error or a value.
GATE_IR = """
@PyExc_TypeError = external global ptr
@weft_gate_text = private constant [44 x i8] c"native call: expected one address, an int  \\00"

declare i64 @PyLong_AsSsize_t(ptr) nounwind
declare ptr @PyLong_FromLongLong(i64) nounwind
declare ptr @PyErr_Occurred() nounwind
declare void @PyErr_SetString(ptr, ptr) nounwind
declare ptr @PyEval_SaveThread() nounwind
declare void @PyEval_RestoreThread(ptr) nounwind

define ptr @weft_gate_one(ptr %self, ptr %args, i64 %count) nounwind {
  %one = icmp eq i64 %count, 1
  br i1 %one, label %read, label %wrong
wrong:
  %type = load ptr, ptr @PyExc_TypeError
  call void @PyErr_SetString(ptr %type, ptr @weft_gate_text)
  ret ptr null
read:
  %first = load ptr, ptr %args
  %address = call i64 @PyLong_AsSsize_t(ptr %first)
  %suspect = icmp eq i64 %address, -1
  br i1 %suspect, label %check, label %go
check:
  %error = call ptr @PyErr_Occurred()
  %fine = icmp eq ptr %error, null
  br i1 %fine, label %go, label %fail
fail:
  ret ptr null
go:
  %code = call i64 @PyLong_AsSsize_t(ptr %self)
  %entry = inttoptr i64 %code to ptr
  %frame = inttoptr i64 %address to ptr
  %thread = call ptr @PyEval_SaveThread()
  %status = call i64 %entry(ptr %frame)
  call void @PyEval_RestoreThread(ptr %thread)
  %result = call ptr @PyLong_FromLongLong(i64 %status)
  ret ptr %result
}

define ptr @weft_gate_bound(ptr %self, ptr %unused) nounwind {
  %address = call i64 @PyLong_AsSsize_t(ptr %self)
  %pair = inttoptr i64 %address to ptr
  %second = getelementptr i8, ptr %pair, i64 8
  %entry = load ptr, ptr %pair
  %frame = load ptr, ptr %second
  %thread = call ptr @PyEval_SaveThread()
  %status = call i64 %entry(ptr %frame)
  call void @PyEval_RestoreThread(ptr %thread)
  %result = call ptr @PyLong_FromLongLong(i64 %status)
  ret ptr %result
}
"""


class MethodDef(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("meth", ctypes.c_void_p), ("flags", ctypes.c_int), ("doc", ctypes.c_char_p)]


class NativeCaller:
    """Makes callables for native entries of type `i64 entry(ptr frame)`. One per process; lives as long as it.

    The result of a call is the entry's status as an int: 0, or the number of the node whose bounds check failed.
    The entry runs without the GIL. Each callable keeps `owner` (the Library of the entry, and whatever else must
    stay) alive; the memory behind a frame address is the caller's to keep until the call returns.
    """

    def __init__(self, gate: Library | None) -> None:
        """gate: the loaded GATE_IR, or None to go through ctypes (slower; for interpreters without the C-API)."""
        self._gate = gate
        self._definitions: dict[str, MethodDef] = {}
        if gate is not None:
            self._definitions = {
                "one": MethodDef(b"native_call", gate["weft_gate_one"], METH_FASTCALL, None),
                "bound": MethodDef(b"native_call", gate["weft_gate_bound"], METH_NOARGS, None),
            }

    def callable(self, entry: int, owner: object) -> Callable[[int], int]:
        """`call(frame_address) -> status` for the native function at address `entry`."""
        if self._gate is None:
            function = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p)(entry)
            return _Kept(function, owner)
        return self._builtin("one", entry, _Owner(owner, self))

    def bound(self, entry: int, frame: int, owner: object) -> Callable[[], int]:
        """`call() -> status`, with the frame's address fixed. `owner` should hold the frame's memory too."""
        if self._gate is None:
            function = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p)(entry)
            return _Kept(function, owner, frame)
        pair = (ctypes.c_int64 * 2)(entry, frame)
        return self._builtin("bound", ctypes.addressof(pair), _Owner(owner, self, pair))

    def _builtin(self, kind: str, self_value: int, kept: object) -> Callable[..., int]:
        make = new_builtin()
        definition = ctypes.addressof(self._definitions[kind])
        # The third argument is only shown as __module__; the builtin holds a reference to it, which keeps `kept` alive.
        builtin: Callable[..., int] = make(definition, self_value, kept)
        return builtin


class _Owner:
    """What a builtin keeps alive. It sits in the builtin's `__module__`, so it prints as a module's name would."""

    __slots__ = ("kept",)

    def __init__(self, *kept: object) -> None:
        self.kept = kept

    def __str__(self) -> str:
        return "weft"


class _Kept:
    """A ctypes function with its leading arguments and the owner of its code."""

    __slots__ = ("arguments", "function", "owner")

    def __init__(self, function: Callable[..., int], owner: object, *arguments: int) -> None:
        self.function, self.owner, self.arguments = function, owner, arguments

    def __call__(self, *rest: int) -> int:
        if len(self.arguments) + len(rest) != 1 or any(not isinstance(r, int) for r in rest):
            raise TypeError("native call: expected one address, an int")
        return self.function(*self.arguments, *rest)


def has_gate() -> bool:
    """Whether this interpreter can make builtins at run time."""
    return sys.implementation.name == "cpython" and hasattr(ctypes, "pythonapi")


def new_builtin() -> Callable[[int, Any, Any], Callable[..., int]]:
    make = ctypes.pythonapi.PyCFunction_NewEx
    make.restype = ctypes.py_object
    make.argtypes = (ctypes.c_void_p, ctypes.py_object, ctypes.py_object)
    return make

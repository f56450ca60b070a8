"""A profile function in native code: it drops the events that a Python profile function would return from at once, and
calls that for the others.

An event costs some 350 ns in Python and 20 here, and a call of an operator makes a dozen. It uses C-API functions only,
no struct layouts.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from weft.runtime.engine import Library
from weft.runtime.native_call import METH_NOARGS, MethodDef, new_builtin

PROFILE_EXPORTS = ("weft_profile_install", "weft_profile_register")

_THREADS = 16  # that may capture at the same time with a filter
_SLOTS = 1 << 14  # of the table of codes and classes
_EVENTS = ("call", "exception", "line", "return", "c_call")
_WATCHES_ALL, _TABLE, _TEXTS = 0, 1, 2  # words of a state

# state: whether all events are wanted; the table of codes and classes that are left out; texts by number of the event.
# Events from number 5 on (a C function has returned) are wanted by nobody.
PROFILE_IR = f"""
@weft_profile_states = internal global [{2 * _THREADS} x ptr] zeroinitializer
@_Py_NoneStruct = external global i8

declare ptr @PyFrame_GetCode(ptr) nounwind
declare ptr @PyObject_Type(ptr) nounwind
declare ptr @PyObject_CallFunctionObjArgs(ptr, ...) nounwind
declare void @PyEval_SetProfile(ptr, ptr) nounwind
declare i64 @PyLong_AsSsize_t(ptr) nounwind
declare void @Py_IncRef(ptr) nounwind
declare void @Py_DecRef(ptr) nounwind

define internal ptr @place_of(ptr %hook) nounwind {{
entry:
  br label %look
look:
  %i = phi i64 [0, %entry], [%next, %more]
  %place = getelementptr ptr, ptr @weft_profile_states, i64 %i
  %one = load ptr, ptr %place
  %same = icmp eq ptr %one, %hook
  br i1 %same, label %done, label %more
more:
  %next = add i64 %i, 2
  %left = icmp ult i64 %next, {2 * _THREADS}
  br i1 %left, label %look, label %none
none:
  ret ptr null
done:
  ret ptr %place
}}

define internal i1 @is_left_out(ptr %state, ptr %object) nounwind {{
entry:
  %at = getelementptr ptr, ptr %state, i64 {_TABLE}
  %table = load ptr, ptr %at
  %number = ptrtoint ptr %object to i64
  %mixed = mul i64 %number, -7046029254386353131
  %high = lshr i64 %mixed, 40
  br label %look
look:
  %h = phi i64 [%high, %entry], [%next, %more]
  %slot = and i64 %h, {_SLOTS - 1}
  %place = getelementptr ptr, ptr %table, i64 %slot
  %one = load ptr, ptr %place
  %same = icmp eq ptr %one, %object
  br i1 %same, label %yes, label %other
other:
  %empty = icmp eq ptr %one, null
  br i1 %empty, label %no, label %more
more:
  %next = add i64 %h, 1
  br label %look
yes:
  ret i1 true
no:
  ret i1 false
}}

define i32 @weft_profile_filter(ptr %hook, ptr %frame, i32 %what, ptr %arg) nounwind {{
entry:
  %late = icmp sge i32 %what, {len(_EVENTS)}
  br i1 %late, label %quiet, label %find
find:
  %place = call ptr @place_of(ptr %hook)
  %unknown = icmp eq ptr %place, null
  br i1 %unknown, label %quiet, label %known
known:
  %beside = getelementptr ptr, ptr %place, i64 1
  %state = load ptr, ptr %beside
  %all = load ptr, ptr %state
  %some = icmp eq ptr %all, null
  br i1 %some, label %ask, label %tell
ask:
  %code = call ptr @PyFrame_GetCode(ptr %frame)
  call void @Py_DecRef(ptr %code)
  %own = call i1 @is_left_out(ptr %state, ptr %code)
  br i1 %own, label %mine, label %tell
mine:
  %returns = icmp eq i32 %what, 3
  br i1 %returns, label %result, label %quiet
result:
  %raised = icmp eq ptr %arg, null
  br i1 %raised, label %quiet, label %kind
kind:
  %class = call ptr @PyObject_Type(ptr %arg)
  call void @Py_DecRef(ptr %class)
  %plain = call i1 @is_left_out(ptr %state, ptr %class)
  br i1 %plain, label %quiet, label %tell
tell:
  %index = sext i32 %what to i64
  %shifted = add i64 %index, {_TEXTS}
  %where = getelementptr ptr, ptr %state, i64 %shifted
  %text = load ptr, ptr %where
  %nothing = icmp eq ptr %arg, null
  %shown = select i1 %nothing, ptr @_Py_NoneStruct, ptr %arg
  %answer = call ptr (ptr, ...) @PyObject_CallFunctionObjArgs(ptr %hook, ptr %frame, ptr %text, ptr %shown, ptr null)
  %failed = icmp eq ptr %answer, null
  br i1 %failed, label %fail, label %fine
fail:
  call void @PyEval_SetProfile(ptr null, ptr null)
  ret i32 -1
fine:
  call void @Py_DecRef(ptr %answer)
  ret i32 0
quiet:
  ret i32 0
}}

define ptr @weft_profile_install(ptr %self, ptr %unused) nounwind {{
  %address = call i64 @PyLong_AsSsize_t(ptr %self)
  %hook = inttoptr i64 %address to ptr
  call void @PyEval_SetProfile(ptr @weft_profile_filter, ptr %hook)
  call void @Py_IncRef(ptr @_Py_NoneStruct)
  ret ptr @_Py_NoneStruct
}}

define i64 @weft_profile_register(ptr %old, ptr %new, ptr %state) nounwind {{
  %place = call ptr @place_of(ptr %old)
  %full = icmp eq ptr %place, null
  br i1 %full, label %none, label %put
none:
  ret i64 0
put:
  %beside = getelementptr ptr, ptr %place, i64 1
  store ptr %state, ptr %beside
  store ptr %new, ptr %place
  ret i64 1
}}
"""


def can_filter() -> bool:
    """Whether the interpreter has the C-API that the filter calls, and one lock for all threads."""
    return sys.implementation.name == "cpython" and getattr(sys, "_is_gil_enabled", lambda: True)()


class ProfileFilter:
    """The filter in front of one profile function. While it `watches_all`, nothing is dropped."""

    def __init__(self, hook: Callable[..., Any], library: Library) -> None:
        """Raises RuntimeError where too many threads have one."""
        self._library, self._hook = library, id(hook)  # (no reference: the interpreter has one while it calls it)
        self._kept: list[object] = []  # whose addresses are in the table
        self._table = np.zeros(_SLOTS, np.uint64)
        self._texts = tuple(map(sys.intern, _EVENTS))
        self._state = np.array([0, self._table.ctypes.data, *map(id, self._texts)], np.uint64)
        register = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)
        self._register = register(library["weft_profile_register"])
        if not self._register(None, self._hook, self._state.ctypes.data):
            raise RuntimeError("too many threads have a filter of profile events")
        self._definition = MethodDef(b"install", library["weft_profile_install"], METH_NOARGS, None)
        self.install: Callable[[], object] = new_builtin()(ctypes.addressof(self._definition), self._hook, "weft")

    @property
    def watches_all(self) -> bool:
        return bool(self._state[_WATCHES_ALL])

    @watches_all.setter
    def watches_all(self, value: bool) -> None:
        self._state[_WATCHES_ALL] = value

    def leave_out(self, thing: object) -> None:
        """Drop events of frames with this code; and of such frames that return an object of this class."""
        if len(self._kept) >= _SLOTS // 2:
            return
        number = id(thing)
        at = (number * 11400714819323198485 % (1 << 64)) >> 40
        while self._table[at & (_SLOTS - 1)]:
            if self._table[at & (_SLOTS - 1)] == number:
                return
            at += 1
        self._kept.append(thing)
        self._table[at & (_SLOTS - 1)] = number

    def close(self) -> None:
        """Its profile function is not called any more."""
        self._register(self._hook, None, None)

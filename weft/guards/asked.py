"""What Python answers from state that no attribute leads to: questions without arguments, which guards ask again, and
objects written in C, with what tells their content."""

from __future__ import annotations

import builtins
import contextvars
import datetime
import functools
import io
import operator
import re
import signal
import struct
import sys
import threading
import types
import warnings
import weakref
from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np

from weft.guards.values import MISSING, same

Question = Callable[[], Any]


# ---- questions
def _all_of(module: str, names: str) -> dict[tuple[str, str], None]:
    return dict.fromkeys([(module, name) for name in names.split()])


def _locale() -> Any:
    import locale

    return locale.setlocale(locale.LC_ALL), locale.localeconv()


def _handlers() -> Any:
    return [signal.getsignal(number) for number in sorted(signal.valid_signals())]


def _filters() -> Any:
    return list(warnings.filters)


# by module and name of the function that is called; None: the function itself is asked, without arguments
QUESTIONS: Final[Mapping[tuple[str, str], Question | None]] = {
    **_all_of(
        "sys",
        "getrecursionlimit getswitchinterval get_int_max_str_digits gettrace getdlopenflags get_asyncgen_hooks "
        "get_coroutine_origin_tracking_depth",
    ),
    **_all_of("gc", "get_threshold get_debug get_freeze_count"),
    **_all_of("threading", "active_count enumerate current_thread main_thread getprofile gettrace"),
    **_all_of("_thread", "get_ident get_native_id _count stack_size"),
    **_all_of("posix", "getcwd getcwdb getpid getppid getuid geteuid getgid getegid getpgrp cpu_count getgroups"),
    **_all_of("nt", "getcwd getcwdb getpid getppid cpu_count"),
    **_all_of("faulthandler", "is_enabled"),
    **_all_of("_tracemalloc", "is_tracing get_traceback_limit"),
    ("_locale", "setlocale"): _locale,
    ("_locale", "localeconv"): _locale,
    ("_signal", "getsignal"): _handlers,
    ("signal", "getsignal"): _handlers,
    ("_warnings", "warn"): _filters,
    ("_warnings", "warn_explicit"): _filters,
    ("warnings", "warn"): _filters,
    **{
        (getattr(f, "__globals__", {}).get("__name__", ""), f.__name__): f
        for f in (np.geterr, np.geterrcall, np.getbufsize, np.get_printoptions)
    },
}


def _decimal() -> Any:
    context = sys.modules["decimal"].getcontext()
    return (
        context.prec, context.rounding, context.Emin, context.Emax, context.capitals, context.clamp, dict(context.traps)
    )


def _variable_of(question: Any, name: str) -> Question | None:
    """What reads the context variable behind a question, cheaply; None where there is none."""
    variable = getattr(sys.modules.get(getattr(question, "__module__", "")), name, None)
    variable = getattr(question, "__globals__", {}).get(name, variable)
    return variable.get if isinstance(variable, contextvars.ContextVar) else None


# by the module whose functions and objects compute by it: questions, and what stays the same object while the answer
# is the same
AMBIENT: Final[Mapping[str, tuple[tuple[str, Question, Question | None], ...]]] = {
    "decimal": (("the decimal context", _decimal, None),),
    "numpy": (
        ("np.geterr()", np.geterr, _variable_of(np.geterr, "_extobj_contextvar")),
        ("np.get_printoptions()", np.get_printoptions, _variable_of(np.get_printoptions, "format_options")),
    ),
}


def settings_now() -> dict[Question, Any]:
    """The answers to questions whose answers a function may change for a while (`with np.errstate(...)`)."""
    asked = [ask for name, questions in AMBIENT.items() if name in sys.modules for _, ask, _ in questions]
    return {ask: ask() for ask in (*asked, _filters)}


def module_of(value: Any) -> str:
    """The module that a value belongs to, or is: the first part of its name."""
    name = value.__name__ if type(value) is types.ModuleType else getattr(value, "__module__", None)
    return name.partition(".")[0] if isinstance(name, str) else ""


def same_answer(old: Any, new: Any, equal: tuple[type, ...] = ()) -> bool:
    """Whether two answers are equal: plain values and containers of them by value, all else by identity."""
    if old is new:
        return True
    if type(old) is not type(new):
        return False
    if isinstance(old, (list, tuple)):
        return len(old) == len(new) and all([same_answer(a, b, equal) for a, b in zip(old, new, strict=True)])
    if isinstance(old, dict):
        return (
            list(old) == list(new)
            and all([same_answer(a, b, equal) for a, b in zip(old.values(), new.values(), strict=True)])
        )
    if isinstance(old, types.BuiltinMethodType):
        return bool(old == new)
    return same(old, new, equal)


# ---- objects written in C
_FIXED: Final = (  # what they are is all there is to know, or others watch it
    object, np.ufunc, np.dtype, np.generic, re.Pattern, re.Match, struct.Struct, datetime.date, datetime.time,
    datetime.timedelta, datetime.tzinfo, operator.attrgetter, operator.itemgetter, operator.methodcaller, property,
    staticmethod, classmethod, types.CodeType, types.GenericAlias, types.GetSetDescriptorType,
    types.MemberDescriptorType, types.MethodDescriptorType, types.ClassMethodDescriptorType,
    types.WrapperDescriptorType, types.UnionType, types.FrameType, types.TracebackType, BaseException,
    io.TextIOBase, io.RawIOBase, io.BufferedIOBase, contextvars.Token, types.CoroutineType,
    types.AsyncGeneratorType, threading.local, functools.partial, types.SimpleNamespace,
)
# which count as iterators, but are more than that
IN_MEMORY: Final = (io.StringIO, io.BytesIO, weakref.ProxyType, weakref.CallableProxyType)
_MAY_CHANGE: Final = (*IN_MEMORY, types.CellType, super, type(np.zeros(0).flags))
_FIXED_MODULES: Final = frozenset(str.split("decimal typing _abc _ctypes zoneinfo _operator _functools numpy"))
# Python's own classes that have no name in builtins (3.10 to 3.13). Extension modules may have classes that say the
# same module: these are not among them.
_UNNAMED: Final = frozenset(str.split(
    "EncodingMap FrameLocalsProxy InstructionSequence InterpreterID NoDefaultType NoneType NotImplementedType "
    "PyCapsule UnraisableHookArgs _buffer_wrapper anext_awaitable async_generator async_generator_asend "
    "async_generator_athrow async_generator_wrapped_value asyncgen_hooks builtin_function_or_method "
    "builtin_method bytearray_iterator bytes_iterator callable_iterator cell classmethod_descriptor code "
    "coroutine coroutine_wrapper dict_itemiterator dict_items dict_keyiterator dict_keys "
    "dict_reverseitemiterator dict_reversekeyiterator dict_reversevalueiterator dict_valueiterator dict_values "
    "ellipsis entry fieldnameiterator formatteriterator frame function generator generic_alias_iterator "
    "getset_descriptor hamt hamt_array_node hamt_bitmap_node hamt_collision_node instancemethod items iterator "
    "keys line_iterator list_iterator list_reverseiterator longrange_iterator managedbuffer mappingproxy "
    "member_descriptor memory_iterator method method-wrapper method_descriptor module moduledef odict_items "
    "odict_iterator odict_keys odict_values positions_iterator range_iterator set_iterator stderrprinter "
    "str_ascii_iterator str_iterator symtable traceback tuple_iterator values wrapper_descriptor"
))
_LOCKS: Final = (type(threading.Lock()), type(threading.RLock()))


def solid_class(cls: type) -> type:
    """The first class behind one that is written in C."""
    return next(c for c in cls.__mro__ if is_from_c(c))


def is_from_c(cls: type) -> bool:
    """Whether a class is written in C: no class statement made it."""
    if not cls.__flags__ & 1 << 9 or cls.__flags__ & 1 << 8:  # Py_TPFLAGS_HEAPTYPE, Py_TPFLAGS_IMMUTABLETYPE
        return True
    return not cls.__dictoffset__ and "__slots__" not in cls.__dict__


def is_fixed(cls: type) -> bool:
    """Whether objects of a class written in C have nothing that could change unseen."""
    if issubclass(cls, _MAY_CHANGE) or (cls.__module__ == "decimal" and cls.__name__ == "Context"):
        return False
    if cls is object or issubclass(cls, _FIXED[1:]):
        return True
    if cls.__module__ == "builtins":
        return getattr(builtins, cls.__name__, None) is cls or cls.__name__ in _UNNAMED
    return (cls.__module__ or "").partition(".")[0] in _FIXED_MODULES


def content_of(value: Any) -> Any:
    """What an object written in C holds, as a value to compare; MISSING where nobody can tell."""
    try:
        if isinstance(value, (io.StringIO, io.BytesIO)):
            return value.getvalue(), value.tell()
        if isinstance(value, contextvars.Context):
            return dict(value.items())
        if isinstance(value, _LOCKS):
            return repr(value).split()[0]
        kind = type(value)
        if kind is solid_class(kind):
            state = value.__reduce_ex__(4)
            return state if same_answer(state, value.__reduce_ex__(4)) else MISSING
    except Exception:  # whatever its class does to refuse
        return MISSING
    return MISSING


def put_back(value: Any, content: Any) -> None:
    """Let an object written in C hold what `content_of` said, where its class has a way to be told."""
    if isinstance(value, (io.StringIO, io.BytesIO)):
        text, place = content
        value.seek(0)
        value.truncate()
        value.write(text)
        value.seek(place)


def is_buffer(value: Any) -> bool:
    """Whether the object shows memory: ctypes values, mmap."""
    if type(value).__module__ in ("numpy", "builtins") or solid_class(type(value)) is object:
        return False
    try:
        memoryview(value).release()
    except (TypeError, ValueError, BufferError):
        return False
    return True



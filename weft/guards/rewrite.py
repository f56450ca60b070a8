"""Functions that see other values behind some global names while a call is observed: their bytecode loads constants in
place of those globals, and their functions have that code for as long.

Nothing else is touched: no module, no builtin, no frame that runs already. What is loaded instead must act like the
original for all but the observed call's own symbols, since other threads that call the same functions run it too.
Instructions keep their offsets, and so their lines; CPython 3.10 to 3.14.
"""

from __future__ import annotations

import dis
import gc
import sys
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import CodeType, FrameType, FunctionType
from typing import Any, Final
from weakref import WeakSet

from weft.support.interrupts import to_the_end

Scope = Mapping[str, Any]
Instructions = list[tuple[str, int]]  # operations with their arguments
_UNIT: Final = 2  # bytes of an instruction
_IS_NULL_FIRST: Final = sys.version_info < (3, 13)  # where a call's empty place lies below the callable
_MISSING: Final = object()


@dataclass(frozen=True)
class Substitutes:
    """What is loaded in place of globals, by the identity of the global's value.

    values: functions and what stands for them; modules: a module, what stands for it, and the attributes for which
    it does; called: types and what stands for them where they are called.
    """

    values: Mapping[int, Any] = field(default_factory=dict)
    modules: Mapping[int, tuple[Any, frozenset[str]]] = field(default_factory=dict)
    called: Mapping[int, Any] = field(default_factory=dict)

    def is_loaded_by(self, code: CodeType, scope: Scope, builtins: Scope) -> bool:
        """Whether the code itself (not what is nested in it) loads one of them, as it was written."""
        return next(_sites(code, scope, builtins, self), None) is not None


class _Original:
    """The last constant of rewritten code: the code as it was written."""

    __slots__ = ("code",)

    def __init__(self, code: CodeType) -> None:
        self.code = code


def original(code: CodeType) -> CodeType:
    """The code as it was written."""
    last = code.co_consts[-1] if code.co_consts else None
    return last.code if type(last) is _Original else code


# ---- code
def rewritten(code: CodeType, scope: Scope, builtins: Scope, substitutes: Substitutes) -> CodeType:
    """The code, and what is nested in it, with substitutes in their places; the same object if it loads none."""
    consts = [
        rewritten(c, scope, builtins, substitutes) if isinstance(c, CodeType) else c for c in code.co_consts
    ]
    is_changed = any(new is not old for new, old in zip(consts, code.co_consts, strict=True))
    raw = bytearray(code.co_code)
    for start, end, value, has_null in _sites(code, scope, builtins, substitutes):
        load = [("LOAD_CONST", len(consts))]
        null = [("PUSH_NULL", 0)] if has_null else []
        units = _assemble(null + load if _IS_NULL_FIRST else load + null, (end - start) // _UNIT)
        if units is not None:
            raw[start:end] = units
            consts.append(value)
            is_changed = True
    return code.replace(co_code=bytes(raw), co_consts=(*consts, _Original(code))) if is_changed else code


def _assemble(instructions: Instructions, room: int) -> bytes | None:
    """The instructions in so many units, filled up with NOP; None if they need more."""
    units: list[int] = []
    for name, argument in instructions:
        for shift in (24, 16, 8):
            if argument >> shift:
                units += [dis.opmap["EXTENDED_ARG"], argument >> shift & 255]
        units += [dis.opmap[name], argument & 255]
    missing = room - len(units) // _UNIT
    return bytes(units + [dis.opmap["NOP"], 0] * missing) if missing >= 0 else None


def _sites(
    code: CodeType, scope: Scope, builtins: Scope, substitutes: Substitutes
) -> Iterator[tuple[int, int, Any, bool]]:
    """Where the code loads what is substituted: from and to which byte, what instead, and whether the empty place
    of a call is pushed too."""
    if original(code) is not code:
        return
    named = {name: scope.get(name, builtins.get(name, _MISSING)) for name in code.co_names}
    substituted = {*substitutes.values, *substitutes.modules, *substitutes.called}
    if not any(id(value) in substituted for value in named.values()) and not _imports(code, substitutes):
        return
    steps = _with_extent(code)
    for i, (ins, start, end) in enumerate(steps):
        if ins.opname == "LOAD_GLOBAL":
            value = named[ins.argval]
            after = steps[i + 1][0] if i + 1 < len(steps) else ins
            has_null = sys.version_info >= (3, 11) and bool((ins.arg or 0) & 1)
            instead = substitutes.values.get(id(value), _MISSING)
            if instead is _MISSING and id(value) in substitutes.called and (has_null or _is_called(steps, i)):
                instead = substitutes.called[id(value)]
            module, attributes = substitutes.modules.get(id(value), (None, frozenset()))
            if after.opname in ("LOAD_ATTR", "LOAD_METHOD") and after.argval in attributes:
                instead = module
            if instead is not _MISSING:
                yield start, end, instead, has_null
        elif ins.opname == "IMPORT_NAME" and i >= 2 and not (ins.is_jump_target or steps[i - 1][0].is_jump_target):
            module, _ = substitutes.modules.get(id(sys.modules.get(ins.argval)), (None, None))
            if module is not None and all(step[0].opname in _CONSTANTS for step in steps[i - 2 : i]):
                yield steps[i - 2][1], end, module, False  # (its level and its names are constants, loaded before)


def _is_called(steps: list[tuple[dis.Instruction, int, int]], i: int) -> bool:
    """Whether what an instruction loads is called, before CPython 3.11, where the instruction does not say so: the one
    that takes it from the stack is a call with as many arguments as lie above it. (Not behind a jump.)"""
    if sys.version_info >= (3, 11):
        return False
    above = 0
    for ins, _, _ in steps[i + 1 :]:
        if ins.opcode in dis.hasjrel or ins.opcode in dis.hasjabs:
            return False
        effect = dis.stack_effect(ins.opcode, ins.arg)
        taken = (2 if ins.opname == "LOAD_METHOD" else 1) - effect  # all that expressions have push one value, or less
        if taken > above:
            return ins.opname.startswith("CALL_FUNCTION") and taken == above + 1
        above += effect
    return False


_CONSTANTS: Final = ("LOAD_CONST", "LOAD_SMALL_INT")


def _imports(code: CodeType, substitutes: Substitutes) -> bool:
    """Whether a module that is substituted may be imported in the code."""
    return any(id(sys.modules.get(name)) in substitutes.modules for name in code.co_names if name in sys.modules)


def _with_extent(code: CodeType) -> list[tuple[dis.Instruction, int, int]]:
    """Each instruction with its first byte, prefixes included, and the byte behind it and its inline caches."""
    starts: list[tuple[dis.Instruction, int]] = []
    start: int | None = None
    for ins in dis.get_instructions(code):
        start = ins.offset if start is None else start
        if ins.opname != "EXTENDED_ARG":
            starts.append((ins, start))
            start = None
    ends = [first for _, first in starts[1:]] + [len(code.co_code)]
    return [(ins, first, end) for (ins, first), end in zip(starts, ends, strict=True)]


# ---- functions
def functions_with(codes: Iterable[CodeType]) -> list[FunctionType]:
    """All functions alive that have one of these codes, or make functions that have it."""
    codes = list(codes)
    wanted = {id(code) for code in codes}
    verdicts: dict[int, bool] = {}

    def has(code: CodeType) -> bool:
        verdict = verdicts.get(id(code))
        if verdict is None:
            verdict = id(code) in wanted or any([has(c) for c in code.co_consts if type(c) is CodeType])
            verdicts[id(code)] = verdict
        return verdict

    alive = {id(each): each for each in gc.get_objects() if type(each) is FunctionType and has(original(each.__code__))}
    alive.update((id(each), each) for code in codes for each in _hidden.get(id(original(code)), ()))
    return list(alive.values())


def note_functions(frame: FrameType) -> None:
    """Where `gc.freeze()` hides objects from a search: remember the functions with the code that runs on a frame, as
    far as its module and its caller name them."""
    if not gc.get_freeze_count():
        return
    code, caller = original(frame.f_code), frame.f_back
    named = [*frame.f_globals.values(), *(caller.f_locals.values() if caller is not None else ())]
    named += [member for each in named if isinstance(each, type) for member in vars(each).values()]
    for value in named:
        function = getattr(value, "__func__", getattr(value, "__wrapped__", value))
        if type(function) is FunctionType and original(function.__code__) is code:
            _hidden.setdefault(id(code), WeakSet()).add(function)


_hidden: dict[int, WeakSet[FunctionType]] = {}  # by the id of their code


def functions_running(code: CodeType) -> list[FunctionType]:
    """All functions alive with this code, rewritten or not."""
    alive = {id(each): each for each in (*gc.get_referrers(code), *_hidden.get(id(original(code)), ()))}
    functions = [each for each in alive.values() if isinstance(each, FunctionType) and each.__code__ is code]
    with _lock:
        return functions + [exchange.function for exchange in _exchanges.values() if exchange.before is code]


@dataclass(eq=False)
class _Exchange:
    function: FunctionType
    before: CodeType
    after: CodeType
    depth: int = 0


_lock = threading.Lock()
_exchanges: dict[int, _Exchange] = {}  # by id(function)


@contextmanager
def with_substitutes(functions: Iterable[FunctionType], substitutes: Substitutes) -> Iterator[None]:
    """Within the block the functions load substitutes. Blocks of several threads may overlap."""
    held: list[_Exchange] = []
    try:
        for function in functions:
            _begin(function, substitutes, held)
        yield
    finally:
        to_the_end(lambda: _end(held))


def _begin(function: FunctionType, substitutes: Substitutes, held: list[_Exchange]) -> None:
    with _lock:
        exchange = _exchanges.get(id(function))
        if exchange is None:
            before = function.__code__
            scopes: Any = function  # (type stubs differ on what a function has)
            after = rewritten(before, scopes.__globals__, scopes.__builtins__, substitutes)
            if after is before:
                return
            exchange = _exchanges[id(function)] = _Exchange(function, before, after)
            function.__code__ = after
        exchange.depth += 1
        held.append(exchange)


def _end(held: list[_Exchange]) -> None:
    with _lock:
        while held:
            exchange = held[-1]
            if exchange.depth == 1:
                if exchange.function.__code__ is exchange.after:  # what someone else put there stays
                    exchange.function.__code__ = exchange.before
                _exchanges.pop(id(exchange.function), None)
            exchange.depth -= 1
            held.pop()

"""What calls in a loop's body give that is followed instruction by instruction (steady.py): functions and modules of
the user's are followed too, operators and layers give data."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dis import Instruction
from inspect import getattr_static
from itertools import islice
from types import CodeType, FunctionType, MethodType
from typing import Any, Protocol

from weft.guards.rewrite import original
from weft.record.numbers.sym_float import SymFloat
from weft.record.repeats.for_statement import Unsteady
from weft.record.repeats.objects import PLAIN_ACCESS, computed, function_of, is_number, is_users
from weft.record.repeats.tables import function_of_lifted
from weft.record.repeats.values import DATA, RESULT, Data, Item, Items, Known, Number, is_numeric
from weft.support import registry
from weft.support.locations import is_internal
from weft.tensor.modes import enable_grad, no_grad
from weft.types.sym import SymInt

_DEPTH = 8  # of the user's functions in each other
_MOST = 20_000  # items
_PURE = frozenset(map(id, (
    len, abs, min, max, float, int, bool, round, divmod, pow,
    *[f for f in vars(math).values() if callable(f)],
)))  # fmt: skip
_OF_ITEMS = frozenset(map(id, (len, range, zip, enumerate, reversed)))
GRAD_MODES = (no_grad, enable_grad)  # which do nothing when they are made, and let no error pass
_OF_SIZES = ("+", "-", "*")  # which ask nothing of sizes
_OF_LIFTED = ("+", "-", "*", "/")
_FACTORIES = "weft.layers.factories"
# CPython 3.10 has an instruction for each operator.
_OLDER_NAMES = {
    "ADD": "+", "SUBTRACT": "-", "MULTIPLY": "*", "MATRIX_MULTIPLY": "@", "TRUE_DIVIDE": "/", "FLOOR_DIVIDE": "//",
    "MODULO": "%", "POWER": "**", "LSHIFT": "<<", "RSHIFT": ">>", "AND": "&", "OR": "|", "XOR": "^",
}
OLDER_SIGNS = {f"BINARY_{name}": sign for name, sign in _OLDER_NAMES.items()}
OLDER_SIGNS |= {f"INPLACE_{name}": f"{sign}=" for name, sign in _OLDER_NAMES.items()}


class Following(Protocol):
    """The code that a call stands in."""

    within: tuple[CodeType, ...]

    def items(self, value: Any) -> Items:
        """An iterator over what a value has."""

    def argument(self, value: Any) -> Any:
        """A value that is data, the same object always, or a number of the index."""

    def take(self, ins: Instruction, values: Sequence[Any]) -> None:
        """Data, and numbers of the index, are the operands of an operator."""

    def plain(self, value: Any) -> None:
        """Raises Unsteady for what is neither data nor a plain value or tensor."""

    def follow_function(
        self, code: CodeType, names: dict[str, Any], cells: Mapping[str, Any], scope: Mapping[str, Any]
    ) -> Any:
        """What a function of the user's returns."""


def result_of(
    code: Following, ins: Instruction, callee: Any, arguments: list[Any], named: dict[str, Any]
) -> Any:
    """What a call gives. callee: what is called; arguments, named: what stands for its arguments."""
    if isinstance(callee, MethodType):
        arguments, callee = [Known(callee.__self__), *arguments], callee.__func__
    if registry.is_module(callee):
        return _of_module(code, callee, arguments, named)
    if type(callee) is type and callee in GRAD_MODES and not (arguments or named):
        return Known(callee())
    is_function = type(callee) is FunctionType
    if is_function and not is_internal(original(callee.__code__).co_filename):
        return _of_function(code, callee, arguments, named)
    is_operator = is_function and (hasattr(callee, "packet") or callee.__module__ == _FACTORIES)
    if id(callee) in _OF_ITEMS and not named:
        return _of_items(code, callee, arguments)
    if not is_operator and id(callee) not in _PURE:
        raise Unsteady
    if not is_operator and not named and all(map(is_numeric, arguments)) and Number in map(type, arguments):
        return number_of(callee, arguments)
    if is_operator:
        code.take(ins, arguments)
    else:
        for value in arguments:
            code.plain(value)
    for value in named.values():
        code.plain(value)
    return RESULT


def combined(sign: str, a: Any, b: Any) -> Any:
    """What an operator gives for two numbers; None where one is none, or the result is data. Raises Unsteady."""
    if not (is_numeric(a) and is_numeric(b)):
        is_known = type(a) is Known and type(b) is Known and is_number(a.value) and is_number(b.value)
        return Known(computed(sign, a.value, b.value)) if is_known else None
    if Number in (type(a), type(b)):
        return number_of(function_of(sign), (a, b))
    kinds = {type(a.value), type(b.value)}
    if SymFloat in kinds:
        return Known(function_of(sign)(a.value, b.value)) if sign in _OF_LIFTED else None
    if SymInt not in kinds:
        return Known(computed(sign, a.value, b.value))
    return Known(function_of(sign)(a.value, b.value)) if sign in _OF_SIZES and float not in kinds else None


def number_of(function: Any, operands: Sequence[Any]) -> Number:
    """What a function gives for numbers, of which some are computed of the index. Raises Unsteady where it is not known
    of other iterations."""
    number = Number(function, tuple([v if type(v) is Number else v.value for v in operands]))
    if number.has_size and function not in map(function_of, _OF_SIZES):
        raise Unsteady
    if not number.is_lifted:
        return number
    of_lifted = function_of_lifted(function)
    if of_lifted is None or number.has_size:
        raise Unsteady
    return Number(of_lifted, number.args)


def _of_items(code: Following, function: Any, arguments: list[Any]) -> Any:
    """What a function of Python's makes of what has items."""
    if function is range:
        if not all(type(v) is Known and type(v.value) is int for v in arguments):
            raise Unsteady
        return Known(range(*[v.value for v in arguments]))
    if function is len and isinstance(arguments[0], Data):
        return RESULT
    parts = [tuple(islice(code.items(v).parts, _MOST)) for v in arguments]
    if any(len(each) == _MOST for each in parts):
        raise Unsteady
    if function is len:
        return Known(len(parts[0]))
    if function is reversed:
        return Items(parts[0][::-1])
    if function is zip:
        return Items(map(Item, zip(*parts, strict=False)))
    if len(parts) != 1:
        raise Unsteady
    return Items([Item((Known(i), part)) for i, part in enumerate(parts[0])])


def _of_function(body: Following, function: Any, arguments: list[Any], named: dict[str, Any]) -> Any:
    code = original(function.__code__)
    if len(body.within) >= _DEPTH or code in body.within or code.co_flags & 0x2AC:  # *args, generators, coroutines
        raise Unsteady
    count = code.co_argcount
    positions, only = code.co_varnames[:count], code.co_varnames[count : count + code.co_kwonlyargcount]
    defaults = function.__defaults__ or ()
    names: dict[str, Any] = {name: Known(v) for name, v in (function.__kwdefaults__ or {}).items()}
    names.update(zip(positions[count - len(defaults) :], map(Known, defaults), strict=True))
    names.update(zip(positions, arguments, strict=False))
    names.update(named)
    if len(arguments) > count or not names.keys() <= {*positions, *only} or len(names) != len(positions + only):
        raise Unsteady
    for value in names.values():
        body.argument(value)
    cells = {
        name: Known(cell.cell_contents)
        for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True)
    }
    return body.follow_function(code, names, cells, function.__globals__)


def _of_module(code: Following, module: Any, arguments: list[Any], named: dict[str, Any]) -> Any:
    for each in module.modules():
        kind = type(each)
        if any(v for k, v in vars(each).items() if k.endswith("_hooks")) or each._compiled_call is not None:
            raise Unsteady
        own = [getattr(kind, name).__code__ for name in ("__call__", "__getattr__", "modules", "named_modules")]
        if "forward" in vars(each) or not all(is_internal(code.co_filename) for code in own):
            raise Unsteady
        if getattr_static(kind, "__getattribute__") is not PLAIN_ACCESS:
            raise Unsteady
        if any(map(is_users, vars(each).values())):
            raise Unsteady
    if any(registry.hook_tables):
        raise Unsteady
    forward = type(module).forward
    if not is_internal(original(forward.__code__).co_filename):
        return _of_function(code, forward, [Known(module), *arguments], named)
    for value in (*arguments, *named.values()):
        code.plain(value)
    result = RESULT
    for each in module.modules():
        inner = type(each).forward
        if not is_internal(original(inner.__code__).co_filename):
            count = inner.__code__.co_argcount - 1 - len(inner.__defaults__ or ())
            _of_function(code, inner, [Known(each), *[DATA] * count], {})
            result = DATA  # (it may be what the user's gives, and that may be None)
    return result

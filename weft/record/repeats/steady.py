"""Whether iterations of a `for` statement differ by nothing but the tensors that they read and hand on: its body, and
the functions of the user's that it calls, are followed instruction by instruction with what their names stand for.

What is allowed leaves nothing behind in Python (no attribute, global, item or list but those that are looked at), and
asks nothing of the index: it selects rows of tensors, which the recorded calls show. Whatever else is met is refused;
the loop is then a loop of so many iterations.
"""

from __future__ import annotations

import builtins
import math
from collections.abc import Callable, Mapping, Sequence
from dis import Instruction
from inspect import getattr_static
from types import CodeType, FrameType, FunctionType, MethodType, ModuleType
from typing import Any, NamedTuple

from weft.guards.rewrite import original
from weft.ops.overrides import plain_kinds
from weft.record.numbers.sym_float import SymFloat
from weft.record.repeats.for_statement import ForStatement, Unsteady, instructions, is_late, is_method_load
from weft.support import registry
from weft.support.locations import is_internal
from weft.support.naming import is_own
from weft.tensor.capture import INDEX
from weft.tensor.size import Size
from weft.tensor.tensor import Tensor
from weft.types.dtype import DType
from weft.types.sym import SymInt

_DEPTH = 8  # of the user's functions in each other
_PLAIN = (int, float, bool, complex, str, type(None), type(Ellipsis), slice, DType, SymInt, SymFloat)
_PURE = frozenset(map(id, (
    len, abs, min, max, float, int, bool, round, divmod, pow,
    *[f for f in vars(math).values() if callable(f)],
)))  # fmt: skip
_FACTORIES = "weft.layers.factories"
_OF_CONTAINERS = frozenset((*dir(list), *dir(dict))) - set(dir(object)) - {"__add__", "__mul__"}
_IN_PLACE = "="
_PLAIN_ACCESS = getattr_static(object, "__getattribute__")


class _Data:
    """A tensor, a plain value, or tuples and lists of them that the code has just made."""


class _Null:
    """CPython's own marker beside a callable."""


class _Index(NamedTuple):
    """The number of the iteration, or one that differs from it by a constant."""


class _Collected(NamedTuple):
    """A list that results of iterations are appended to."""

    name: str


class _Known(NamedTuple):
    """An object that is the same one in every iteration."""

    value: Any


class _Method(NamedTuple):
    """A method of data, by its name."""

    name: str


class _Item(NamedTuple):
    """A tuple of the index and rows, as an iterator gives it."""

    parts: tuple[Any, ...]


_DATA, _INDEX, _NULL = _Data(), _Index(), _Null()


class Steady:
    """One look at a body. rows: where the index is used, by instruction of the statement's code."""

    def __init__(self) -> None:
        self.rows: list[int] = []
        self.indices: set[str] = set()

    def follow(self, statement: ForStatement, frame: FrameType, names: Mapping[str, Any], item: Any) -> None:
        """Follow the body of a statement. names: what the frame's local names stand for now; item: what its iterator
        gives (tensor/capture.py). Raises Unsteady."""
        stored, lists = statement.stored, statement.lists
        if lists & stored or any(type(names.get(name)) is not list for name in lists):
            raise Unsteady
        values: dict[str, Any] = {}
        for name, value in names.items():
            if name in lists:
                values[name] = _Collected(name)
            elif name not in stored:
                values[name] = _Known(value)
            elif _is_data(value):
                values[name] = _DATA
        cells = {name: _Known(names[name]) for name in (*frame.f_code.co_cellvars, *frame.f_code.co_freevars)
                 if name in names and name not in stored}
        _Code(self, statement.code, statement.body, values, cells, frame.f_globals, (), True).run([_of_item(item)])


class _Code:
    """Instructions that are followed: of a loop's body, or of a whole function."""

    def __init__(
        self, steady: Steady, code: CodeType, steps: Sequence[Instruction], names: dict[str, Any],
        cells: Mapping[str, Any], scope: Mapping[str, Any], within: tuple[CodeType, ...], is_body: bool,
    ) -> None:
        self.steady, self.code, self.steps, self.names, self.cells = steady, code, steps, names, cells
        self.scope, self.within, self.is_body = scope, within, is_body
        self.stack: list[Any] = []
        self.keywords: tuple[str, ...] = ()

    def run(self, stack: list[Any]) -> Any:
        """What it returns."""
        self.stack = stack
        for ins in self.steps:
            if ins.opname in ("RETURN_VALUE", "RETURN_CONST"):
                return self._data(self.pop()) if ins.opname == "RETURN_VALUE" else _Known(ins.argval)
            rule = _RULES.get(ins.opname)
            if rule is None:
                raise Unsteady(ins.opname)
            rule(self, ins)
        if not self.is_body or self.stack:
            raise Unsteady
        return None

    def pop(self) -> Any:
        """The top of the stack."""
        if not self.stack:
            raise Unsteady
        return self.stack.pop()

    def pops(self, count: int) -> list[Any]:
        """So many from the top, deepest first."""
        return [self.pop() for _ in range(count)][::-1]

    def _data(self, value: Any) -> Any:
        """A value that is data, or the same object always."""
        if value is _DATA or type(value) is _Known:
            return value
        raise Unsteady

    def plain(self, value: Any) -> None:
        """Raises Unsteady for what is neither data nor a plain value or tensor."""
        if value is not _DATA and not (type(value) is _Known and _is_data(value.value)):
            raise Unsteady

    # ---- names
    def load_local(self, ins: Instruction) -> None:
        """A local name; two of them in one instruction."""
        for name in ins.argval if isinstance(ins.argval, tuple) else (ins.argval,):
            if name not in self.names:
                raise Unsteady
            self.stack.append(self.names[name])

    def store_local(self, ins: Instruction) -> None:
        """Bind a local name. The index may have one of its own."""
        for name in ins.argval if isinstance(ins.argval, tuple) else (ins.argval,):
            value = self.pop()
            if value is _INDEX and self.is_body:
                self.steady.indices.add(name)
            else:
                value = self._data(_DATA if type(value) is _Item and not _has_index(value) else value)
            self.names[name] = value

    def load_global(self, ins: Instruction) -> None:
        """A global or builtin name."""
        if "NULL" in ins.argrepr:
            self.stack.append(_NULL)
        value = self.scope.get(ins.argval, getattr(builtins, ins.argval, _NULL))
        self.stack.append(_Known(value) if value is not _NULL else self.refuse())

    def load_cell(self, ins: Instruction) -> None:
        """A name of an outer function."""
        self.stack.append(self.cells[ins.argval] if ins.argval in self.cells else self.refuse())

    def refuse(self, *_: Any) -> Any:
        """Raises Unsteady."""
        raise Unsteady

    # ---- attributes and items
    def load_attribute(self, ins: Instruction) -> None:
        """An attribute, or a method to be called."""
        owner = self.pop()
        value = self._attribute(owner, ins.argval)
        if is_method_load(ins):
            self.stack += [value, owner] if type(value) is _Method else [_NULL, value]
        else:
            self.stack.append(_DATA if value is _DATA else value)

    def _attribute(self, owner: Any, name: str) -> Any:
        if type(owner) is _Collected and name == "append":
            return _Method(name)
        if owner is _DATA or (type(owner) is _Known and _is_data(owner.value)):
            kind = type(owner.value) if type(owner) is _Known else Tensor
            if not hasattr(kind, name) or name in _OF_CONTAINERS:
                raise Unsteady
            return _Method(name) if callable(getattr(kind, name, None)) else _DATA
        if type(owner) is not _Known:
            raise Unsteady
        value = owner.value
        if isinstance(value, ModuleType):
            return _Known(getattr(value, name))
        return _Known(_member(value, name))

    def subscript(self, ins: Instruction) -> None:
        """An item: a row by the index, or one by a key that stays what it is."""
        container, key = self.pops(2)
        if type(container) is _Collected and type(key) is _Known and is_late(key.value):
            self.stack.append(_DATA)
            return
        if key is _INDEX or (type(key) is _Item and _has_index(key)):
            if not self.is_body or not (
                container is _DATA or (type(container) is _Known and _is_tensor(container.value))
            ):
                raise Unsteady
            self.steady.rows.append(ins.offset)
            self.stack.append(_DATA)
            return
        if type(container) is _Known and type(container.value) in (list, tuple, dict) and type(key) is _Known:
            if type(key.value) not in (int, str):
                raise Unsteady
            self.stack.append(_Known(container.value[key.value]))
            return
        self.plain(container)
        self.plain(key)
        self.stack.append(_DATA)

    def unpack(self, ins: Instruction) -> None:
        """The parts of a tuple."""
        value, count = self.pop(), ins.arg or 0
        if type(value) is _Item and len(value.parts) == count:
            self.stack += value.parts[::-1]
            return
        self.plain(value)
        self.stack += [_DATA] * count

    # ---- operators
    def binary(self, ins: Instruction) -> None:
        """An operator of two operands."""
        a, b = self.pops(2)
        sign = _OLDER_SIGNS.get(ins.opname, ins.argrepr)
        if a is _INDEX and sign in ("+", "-") and type(b) is _Known and type(b.value) is int:
            self.stack.append(_INDEX)
            return
        if sign.endswith(_IN_PLACE) and ins.opname == "BINARY_OP":
            raise Unsteady
        if sign == "[]":
            self.stack += [a, b]
            self.subscript(ins)
            return
        self.plain(a)
        self.plain(b)
        self.stack.append(_DATA)

    def gather(self, count: int) -> None:
        """Something made of data."""
        for value in self.pops(count):
            self.plain(value)
        self.stack.append(_DATA)

    def build_tuple(self, ins: Instruction) -> None:
        """A tuple of data. As a subscript it may have the index among them."""
        values = self.pops(ins.arg or 0)
        for value in values:
            if value is not _INDEX:
                self.plain(value)
        self.stack.append(_Item(tuple(values)) if any(v is _INDEX for v in values) else _DATA)

    def extend(self, ins: Instruction) -> None:
        """A list literal of constants."""
        self.plain(self.pop())

    # ---- the stack
    def swap(self, ins: Instruction) -> None:
        """Exchange the top with another one."""
        if ins.arg is None or ins.arg > len(self.stack):
            raise Unsteady
        self.stack[-1], self.stack[-ins.arg] = self.stack[-ins.arg], self.stack[-1]

    def copy(self, ins: Instruction) -> None:
        """One of them once more."""
        if ins.arg is None or ins.arg > len(self.stack):
            raise Unsteady
        self.stack.append(self.stack[-ins.arg])

    def rotate(self, count: int) -> None:
        """Put the top below so many others."""
        values = self.pops(count)
        self.stack += [values[-1], *values[:-1]]

    # ---- calls
    def call(self, ins: Instruction) -> None:
        """A call with as many arguments as the instruction says."""
        names = self.keywords
        self.keywords = ()
        if ins.opname == "CALL_KW":
            names = self.pop().value
        arguments = self.pops(ins.arg or 0)
        first, second = self.pops(2)
        callee, owner = (second, _NULL) if first is _NULL else (first, second)
        if second is _NULL:
            callee, owner = first, _NULL
        if type(callee) is _Method:
            self._call_method(callee, owner, arguments)
        elif type(callee) is _Known and owner is _NULL:
            positional = arguments[: len(arguments) - len(names)]
            named = dict(zip(names, arguments[len(positional) :], strict=True))
            self.stack.append(self._call(callee.value, positional, named))
        else:
            raise Unsteady

    def call_alone(self, ins: Instruction) -> None:
        """A call of what stands below its arguments, without a place for an object (CPython 3.10)."""
        if ins.opname == "CALL_FUNCTION_KW":
            self.keywords = self.pop().value
        arguments = self.pops(ins.arg or 0)
        self.stack += [_NULL, self.pop(), *arguments]
        self.call(ins)

    def _call_method(self, method: _Method, owner: Any, arguments: list[Any]) -> None:
        for value in arguments:
            self.plain(value)
        if type(owner) is not _Collected and method.name.endswith("_"):
            raise Unsteady
        self.stack.append(_Known(None) if type(owner) is _Collected else _DATA)

    def _call(self, callee: Any, arguments: list[Any], named: dict[str, Any]) -> Any:
        if isinstance(callee, MethodType):
            arguments, callee = [_Known(callee.__self__), *arguments], callee.__func__
        if registry.is_module(callee):
            return self._call_module(callee, arguments, named)
        is_function = type(callee) is FunctionType
        if is_function and not is_internal(original(callee.__code__).co_filename):
            return self._call_function(callee, arguments, named)
        is_operator = is_function and (hasattr(callee, "packet") or callee.__module__ == _FACTORIES)
        if not is_operator and id(callee) not in _PURE:
            raise Unsteady
        for value in (*arguments, *named.values()):
            self.plain(value)
        return _DATA

    def _call_function(self, function: Any, arguments: list[Any], named: dict[str, Any]) -> Any:
        code = original(function.__code__)
        if len(self.within) >= _DEPTH or code in self.within or code.co_flags & 0x2AC:  # *args, generators, coroutines
            raise Unsteady
        count = code.co_argcount
        positions, only = code.co_varnames[:count], code.co_varnames[count : count + code.co_kwonlyargcount]
        defaults = function.__defaults__ or ()
        names: dict[str, Any] = {name: _Known(v) for name, v in (function.__kwdefaults__ or {}).items()}
        names.update(zip(positions[count - len(defaults) :], map(_Known, defaults), strict=True))
        names.update(zip(positions, arguments, strict=False))
        names.update(named)
        if len(arguments) > count or not names.keys() <= {*positions, *only} or len(names) != len(positions + only):
            raise Unsteady
        for value in names.values():
            self._data(value)
        cells = {
            name: _Known(cell.cell_contents)
            for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True)
        }
        inner = _Code(
            self.steady, code, instructions(code), names, cells, function.__globals__, (*self.within, code), False
        )
        return inner.run([])

    def _call_module(self, module: Any, arguments: list[Any], named: dict[str, Any]) -> Any:
        for each in module.modules():
            kind = type(each)
            if any(v for k, v in vars(each).items() if k.endswith("_hooks")) or each._compiled_call is not None:
                raise Unsteady
            own = [getattr(kind, name).__code__ for name in ("__call__", "__getattr__", "modules", "named_modules")]
            if "forward" in vars(each) or not all(is_internal(code.co_filename) for code in own):
                raise Unsteady
            if getattr_static(kind, "__getattribute__") is not _PLAIN_ACCESS:
                raise Unsteady
            if any(map(_is_users, vars(each).values())):
                raise Unsteady
        if any(registry.hook_tables):
            raise Unsteady
        forward = type(module).forward
        if not is_internal(original(forward.__code__).co_filename):
            return self._call_function(forward, [_Known(module), *arguments], named)
        for value in (*arguments, *named.values()):
            self.plain(value)
        for each in module.modules():
            inner = type(each).forward
            if not is_internal(original(inner.__code__).co_filename):
                count = inner.__code__.co_argcount - 1 - len(inner.__defaults__ or ())
                self._call_function(inner, [_Known(each), *[_DATA] * count], {})
        return _DATA


def _of_item(item: Any) -> Any:
    return _Item(tuple(map(_of_item, item))) if type(item) is tuple else _INDEX if item == INDEX else _DATA


def _is_users(value: Any) -> bool:
    """Whether a value may be called and run code of the user's (an activation that a layer was given)."""
    if not callable(value) or registry.is_module(value) or _is_tensor(value):
        return False
    return type(value) is not FunctionType or not is_internal(original(value.__code__).co_filename)


def _has_index(item: _Item) -> bool:
    return any(part is _INDEX or (type(part) is _Item and _has_index(part)) for part in item.parts)


def _is_data(value: Any) -> bool:
    """Whether a value is a tensor or a plain value, or made of them."""
    if type(value) in (tuple, list):
        return all(map(_is_data, value))
    return type(value) in _PLAIN or type(value) is Size or _is_tensor(value)


def _is_tensor(value: Any) -> bool:
    """Whether it is one of weft's own classes, whose methods are no code of the user's."""
    return type(value) in plain_kinds and is_own(type(value).__module__)


def _member(owner: Any, name: str) -> Any:
    """An attribute of an object that is there without code of the user's being run. Raises Unsteady."""
    kind = type(owner)
    if registry.is_module(owner):
        held = vars(owner)
        for table in (held, held["_parameters"], held["_buffers"], held["_modules"]):
            if name in table and not hasattr(getattr_static(kind, name, None), "__set__"):
                return table[name]
    elif getattr_static(kind, "__getattribute__") is not _PLAIN_ACCESS or hasattr(kind, "__getattr__"):
        raise Unsteady
    value = getattr_static(owner, name, _NULL)
    if type(value) is FunctionType and name not in getattr(owner, "__dict__", {}):
        return MethodType(value, owner)
    if type(value) is FunctionType or not hasattr(type(value), "__get__"):
        return value if value is not _NULL else _refuse()
    raise Unsteady


def _refuse() -> Any:
    raise Unsteady


def _gathering(count: Callable[[int], int]) -> Callable[[_Code, Instruction], None]:
    return lambda code, ins: code.gather(count(ins.arg or 0))


def _pushing(code: _Code, ins: Instruction) -> None:
    code.stack.append(_Known(ins.argval))


def _keywords(code: _Code, ins: Instruction) -> None:
    code.keywords = original(code.code).co_consts[ins.arg or 0]


# CPython 3.10 has an instruction for each operator; those in place are no part of a steady body.
_OLDER_SIGNS = {"BINARY_ADD": "+", "BINARY_SUBTRACT": "-"} | {
    f"BINARY_{name}": name for name in (
        "MULTIPLY", "MATRIX_MULTIPLY", "TRUE_DIVIDE", "FLOOR_DIVIDE", "MODULO", "POWER", "LSHIFT", "RSHIFT", "AND",
        "OR", "XOR",
    )
}
_RULES: dict[str, Callable[[_Code, Instruction], Any]] = {
    "LOAD_CONST": _pushing, "LOAD_SMALL_INT": _pushing, "PUSH_NULL": lambda code, ins: code.stack.append(_NULL),
    "KW_NAMES": _keywords,
    "LOAD_GLOBAL": _Code.load_global, "LOAD_DEREF": _Code.load_cell,
    "LOAD_ATTR": _Code.load_attribute, "LOAD_METHOD": _Code.load_attribute,
    "UNPACK_SEQUENCE": _Code.unpack, "POP_TOP": lambda code, ins: code.pop(), "SWAP": _Code.swap, "COPY": _Code.copy,
    "BINARY_SUBSCR": _Code.subscript, "BINARY_OP": _Code.binary, "COMPARE_OP": _gathering(lambda n: 2),
    "BINARY_SLICE": _gathering(lambda n: 3), "BUILD_SLICE": _gathering(lambda n: n),
    "BUILD_TUPLE": _Code.build_tuple, "BUILD_LIST": _gathering(lambda n: n), "LIST_EXTEND": _Code.extend,
    "CALL": _Code.call, "CALL_KW": _Code.call, "CALL_METHOD": _Code.call,
    **dict.fromkeys(("CALL_FUNCTION", "CALL_FUNCTION_KW"), _Code.call_alone),
    **dict.fromkeys(_OLDER_SIGNS, _Code.binary),
    "ROT_TWO": lambda code, ins: code.rotate(2), "ROT_THREE": lambda code, ins: code.rotate(3),
    "DUP_TOP": lambda code, ins: code.stack.extend(code.pops(1) * 2),
    **dict.fromkeys(("UNARY_NEGATIVE", "UNARY_POSITIVE", "UNARY_INVERT", "UNARY_NOT"), _gathering(lambda n: 1)),
    **dict.fromkeys(
        (
            "LOAD_FAST", "LOAD_FAST_CHECK", "LOAD_FAST_BORROW", "LOAD_FAST_LOAD_FAST",
            "LOAD_FAST_BORROW_LOAD_FAST_BORROW",
        ),
        _Code.load_local,
    ),
    **dict.fromkeys(("STORE_FAST", "STORE_FAST_STORE_FAST"), _Code.store_local),
}

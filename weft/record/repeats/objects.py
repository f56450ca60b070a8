"""What an object that stays the same between iterations says of itself, without code of the user's being run: its
truth, its items, its attributes, and what operators give for numbers."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable
from inspect import getattr_static
from types import FunctionType, MethodType
from typing import Any

from weft.guards.rewrite import original
from weft.ops.overrides import plain_kinds
from weft.ops.packet import aten
from weft.record.numbers.sym_float import SymFloat
from weft.record.repeats.for_statement import Unsteady
from weft.support import registry
from weft.support.locations import is_internal
from weft.support.naming import is_own
from weft.tensor.size import Size
from weft.types.dtype import DType
from weft.types.sym import SymInt

PLAIN_ACCESS = getattr_static(object, "__getattribute__")
_MISSING = object()
_PLAIN = (int, float, bool, complex, str, type(None), type(Ellipsis), slice, DType, SymInt, SymFloat)
_NUMBERS = (int, float, bool, str, type(None))
_CONTAINERS = (list, tuple, dict, range, str)
_IN_PLACE = frozenset(("+=", "-=", "*=", "/=", "//=", "%=", "**="))
_SIGNS: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "//": operator.floordiv, "%": operator.mod,
    "/": operator.truediv, "<": operator.lt, "<=": operator.le, "==": operator.eq, "!=": operator.ne,
    ">": operator.gt, ">=": operator.ge, "**": operator.pow,
}  # fmt: skip


def is_number(value: Any) -> bool:
    """Whether it is a number, a string or None of Python's own: nothing asks a size of the capture's."""
    return type(value) in _NUMBERS


def is_in_place(name: str) -> bool:
    """Whether a method of tensors is the in-place form of an operator."""
    packet = getattr(aten, name.removesuffix("_"), None)
    return name.endswith("_") and packet is not None and any(op.inplace for op in packet.overloads)


def function_of(sign: str) -> Callable[[Any, Any], Any]:
    """What an operator computes of two numbers. Raises Unsteady for others."""
    function = _SIGNS.get(sign.removesuffix("=") if sign in _IN_PLACE else sign)
    if function is None:
        raise Unsteady
    return function


def computed(sign: str, a: Any, b: Any) -> Any:
    """What an operator gives for two numbers. Raises Unsteady for other values and operators."""
    if not (is_number(a) and is_number(b)) or sign.startswith("**"):
        raise Unsteady
    return function_of(sign)(a, b)


def truth(value: Any) -> bool:
    """Whether it counts as true. Raises Unsteady where that is asked of code of the user's, or of a size."""
    if is_number(value) or type(value) in _CONTAINERS:
        return bool(value)
    methods = [getattr_static(type(value), name, None) for name in ("__bool__", "__len__")]
    if isinstance(value, type) or is_data(value) or any(method is not None for method in methods):
        raise Unsteady
    return True


def items_of(value: Any) -> Iterable[Any]:
    """Its items: those of a container of Python's, or of a module that is a list. Raises Unsteady for others."""
    if type(value) in _CONTAINERS or _is_list_of_modules(value, "__iter__"):
        return value  # type: ignore[no-any-return]
    raise Unsteady


def item(value: Any, key: Any) -> Any:
    """The item of a container, or of a module that is a list. Raises Unsteady for others."""
    if type(key) in (int, str) and (type(value) in _CONTAINERS or _is_list_of_modules(value, "__getitem__")):
        return value[key]
    raise Unsteady


def _is_list_of_modules(value: Any, name: str) -> bool:
    method = getattr_static(type(value), name, None) if registry.is_module(value) else None
    return type(method) is FunctionType and is_internal(original(method.__code__).co_filename)


def is_users(value: Any) -> bool:
    """Whether a value may be called and run code of the user's (an activation that a layer was given)."""
    if not callable(value) or registry.is_module(value) or is_tensor(value):
        return False
    return type(value) is not FunctionType or not is_internal(original(value.__code__).co_filename)


def is_data(value: Any) -> bool:
    """Whether a value is a tensor or a plain value, or made of them."""
    if type(value) in (tuple, list):
        return all(map(is_data, value))
    return type(value) in _PLAIN or type(value) is Size or is_tensor(value)


def is_tensor(value: Any) -> bool:
    """Whether it is one of weft's own classes, whose methods are no code of the user's."""
    return type(value) in plain_kinds and is_own(type(value).__module__)


def member(owner: Any, name: str) -> Any:
    """An attribute of an object that is there without code of the user's being run. Raises Unsteady."""
    kind = type(owner)
    if registry.is_module(owner):
        held = vars(owner)
        for table in (held, held["_parameters"], held["_buffers"], held["_modules"]):
            if name in table and not hasattr(getattr_static(kind, name, None), "__set__"):
                return table[name]
    elif getattr_static(kind, "__getattribute__") is not PLAIN_ACCESS or hasattr(kind, "__getattr__"):
        raise Unsteady
    value = getattr_static(owner, name, _MISSING)
    if type(value) is FunctionType and name not in getattr(owner, "__dict__", {}):
        return MethodType(value, owner)
    if value is not _MISSING and (type(value) is FunctionType or not hasattr(type(value), "__get__")):
        return value
    raise Unsteady

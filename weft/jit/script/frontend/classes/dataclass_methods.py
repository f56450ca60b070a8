"""The methods that `dataclasses.dataclass` writes, as text: Python keeps no source of them."""

from __future__ import annotations

import dataclasses
import inspect
import sys
import types
import typing
from collections.abc import Mapping
from typing import Any

from weft.jit.script.source import refuse_class

Text = tuple[str, Mapping[str, Any]]


def is_generated(cls: type, function: Any) -> bool:
    """Whether a method was written by the decorator, and not by the user. (One of CPython
    3.13's, `__replace__`, is a function of the standard library's.)"""
    code = getattr(inspect.unwrap(function), "__code__", None)
    return dataclasses.is_dataclass(cls) and code is not None and code.co_filename in ("<string>", dataclasses.__file__)


def text_of_method(cls: Any, name: str) -> Text:
    """The text of a method, and what the names in it mean. Raises CompileError for one that programs cannot have."""
    if name == "__init__":
        return _init(cls)
    names = {"_Self": cls}
    if name == "__eq__":
        return _compared(cls, name, "False", "True"), names
    if name in _ORDERS:
        operator, if_equal = _ORDERS[name]
        return _compared(cls, name, f"a {operator} b", str(if_equal)), names
    refuse_class(cls, f"{cls.__name__}.{name}, which its decorator writes, cannot be called from a scripted program")


_ORDERS = {"__lt__": ("<", False), "__le__": ("<", True), "__gt__": (">", False), "__ge__": (">", True)}


def _compared(cls: Any, name: str, if_other: str, if_equal: str) -> str:
    """Field by field: the first that differs decides. Where one of the two is None, they are not equal, and have
    no order.
    """
    refusal = f"raise TypeError('{name} of {cls.__name__}: None has no order')"
    one_is_none = "return False" if name == "__eq__" else refusal
    lines = [f"def {name}(self, other: _Self) -> bool:"]
    hints = hints_of_class(cls)
    for field in (f.name for f in dataclasses.fields(cls) if f.compare):
        a, b = f"self_{field}", f"other_{field}"
        differs = f"if not ({a} == {b}):", f"    return {if_other.replace('a ', f'{a} ').replace(' b', f' {b}')}"
        lines += [f"    {a} = self.{field}", f"    {b} = other.{field}"]
        if type(None) in typing.get_args(hints[field]):
            lines += [
                f"    if {a} is None:", f"        if {b} is not None:", f"            {one_is_none}",
                f"    elif {b} is None:", f"        {one_is_none}", f"    el{differs[0]}", f"    {differs[1]}",
            ]
        else:
            lines += [f"    {line}" for line in differs]
    return "\n".join([*lines, f"    return {if_equal}\n"])


def hints_of_class(cls: Any) -> dict[str, Any]:
    """What the attributes are said to be. Strings are evaluated first: typing refuses InitVar before CPython 3.11."""
    hints: dict[str, Any] = {}
    names = {cls.__name__: cls}
    for base in reversed(cls.__mro__):
        evaluated: Any = types.SimpleNamespace(
            __annotations__=inspect.get_annotations(base, locals=names, eval_str=True)
        )
        scope = getattr(sys.modules.get(base.__module__), "__dict__", {})
        hints.update(typing.get_type_hints(evaluated, scope, names))
    return hints


def _init(cls: Any) -> Text:
    names: dict[str, Any] = {}
    hints = hints_of_class(cls)
    positional, by_name, body, passed_on = ["self"], list[str](), list[str](), list[str]()
    for i, field in enumerate(cls.__dataclass_fields__.values()):  # with those that __init__ only takes
        hint = hints[field.name]
        if typing.get_origin(hint) is typing.ClassVar or hint is typing.ClassVar:
            continue
        is_passed_on = isinstance(hint, dataclasses.InitVar)
        names[f"_type{i}"] = hint.type if is_passed_on else hint
        default = _default(cls, field)
        if default is not dataclasses.MISSING:
            names[f"_default{i}"] = default
        written = "" if default is dataclasses.MISSING else f" = _default{i}"
        if field.init:
            (by_name if field.kw_only else positional).append(f"{field.name}: _type{i}{written}")
        if is_passed_on:
            passed_on.append(field.name)
        elif field.init or written:
            body.append(f"    self.{field.name}: _type{i} = {field.name if field.init else f'_default{i}'}")
    if hasattr(cls, "__post_init__"):
        body.append(f"    self.__post_init__({', '.join(passed_on)})")
    parameters = ", ".join([*positional, *(["*", *by_name] if by_name else [])])
    return f"def __init__({parameters}):\n" + "\n".join(body or ["    pass"]) + "\n", names


def _default(cls: Any, field: Any) -> Any:
    if field.default_factory is dataclasses.MISSING:
        return field.default
    if field.default_factory not in (list, dict):
        refuse_class(
            cls, f"the default_factory of {cls.__name__}.{field.name} is Python's; list and dict can be compiled"
        )
    return field.default_factory()

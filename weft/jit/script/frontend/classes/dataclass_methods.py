"""The methods that `dataclasses.dataclass` writes, as text: Python keeps no source of them."""

from __future__ import annotations

import dataclasses
import inspect
import typing
from collections.abc import Mapping
from typing import Any

from weft.jit.script.source import refuse_class

Text = tuple[str, Mapping[str, Any]]


def is_generated(cls: type, function: Any) -> bool:
    """Whether a method was written by the decorator, and not by the user."""
    code = getattr(inspect.unwrap(function), "__code__", None)
    return dataclasses.is_dataclass(cls) and code is not None and code.co_filename == "<string>"


def text_of_method(cls: Any, name: str) -> Text:
    """The text of a method, and what the names in it mean. Raises CompileError for one that programs cannot have."""
    if name == "__init__":
        return _init(cls)
    fields = [f.name for f in dataclasses.fields(cls) if f.compare]
    names = {"_Self": cls}
    if name == "__eq__":
        same = " and ".join(f"self.{f} == other.{f}" for f in fields) or "True"
        return f"def __eq__(self, other: _Self) -> bool:\n    return {same}\n", names
    if name in _ORDERS:
        return _order(name, fields), names
    refuse_class(cls, f"{cls.__name__}.{name}, which its decorator writes, cannot be called from a scripted program")


_ORDERS = {"__lt__": ("<", False), "__le__": ("<", True), "__gt__": (">", False), "__ge__": (">", True)}


def _order(name: str, fields: list[str]) -> str:
    """Field by field: the first that differs decides."""
    operator, if_equal = _ORDERS[name]
    lines = [f"def {name}(self, other: _Self) -> bool:"]
    for field in fields:
        lines += [f"    if self.{field} != other.{field}:", f"        return self.{field} {operator} other.{field}"]
    return "\n".join([*lines, f"    return {if_equal}\n"])


def _init(cls: Any) -> Text:
    names: dict[str, Any] = {}
    hints = typing.get_type_hints(cls, localns={cls.__name__: cls})
    positional, by_name, body = ["self"], list[str](), list[str]()
    for i, field in enumerate(dataclasses.fields(cls)):
        names[f"_type{i}"] = hints[field.name]
        default = _default(cls, field)
        if default is not dataclasses.MISSING:
            names[f"_default{i}"] = default
        written = "" if default is dataclasses.MISSING else f" = _default{i}"
        if field.init:
            (by_name if field.kw_only else positional).append(f"{field.name}: _type{i}{written}")
        if field.init or written:
            body.append(f"    self.{field.name}: _type{i} = {field.name if field.init else f'_default{i}'}")
    if hasattr(cls, "__post_init__"):
        body.append("    self.__post_init__()")
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

"""Attributes of Modules: which are constants, and of which types the others are."""

from __future__ import annotations

import ast
import contextlib
import enum
import functools
import inspect
import typing
from collections.abc import Sequence
from typing import Any, Final

from weft.jit.errors import CompileError
from weft.jit.program import Program
from weft.jit.script.annotations import UnknownType, enumeration_type, is_plain_class, type_of_annotation
from weft.jit.script.frontend.classes.script_classes import description_of, is_described
from weft.jit.script.frontend.compile import Linker, compile_python, names_of
from weft.jit.script.frontend.context import Context
from weft.jit.script.frontend.types import annotated_type
from weft.jit.script.source import function_source
from weft.support.naming import is_own, own_name
from weft.tensor.tensor import Tensor
from weft.types import tensor_type as tt
from weft.types.sym import fits
from weft.types.tensor_type import Type, dict_of, list_of, tuple_of, unify

_PLAIN = (int, float, bool, str, tuple, type(None))


def is_constant(owner: Any, name: str) -> bool:
    """Whether an attribute is listed in `__constants__`, or annotated as Final."""
    cls = owner._original_class()
    if is_weft_own(cls) and name != "training" and type(owner.__dict__.get(name)) in _PLAIN:
        return True
    written = _hints(cls).get(name)
    return name in getattr(cls, "__constants__", ()) or written is Final or typing.get_origin(written) is Final


def type_of_attribute(owner: Any, name: str) -> Type | None:
    """The type of an attribute: the annotation in the class, else that of its value; None if it has none."""
    written = _hints(owner._original_class()).get(name)
    written = owner.__dict__.get("_given_types", {}).get(name, written)
    if written is not None:
        try:
            return type_of_annotation(written)
        except UnknownType:
            pass
    fields = owner.__dict__
    held = fields.get(name, fields["_buffers"].get(name))
    return type_of_object(held)


@functools.cache
def _hints(cls: type) -> dict[str, Any]:
    """The annotations of attributes: in the bodies of a class and of those that it is derived from, and in their
    `__init__`, each as the names mean where it is written.
    """
    hints: dict[str, Any] = {}
    for one in reversed(cls.__mro__):
        if one is not object and not is_own(one.__module__):
            hints.update(_hints_of_init(one))
    try:
        hints.update(typing.get_type_hints(cls))
    except Exception:  # annotations of other tools, that mean nothing here
        return hints
    return hints


def _hints_of_init(cls: type) -> dict[str, Any]:
    init = vars(cls).get("__init__")
    if not inspect.isfunction(init) or not hasattr(init, "__code__"):
        return {}
    try:
        definition, source = function_source(init)
    except CompileError:
        return {}
    linker = Linker(Program("__init__"), names_of(init), compile_python)
    ctx = Context("__init__", source, lambda name, node: None, linker)
    hints = {}
    for node in ast.walk(definition):
        target = node.target if isinstance(node, ast.AnnAssign) else None
        if isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name) and target.value.id == "self":
            with contextlib.suppress(CompileError):
                hints[target.attr] = annotated_type(ctx, node.annotation)  # type: ignore[attr-defined]
    return hints


def is_weft_own(cls: type) -> bool:
    """Whether a class of Modules is weft's."""
    return own_name(cls.__module__).startswith("weft.nn.")


def may_stay_in_python(owner: Any) -> bool:
    """Whether a scripted Module and all within it are weft's own: what cannot be compiled there is no fault of the
    user's, and is called as it is."""
    return all(is_weft_own(each._original_class()) for each in owner.modules())


def type_of_object(value: Any) -> Type | None:
    """The type of a Python object as an attribute, or None for one that programs cannot hold."""
    plain: dict[type, Type] = {bool: tt.BOOL, int: tt.INT, float: tt.FLOAT, complex: tt.COMPLEX, str: tt.STR}
    if isinstance(value, Tensor):
        return tt.TENSOR
    if type(value) in plain:
        if type(value) is int and not fits(value):
            raise CompileError(f"the integer {value} does not fit into 64 bits")
        return plain[type(value)]
    if is_described(type(value)):
        return description_of(type(value)).type
    if isinstance(value, enum.Enum):
        return enumeration_type(type(value))
    if isinstance(value, tuple):
        parts = [type_of_object(v) for v in value]
        return None if None in parts else tuple_of(*(p for p in parts if p is not None))
    if isinstance(value, list):
        kind = _common([type_of_object(v) for v in value])
        return None if kind is None else list_of(kind)
    if isinstance(value, dict):
        key, inner = _common([type_of_object(k) for k in value]), _common([type_of_object(v) for v in value.values()])
        return None if key is None or inner is None else dict_of(tt.STR if not value else key, inner)
    return None


def describe_classes(value: Any) -> None:
    """Learn the classes of objects that a program reads from an attribute, where they are the user's plain classes."""
    if isinstance(value, (tuple, list)):
        for item in value:
            describe_classes(item)
    elif isinstance(value, dict):
        describe_classes(list(value.values()))
    elif is_plain_class(type(value)):
        description_of(type(value))


def _common(types: Sequence[Type | None]) -> Type | None:
    common: Type | None = None if types else tt.TENSOR
    for kind in types:
        if kind is None:
            return None
        common = kind if common is None else unify(common, kind)
    return None if common is tt.ANY else common

"""Schemas of users' operators: from a function's signature, or from text with PyTorch's words."""

from __future__ import annotations

import collections.abc
import inspect
import re
import types
import typing
from collections.abc import Callable, Iterable
from typing import Any

import weft.ops
from weft.ops.schema import Argument, Schema, parse_schema
from weft.support.errors import ValueProblem
from weft.tensor.device import Device
from weft.tensor.tensor import Tensor
from weft.types.dtype import DType

# One of PyTorch's words that weft has another for. Sizes are integers everywhere.
_WORDS = {"SymInt": "int", "Dtype": "ScalarType"}
_ONE: dict[Any, str] = {
    Tensor: "Tensor", int: "int", float: "float", bool: "bool", str: "str", DType: "ScalarType", Device: "Device",
}
_NUMBER = frozenset((int, float, bool))
_LISTS = (list, collections.abc.Sequence, typing.Sequence, typing.List)  # noqa: UP006  what signatures may say


def parse(text: str) -> Schema:
    """A schema from its text, looked at as a whole. Raises ParseError."""
    schema = parse_schema(re.sub(r"\b(" + "|".join(_WORDS) + r")\b", lambda m: _WORDS[m[1]], text))
    assert schema.arguments is not None and schema.returns is not None
    return schema


def infer_schema(
    prototype_function: Callable[..., Any], /, *, mutates_args: str | Iterable[str], op_name: str | None = None,
    tags: Any = (),
) -> str:
    """The schema text of a function from its annotations: `(Tensor x, float k) -> Tensor`.

    mutates_args: the names of the arguments that the function writes into, or "unknown" for all of its tensors.
    op_name: stands before the arguments. tags: accepted as PyTorch has them.
    Raises ValueProblem (a ValueError) for an annotation that is missing or has no type of a schema.
    """
    signature = inspect.signature(prototype_function, eval_str=True)

    def wrong(what: str) -> ValueProblem:
        return ValueProblem(f"infer_schema(func): {what} Got func with signature {signature})")

    names = set(signature.parameters)
    mutated = names if mutates_args == "unknown" else _names(mutates_args)
    if mutated - names:
        raise wrong(
            f"{mutated - names} in mutates_args were not found in the custom op's signature. mutates_args should "
            "contain the names of all args that the custom op mutates, or just the string 'unknown' if you don't know."
        )
    parts: list[str] = []
    for index, (name, parameter) in enumerate(signature.parameters.items()):
        if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            raise wrong("We do not support positional-only args, varargs, or varkwargs.")
        if parameter.kind is parameter.KEYWORD_ONLY and "*" not in parts:
            parts.append("*")
        if parameter.annotation is inspect.Parameter.empty:
            raise wrong(f"Parameter {name} must have a type annotation.")
        kind = type_text(parameter.annotation)
        if kind is None:
            raise wrong(f"Parameter {name} has unsupported type {parameter.annotation}.")
        if name in mutated and kind.startswith("Tensor"):
            kind = kind.replace("Tensor", f"Tensor(a{index}!)", 1)
        elif name in mutated and mutates_args != "unknown":
            raise wrong(f"Parameter {name} is in mutates_args, and only Tensors or lists of Tensors can be mutated")
        parts.append(f"{kind} {name}{_default(parameter, wrong)}")
    if signature.return_annotation is inspect.Signature.empty:
        raise wrong("No return type annotation was provided. Please add one.")
    returns = returns_text(signature.return_annotation)
    if returns is None:
        raise wrong(f"Return has unsupported type {signature.return_annotation}.")
    return f"{op_name or ''}({', '.join(parts)}) -> {returns}"


def _names(mutates_args: str | Iterable[str]) -> set[str]:
    if isinstance(mutates_args, str):
        raise ValueProblem(
            "mutates_args must either be a sequence of the names of the arguments that are mutated or the string "
            "'unknown'."
        )
    return set(mutates_args)


def _default(parameter: inspect.Parameter, wrong: Callable[[str], ValueProblem]) -> str:
    value = parameter.default
    if value is inspect.Parameter.empty:
        return ""
    if value is None or isinstance(value, (int, float, bool, str, list, tuple)):
        return f"={list(value) if isinstance(value, tuple) else value!r}"
    raise wrong(f"Parameter {parameter.name} has an unsupported default value type {type(value)}.")


def type_text(annotation: Any) -> str | None:
    """The schema's word for an annotation of an argument; None if there is none."""
    if annotation in _ONE:
        return _ONE[annotation]
    origin, inside = typing.get_origin(annotation), typing.get_args(annotation)
    if origin in (typing.Union, types.UnionType):
        others = tuple([a for a in inside if a is not type(None)])
        optional = "?" if len(others) < len(inside) else ""
        if frozenset(others) == _NUMBER:
            return f"Scalar{optional}"
        one = type_text(others[0]) if len(others) == 1 else None
        return None if one is None else one + optional
    if origin in _LISTS and len(inside) == 1:
        one = type_text(inside[0])
        return None if one is None or one.endswith("]") else f"{one}[]"
    return None


def returns_text(annotation: Any) -> str | None:
    """The schema's word for what a function returns; None if there is none."""
    if annotation is None or annotation is type(None):
        return "()"
    if typing.get_origin(annotation) is tuple:
        parts = [type_text(a) for a in typing.get_args(annotation)]
        if not parts or any(p is None or p.endswith("?") for p in parts):
            return None
        inside = ", ".join([p for p in parts if p is not None])
        return inside if len(parts) == 1 else f"({inside})"
    one = type_text(annotation)
    return None if one is None or one.endswith("?") else one


_RESERVED = ("aten", "prim", "autograd", "onnx", "comm")


def check(schema: Schema) -> None:
    """Raises ValueProblem (a ValueError) for a namespace that is weft's own, and for a list among several results."""
    name = schema.namespace
    if len(schema.returns) > 1 and any(r.is_list for r in schema.returns):
        raise ValueProblem(f"{schema}: a list of tensors can only be the one result of an operator")
    if name in _RESERVED:
        raise ValueProblem(f"{name} is a reserved namespace. Please try creating a library with another name.")
    if isinstance(vars(weft.ops).get(name), types.ModuleType):
        raise ValueProblem(f"{schema.name}: weft.ops.{name} is a module of weft's; take another namespace")


def source_of(schema: Schema, alias: str) -> int | None:
    """The argument that a result with this alias set is; None for a result that is new."""
    if not alias:
        return None
    mark = alias.rstrip("!")
    return next((i for i, a in enumerate(schema.arguments) if a.alias.rstrip("!") == mark), None)


def functional_schema(schema: Schema, mutated: tuple[int, ...]) -> Schema:
    """The schema of the functional twin: results that are new, then the new values of what is written."""
    arguments = tuple([
        Argument(a.name, a.kind, a.is_list, a.list_size, a.is_optional, a.element_optional, a.default, a.has_default,
                 a.keyword_only)
        for a in schema.arguments
    ])
    fresh = [r for r in schema.returns if source_of(schema, r.alias) is None]
    written = [Argument("", "Tensor", schema.arguments[i].is_list) for i in mutated]
    return Schema(schema.namespace, schema.base, f"{schema.overload or 'default'}_functional", arguments,
                  (*fresh, *written))

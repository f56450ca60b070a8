"""Forms: how values lie in tuples, lists and dicts, as JSON; a program keeps the forms of what functions take and give.

A form is "*" for a value, `{"is": constant}`, or `{"tuple": [...]}`, `{"list": [...]}`, `{"dict": [[key, form], ...]}`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from weft.support.errors import ArgumentError
from weft.types.dtype import DType, by_name

Form = Any
VALUE = "*"
_CONSTANTS = (type(None), bool, int, float, str)


def taken_apart(held: Any, is_value: Callable[[Any], bool]) -> tuple[Form, list[Any]]:
    """The form of what is held, and its values in order. Raises ArgumentError for what no form has."""
    values: list[Any] = []

    def form(part: Any) -> Form:
        if is_value(part):
            values.append(part)
            return VALUE
        kind = type(part)
        if kind in (tuple, list):
            return {kind.__name__: [form(p) for p in part]}
        if kind is dict and all(type(k) in (str, int) for k in part):
            return {"dict": [[k, form(p)] for k, p in part.items()]}
        if kind is DType:
            return {"dtype": part.name}
        if kind in _CONSTANTS:
            return {"is": part}
        raise ArgumentError(
            f"weft.jit.trace: a function that is called later takes and gives tensors, numbers, and tuples, lists and "
            f"dicts of them, not a {kind.__name__}"
        )

    return form(held), values


def put_together(form: Form, values: Sequence[Any]) -> Any:
    """What was taken apart, with these values. Raises ArgumentError for a damaged form."""
    rest = iter(values)
    held = _put_together(form, rest)
    if next(rest, rest) is not rest:
        raise ArgumentError("weft.jit: a function that is called later has another number of values than its form")
    return held


def _put_together(form: Form, rest: Iterator[Any]) -> Any:
    if form == VALUE:
        try:
            return next(rest)
        except StopIteration:
            raise ArgumentError("weft.jit: a function that is called later lacks values") from None
    if not isinstance(form, dict) or len(form) != 1:
        raise ArgumentError(f"weft.jit: {form!r} is no form of values")
    ((kind, parts),) = form.items()
    if kind == "dict":
        return {k: _put_together(p, rest) for k, p in parts}
    if kind in ("tuple", "list"):
        elements = [_put_together(p, rest) for p in parts]
        return tuple(elements) if kind == "tuple" else elements
    if kind == "dtype":
        return by_name(parts)
    return parts


def to_text(form: Form) -> str:
    """The form as a constant of a graph."""
    return json.dumps(form)


def from_text(text: str) -> Form:
    """The form that `to_text` wrote. Raises ArgumentError."""
    try:
        return json.loads(text)
    except (TypeError, ValueError) as problem:
        raise ArgumentError(f"weft.jit: {text!r} is no form of values: {problem}") from None

"""What a program does besides computing: it prints, raises, reads and writes attributes, and calls other programs
and Python."""

from __future__ import annotations

import builtins
import warnings
from typing import Any

from weft.catalogue.language.entries import ORDERED, language
from weft.support.errors import StateError
from weft.types.parse import parse_type
from weft.types.tensor_type import Type

language(
    "prim::Print", 'values, sep=" ", end="\\n"', "Writes values to the standard output.",
    lambda values, sep, end: print(*values, sep=sep, end=end), "Any, str, str -> None", effect=ORDERED,
)

language(
    "prim::warn", "message", "Warns, as warnings.warn does.",
    lambda message: warnings.warn(message, stacklevel=2), "Any -> None", effect=ORDERED,
)


def _raise(message: str, kind: str) -> None:
    raise getattr(builtins, kind)(message)


language(
    "prim::RaiseException", 'message, kind="Exception"', "Raises one of Python's exceptions.", _raise,
    "str, str -> None", effect="raises",
)
language(
    "prim::Uninitialized", "type", "Stands where no value will be read.", lambda type: None,
    rule=lambda type: parse_type(type),
)
language(
    "prim::unchecked_cast", "self, type", "The value itself, of which the program has found out the type.",
    lambda self, type: self, rule=lambda self, type: parse_type(type),
)


def _is_run_by_an_interpreter(*args: Any) -> Any:
    raise StateError("attributes and calls are resolved by the program that has them; run it with weft.jit")


language(
    "prim::isinstance", "self, type", "Whether a value is of a type that only the running program knows.",
    _is_run_by_an_interpreter, "Any, str -> bool", effect=ORDERED, observes="pure",
)


def _of_given_type(*seen: Any) -> Type | tuple[Type, ...]:
    return parse_type(seen[-1]) if seen[-1] else ()


for _name, _arguments, _doc in (
    ("GetAttr", "self, name, type", "An attribute of an object."),
    ("CreateObject", "name, type", "A new object of a class of the program's, before its __init__."),
    ("CallFunction", "name, args, type", "Calls a function of the program by its qualified name."),
    (
        "CallBuiltin", "name, args, names, type",
        "Calls a function of weft's own that is no operator, by its qualified name; the last arguments have the names.",
    ),
    ("CallMethod", "self, name, args, type", "Calls a method of a Module of the program."),
):
    language(
        f"prim::{_name}", _arguments, _doc, _is_run_by_an_interpreter, rule=_of_given_type, effect=ORDERED,
        observes="pure" if _name == "GetAttr" else "",
    )
language("prim::set_grad_enabled", "mode", "Whether history is recorded from here on; gives back whether it was.",
         _is_run_by_an_interpreter, "bool -> bool", effect=ORDERED)
language(
    "prim::Enter", "exit, self", "A `with` block of an object begins: an exception within calls this function of it.",
    _is_run_by_an_interpreter, "str, Any -> None", effect=ORDERED,
)
language("prim::Exit", "", "The `with` block that began last ends.", _is_run_by_an_interpreter, rule=lambda: (),
         effect=ORDERED)
language(
    "prim::PythonOp", "function, args, names, type",
    "Calls a function of Python's, which may do anything; gradients flow through it.", _is_run_by_an_interpreter,
    rule=_of_given_type, effect="python",
)
language(
    "prim::SetAttr", "self, name, value", "Writes an attribute of an object.", _is_run_by_an_interpreter,
    "Any, str, Any -> None", effect=ORDERED,
)

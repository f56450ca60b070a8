"""Functions of weft's as programs: `weft.jit.script(weft.nn.functional.relu)` is one that calls it."""

from __future__ import annotations

import inspect
import keyword
import typing
from collections.abc import Callable, Iterator
from typing import Any

from weft.jit.functions import ScriptFunction, text_names
from weft.jit.program import Program
from weft.jit.script.annotations import NAMES, UnknownType, type_of_annotation
from weft.jit.script.frontend.compile import Linker, compile_python, names_in
from weft.jit.script.frontend.definitions import compile_definition
from weft.jit.script.frontend.outside import path_of
from weft.jit.script.source import text_source
from weft.ops.op import Op
from weft.ops.schema import Argument
from weft.types import tensor_type as tt
from weft.types.tensor_type import Type, list_of, union_of

_TYPES: dict[str, Type] = {
    "Tensor": tt.TENSOR, "Scalar": tt.FLOAT, "int": tt.INT, "float": tt.FLOAT, "bool": tt.BOOL, "str": tt.STR,
    "ScalarType": tt.DTYPE, "Device": tt.DEVICE, "Object": tt.ANY,
}  # fmt: skip
_Taken = tuple[str, Any, str, bool]  # a parameter: its name, annotation, default ("" for none), whether it is named


def own_function(function: Callable[..., Any]) -> ScriptFunction | None:
    """The program that calls a function of weft's, with its parameters and defaults; None for the user's functions.
    Where an operator has several forms, the first.
    """
    path = path_of(function)
    if path is None:
        return None
    packet = getattr(function, "packet", None)
    taken = list(_of_schema(packet.overloads[0]) if packet else _of_signature(function))
    name = path.rpartition(".")[2]
    definition, source = text_source(f"def {name}({_declared(taken)}):\n    return {path}({_passed(taken)})\n", path)
    program = Program(name)
    names = names_in({f"type_of_{p}": kind for p, kind, _, _ in taken}, text_names())
    compile_definition(definition[0], source, Linker(program, names, compile_python))
    return ScriptFunction(program)


def _of_schema(op: Op) -> Iterator[_Taken]:
    """What an operator takes and a program can give; what changes the kind of the result stays as it is."""
    for argument in op.schema.arguments:
        kind = _TYPES.get(argument.kind)
        if kind is None or argument.name in op.more or keyword.iskeyword(argument.name):
            continue
        default = repr(argument.default) if argument.has_default else ""
        yield argument.name, _annotation(argument, kind), default, argument.keyword_only


def _annotation(argument: Argument, kind: Type) -> Any:
    """What annotates a parameter: a list of a fixed size can be given as one number."""
    if argument.is_list and argument.list_size and argument.kind == "int" and not argument.is_optional:
        return NAMES[f"BroadcastingList{argument.list_size}"][int]  # type: ignore[index]
    kind = list_of(kind) if argument.is_list else kind
    return union_of(kind, tt.NONE) if argument.is_optional else kind


def _of_signature(function: Callable[..., Any]) -> Iterator[_Taken]:
    """What a function written in Python takes."""
    hints = typing.get_type_hints(function)
    for name, parameter in inspect.signature(function).parameters.items():
        if name == "return_indices" or parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            continue
        try:
            kind = type_of_annotation(hints.get(name, typing.Any))
        except UnknownType:
            kind = tt.ANY
        default = "" if parameter.default is parameter.empty else repr(parameter.default)
        yield name, kind, default, parameter.kind is parameter.KEYWORD_ONLY


def _declared(taken: list[_Taken]) -> str:
    words = [f"{name}: type_of_{name}" + (f"={default}" if default else "") for name, _, default, _ in taken]
    first = next((i for i, (_, _, _, named) in enumerate(taken) if named), None)
    return ", ".join(words if first is None else [*words[:first], "*", *words[first:]])


def _passed(taken: list[_Taken]) -> str:
    return ", ".join(name if i == 0 else f"{name}={name}" for i, (name, _, _, _) in enumerate(taken))

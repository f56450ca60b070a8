"""What graphs of a file refer to by name: all of it must be there, and be weft's own or the file's."""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from typing import Any

from weft.ir.graph import Node, Value
from weft.ir.structure import TRANSFORM, WITH_BACKWARD
from weft.jit.functions import ScriptFunction
from weft.jit.interpreter.code import found_at
from weft.jit.interpreter.later.forms import from_text
from weft.jit.interpreter.later.steps import TRANSFORMS
from weft.jit.module import ScriptModule
from weft.jit.program import Program
from weft.jit.script.frontend.outside import path_of
from weft.ops.op import OPS
from weft.support.errors import ParseError
from weft.tensor.tensor import Tensor
from weft.types.parse import parse_type
from weft.types.tensor_type import ClassType, class_of

Members = Mapping[str, set[str]]


def check_names(program: Program, members: Members) -> None:
    """Raises ParseError for a name that means nothing: `members` are those of the Modules by their types."""
    assert program.graph is not None
    for node in program.graph.walk():
        check = _CHECKS.get(node.op)
        if check is not None:
            check(program, node, members)


def _refuse(program: Program, what: str) -> None:
    raise ParseError(f"the graph of {program.name} {what}, which the file does not have")


def _function(program: Program, node: Node, members: Members) -> None:
    callee = program.functions.get(node.args[0])
    if callee is None:
        return _refuse(program, f"calls {node.args[0]!r}")
    if callee.returns is not parse_type(node.args[2]) or len(callee.parameters) != len(node.args[1]):
        raise ParseError(f"the graph of {program.name} calls {callee.name} with other arguments or results than it has")


def _member(program: Program, node: Node, members: Members) -> None:
    owner, name = node.args[:2]
    if owner is None:
        held = program.captured.get(name)
        is_module = isinstance(held, ScriptModule) and class_of(held._script_name) is node.output.type
        if not is_module and not isinstance(held, (Tensor, enum.Enum)):
            _refuse(program, f"uses the value {name!r}")
        return
    kind = owner.type if isinstance(owner, Value) else None
    if not isinstance(kind, ClassType) or name not in members.get(kind.name, ()):
        _refuse(program, f"uses the member {name!r} of {kind}")


def _enter(program: Program, node: Node, members: Members) -> None:
    if node.args[0] not in program.functions:
        _refuse(program, f"leaves an object by {node.args[0]!r}")


def _object(program: Program, node: Node, members: Members) -> None:
    cls, kind = program.captured.get(node.args[0]), parse_type(node.args[1])
    if not isinstance(cls, type) or not isinstance(kind, ClassType) or kind.name not in members:
        _refuse(program, f"makes an object of the class {node.args[0]!r}")


def _method(program: Program, node: Node, members: Members) -> None:
    kind = node.args[0].type if isinstance(node.args[0], Value) else None
    methods = members.get(kind.name, ()) if isinstance(kind, ClassType) else ()
    if node.args[1] not in methods and "forward()" not in methods:
        _refuse(program, f"calls the method {node.args[1]!r} of {kind}")


def _builtin(program: Program, node: Node, members: Members) -> None:
    path = node.args[0]
    if not is_public(path):
        _refuse(program, f"calls {path!r}, no function of weft's for programs")


def export_opnames(m: ScriptModule | ScriptFunction) -> list[str]:
    """The names of the operators that a program's methods, and all that they call, are made of, sorted:
    `["aten::add.Tensor", "aten::relu"]`.
    """
    programs = [m.__weft_program__] if isinstance(m, ScriptFunction) else []
    for module in () if isinstance(m, ScriptFunction) else m.modules():
        programs += module.__dict__.get("_programs", {}).values()
    for program in programs:  # which grows by those that are called
        programs += [p for p in program.functions.values() if p not in programs]
    nodes = (node for p in programs if p.graph is not None for node in p.graph.walk())
    return sorted({str(node.op.name) for node in nodes})


def is_public(path: Any) -> bool:
    """Whether a path leads to a function of weft's that programs may call: computing ones, nothing that reads or writes
    files.
    """
    if not isinstance(path, str) or any(part.startswith("_") for part in path.split(".")):
        return False
    if path in ("weft.save", "weft.load", "weft.from_file"):
        return False
    space, _, name = path.rpartition(".")
    if space == "weft.Tensor":
        return callable(getattr(Tensor, name, None))
    try:
        return space.startswith("weft") and path_of(found_at(path)) == path
    except (AttributeError, ImportError):
        return False


def _python(program: Program, node: Node, members: Members) -> None:
    _refuse(program, f"calls {node.args[0]!r} of Python's")


def _transform(program: Program, node: Node, members: Members) -> None:
    if node.args[0] not in TRANSFORMS:
        _refuse(program, f"calls {node.args[0]!r}, no function of functions for programs")
    form = from_text(node.args[1])
    if not isinstance(form, dict) or form.keys() != {"given", "options", "taken", "returned"}:
        raise ParseError(f"the graph of {program.name} calls {node.args[0]} with a damaged form")


def _backward(program: Program, node: Node, members: Members) -> None:
    form = from_text(node.args[0])
    (block,) = node.blocks
    if (
        not isinstance(form, dict) or form.keys() != {"carries", "gives", "once"}
        or len(form["carries"]) != len(node.args[2]) or len(form["gives"]) != len(node.args[1])
        or len(block.params) != sum(map(bool, form["carries"]))
        or len(block.results) != sum(map(bool, form["gives"]))
    ):
        raise ParseError(f"the graph of {program.name} has a custom Function with a damaged form")


_CHECKS: dict[Any, Callable[[Program, Node, Members], None]] = {
    OPS["prim::CallFunction"]: _function, OPS["prim::GetAttr"]: _member, OPS["prim::SetAttr"]: _member,
    OPS["prim::CallMethod"]: _method, OPS["prim::CreateObject"]: _object, OPS["prim::Enter"]: _enter,
    OPS["prim::CallBuiltin"]: _builtin, OPS["prim::PythonOp"]: _python,
    TRANSFORM: _transform, WITH_BACKWARD: _backward,
}  # fmt: skip
# whose first argument is the name of a function of the program's
CALLS_BY_NAME = frozenset((OPS["prim::CallFunction"], OPS["prim::Enter"]))

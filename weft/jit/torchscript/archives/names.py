"""What the names in an archive's code mean: `torch`, `ops`, `CONSTANTS`, `__torch__`, and a few functions."""

from __future__ import annotations

import ast
import builtins
import sys
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import weft.nn.functional as F
from weft.jit.script.frontend.classes.from_python import Enumeration
from weft.jit.script.frontend.classes.script_classes import Description
from weft.jit.script.frontend.context import Context
from weft.jit.script.frontend.functions import Builtin, Kwargs, Scripted, TypedBuiltin
from weft.jit.script.frontend.operations import compute
from weft.jit.script.frontend.python.builtins import ANNOTATE, builtin, unwrap
from weft.jit.script.frontend.python.foreign import GradMode, NamedTupleClass
from weft.jit.script.frontend.types import annotated_type
from weft.jit.script.frontend.values import NOTHING, Simple, SugaredValue, TupleValue, constant
from weft.jit.torchscript.archives.code import NUMBERS, Definition, constant_of
from weft.jit.torchscript.archives.composites import composite
from weft.jit.torchscript.archives.older import older_meaning
from weft.jit.torchscript.archives.reading import NEWEST
from weft.jit.torchscript.graphs.calls import as_dtype, call_by_name, make_tensor
from weft.ops.op import PACKETS
from weft.support.errors import ArgumentError
from weft.tensor.device import Device
from weft.types import tensor_type as tt
from weft.types.dtype import float64
from weft.types.tensor_type import TupleType, Type

Values = Sequence[SugaredValue]


class Definitions(Protocol):
    """The functions and classes of an archive, compiled when they are first asked for."""

    constants: tuple[Any, ...]
    version: int  # of the operators that the programs are written for

    def definition(self, name: str) -> Definition | None: ...
    def function(self, definition: Definition) -> Any: ...
    def class_of(self, definition: Definition) -> Description: ...
    def named_tuple(self, definition: Definition) -> TupleType: ...
    def enumeration(self, definition: Definition) -> Any: ...


class Name(SugaredValue):
    """The beginning of a dotted name: `torch`, `ops.prim`, `__torch__.models`."""

    kind = "name"

    def __init__(self, path: str, member: Callable[[Context, ast.AST, str], SugaredValue]) -> None:
        self.path, self.member = path, member

    def attribute(self, ctx: Context, node: ast.AST, name: str) -> SugaredValue:
        return self.member(ctx, node, f"{self.path}.{name}")


def meaning_of(name: str, definitions: Definitions) -> SugaredValue | None:
    """What a name that is no variable means; None for one that means nothing."""
    if name == "torch":
        return Name(name, lambda ctx, node, path: _function("aten", path.partition(".")[2], definitions.version))
    if name == "ops":
        return Name(name, lambda ctx, node, path: Name(path, _of_library))
    if name == "CONSTANTS":
        return Name(name, lambda ctx, node, path: _constant(ctx, node, path, definitions))
    if name == "__torch__":
        return Name(name, lambda ctx, node, path: _defined(ctx, node, path, definitions))
    if name in NUMBERS:
        value = NUMBERS[name]
        return constant(value, tt.FLOAT if isinstance(value, float) else tt.COMPLEX)
    return _FUNCTIONS.get(name) or (builtin(getattr(builtins, name)) if name in _PYTHON else None)


_PYTHON = ("int", "float", "bool", "str", "complex", "print", "range", "getattr", "isinstance", "sorted", "ord", "chr",
           "hex", "oct", "bin", "len")  # fmt: skip


# ---- operators
def _of_library(ctx: Context, node: ast.AST, path: str) -> SugaredValue:
    _, library, name = path.split(".")
    if library not in ("prim", "aten") and f"{library}::{name}" not in PACKETS:
        ctx.fail(
            node,
            f"the archive calls {library}::{name}, an operator of another library: define one of this name "
            "with weft.library before the archive is loaded",
        )
    return _function(library, name)


def _function(library: str, name: str, version: int = NEWEST) -> SugaredValue:
    special = _SPECIAL.get(f"{library}::{name}") or older_meaning(f"{library}::{name}", version)
    if special is not None:
        return Builtin(name, special)
    return Builtin(name, lambda ctx, node, args, kwargs: _operator(ctx, node, f"{library}::{name}", args, kwargs))


def _operator(ctx: Context, node: ast.AST, kind: str, args: Values, kwargs: Kwargs) -> SugaredValue:
    """A call of an operator by its name: one result, several as a tuple, or what a writing function writes to."""
    first = args[0] if args else None
    name = kind.partition("::")[2]
    if kind.startswith("prim::") and len(args) == 1 and isinstance(first, Simple) and _has_attributes(first.type):
        if name == "dtype":  # a number in TorchScript
            return ctx.prim("dtype_number", node, first)
        return first.attribute(ctx, node, name)
    program = composite(kind)
    if program is not None:
        return Scripted(program).call(ctx, node, args, kwargs, 1)
    try:
        results = call_by_name(ctx, node, kind, args, kwargs)
    except ArgumentError as problem:
        function = _public(kind)
        if function is None:
            return _absent(ctx, node, str(problem))
        return ctx.program.wrap(ctx, function, name).call(ctx, node, args, kwargs, 1)  # type: ignore[no-any-return]
    if len(results) > 1:
        return TupleValue(results)
    return results[0] if results else NOTHING if first is None else first


def _public(kind: str) -> Any:
    """The function of weft's with the name and the arguments of an operator of PyTorch; None where there is none."""
    library, _, name = kind.partition("::")
    if library != "aten" or name.startswith("_") or kind in PACKETS:
        return None
    return getattr(sys.modules["weft"], name, None) or getattr(F, name, None)


def _has_attributes(kind: Type) -> bool:
    return isinstance(kind, tt.TensorType) or kind is tt.DEVICE


def _absent(ctx: Context, node: ast.AST, problem: str) -> SugaredValue:
    """A call that weft does not have: an error when the program comes there, which few do in branches for other devices
    and layouts.
    """
    ctx.prim("RaiseException", node, constant(f"weft.jit.load: {problem}", tt.STR), constant("RuntimeError", tt.STR))
    placeholder = ctx.emit(ctx.op("prim::Uninitialized"), (str(tt.TENSOR),), node)
    return Simple(placeholder.operand, tt.TENSOR)


def _to(ctx: Context, node: ast.AST, args: Values, kwargs: Kwargs) -> SugaredValue:
    """`to(x, device, dtype)`, `to(x, dtype)`, `to(x, other)`: what says nothing is left out."""
    x, *rest = (a.as_value(ctx, node) for a in args)
    flags = [v for v in rest if v.type is tt.BOOL]
    named = {n: v.as_value(ctx, node) for n, v in kwargs.items() if n in ("dtype", "device", "non_blocking", "copy")}
    named.update(zip(("non_blocking", "copy"), flags, strict=False))
    plain = [as_dtype(ctx, node, v) for v in rest if v.type is not tt.BOOL and v.type is not tt.NONE]
    said: Kwargs = {n: as_dtype(ctx, node, v) if n == "dtype" else v for n, v in named.items() if v.type is not tt.NONE}
    if not plain and not {"dtype", "device"} & said.keys():
        return x
    return x.attribute(ctx, node, "to").call(ctx, node, plain, said, 1)


def _make_tensor(ctx: Context, node: ast.AST, args: Values, kwargs: Kwargs) -> SugaredValue:
    named = [kwargs.get(name) for name in ("dtype", "device", "requires_grad")]
    values = [a.as_value(ctx, node) for a in args] + [NOTHING if v is None else v.as_value(ctx, node) for v in named]
    return make_tensor(ctx, node, values)


def _of_number(ctx: Context, node: ast.AST, args: Values, kwargs: Kwargs) -> SugaredValue:
    """A number as a tensor, of as many bits as Python's has."""
    value = args[0].as_value(ctx, node)
    dtype = constant(float64, tt.DTYPE) if value.type is tt.FLOAT else NOTHING
    return make_tensor(ctx, node, [value, dtype, NOTHING, NOTHING])


def _warn(ctx: Context, node: ast.AST, args: Values, kwargs: Kwargs) -> SugaredValue:
    ctx.prim("warn", node, args[0].as_value(ctx, node))
    return NOTHING


def _device(ctx: Context, node: ast.AST, args: Values, kwargs: Kwargs) -> SugaredValue:
    constructor = builtin(Device)
    assert constructor is not None
    return constructor.call(ctx, node, args, kwargs, 1)


def _format(ctx: Context, node: ast.AST, args: Values, kwargs: Kwargs) -> SugaredValue:
    return args[0].as_value(ctx, node).attribute(ctx, node, "format").call(ctx, node, args[1:], kwargs, 1)


def _percent(ctx: Context, node: ast.AST, args: Values, kwargs: Kwargs) -> SugaredValue:
    values = args[1:]
    return compute(ctx, node, ast.Mod, args[0], values[0] if len(values) == 1 else TupleValue(values))


def _index_of_range(ctx: Context, node: ast.AST, args: Values, kwargs: Kwargs) -> SugaredValue:
    """`__derive_index(i, start, step)`: the number at place i of a range."""
    at, start, step = args
    return compute(ctx, node, ast.Add, start, compute(ctx, node, ast.Mult, at, step))


def _raise(ctx: Context, node: ast.AST, args: Values, kwargs: Kwargs) -> SugaredValue:
    message = args[0].as_value(ctx, node)
    kind = args[1].as_value(ctx, node).operand if len(args) > 1 else "Exception"
    name = str(kind).rpartition(".")[2]
    cls = getattr(builtins, name, None)
    is_exception = isinstance(cls, type) and issubclass(cls, Exception)
    ctx.prim("RaiseException", node, message, constant(name if is_exception else "Exception", tt.STR))
    return NOTHING


_SPECIAL: dict[str, Callable[[Context, ast.AST, Values, Kwargs], SugaredValue]] = {
    "aten::tensor": _make_tensor, "aten::warn": _warn, "aten::device": _device, "aten::format": _format,
    "aten::percentFormat": _percent, "aten::__derive_index": _index_of_range, "prim::RaiseException": _raise,
    "prim::NumToTensor": _of_number, "aten::to": _to, "aten::_unwrap_optional": unwrap,
    "prim::unchecked_unwrap_optional": unwrap,
}  # fmt: skip


# ---- types and values
def _uninitialized(ctx: Context, node: ast.Call, expected: Type | None) -> SugaredValue:
    kind = annotated_type(ctx, node.args[0])
    return Simple(ctx.emit(ctx.op("prim::Uninitialized"), (str(kind),), node).operand, kind)


def _cast(ctx: Context, node: ast.Call, expected: Type | None) -> SugaredValue:
    kind, value = annotated_type(ctx, node.args[0]), ctx.value(node.args[1])
    return Simple(ctx.emit(ctx.op("prim::unchecked_cast"), (value.operand, str(kind)), node).operand, kind)


_FUNCTIONS: dict[str, SugaredValue] = {
    "annotate": ANNOTATE, "uninitialized": TypedBuiltin(_uninitialized), "unchecked_cast": TypedBuiltin(_cast),
    "unwrap_optional": Builtin("unwrap_optional", unwrap, (1, 1), ()),
}  # fmt: skip


def _constant(ctx: Context, node: ast.AST, path: str, definitions: Definitions) -> SugaredValue:
    name = path.partition(".")[2]
    value = constant_of(definitions.constants, name, node, ctx.source)
    wrapped = ctx.program.wrap(ctx, value, name)
    if wrapped is None:
        ctx.fail(node, f"the constant {name} of the archive is a {type(value).__name__}, which programs cannot hold")
    return wrapped  # type: ignore[no-any-return]


# ---- functions and classes of the archive
def _defined(ctx: Context, node: ast.AST, path: str, definitions: Definitions) -> SugaredValue:
    mode = _GRAD_MODES.get(path)
    if mode is not None:
        return _GradModeClass(mode)
    definition = definitions.definition(path)
    if definition is None:
        return Name(path, lambda ctx, node, longer: _defined(ctx, node, longer, definitions))
    if definition.kind == "function":
        return Scripted(definitions.function(definition))
    if definition.kind == "NamedTuple":
        return NamedTupleClass(None, definitions.named_tuple(definition))
    if definition.kind == "Enum":
        return Enumeration(definitions.enumeration(definition))
    if definition.kind == "object":
        return _ObjectClass(definitions.class_of(definition))
    ctx.fail(node, f"{path} is a {definition.kind}, of which a program of an archive makes no objects")


class _GradModeClass(SugaredValue):
    """`no_grad` as a class: what its `__new__` gives is a mode, whose `__init__` does nothing."""

    kind = "class of modes"

    def __init__(self, mode: bool) -> None:
        self.mode = mode

    def attribute(self, ctx: Context, node: ast.AST, name: str) -> SugaredValue:
        if name != "__new__":
            self.refuse(ctx, node, f"has no attribute {name!r}")
        return Builtin(name, lambda *_: _Mode(self.mode))


class _Mode(GradMode):
    def attribute(self, ctx: Context, node: ast.AST, name: str) -> SugaredValue:
        if name != "__init__":
            self.refuse(ctx, node, f"has no attribute {name!r}")
        return Builtin(name, lambda *_: NOTHING)


_GRAD_MODES = {
    "__torch__.torch.autograd.grad_mode.no_grad": False,
    "__torch__.torch.autograd.grad_mode.enable_grad": True,
    "__torch__.torch.autograd.grad_mode.inference_mode": False,
}


class _ObjectClass(SugaredValue):
    """A class whose objects programs make, in two steps: `C.__new__(C)`, then its `__init__`."""

    kind = "class"

    def __init__(self, owner: Description) -> None:
        self.owner = owner

    def attribute(self, ctx: Context, node: ast.AST, name: str) -> SugaredValue:
        if name != "__new__":
            self.refuse(ctx, node, f"{self.owner.cls.__name__} has no attribute {name!r}")
        return Builtin(name, self._new)

    def _new(self, ctx: Context, node: ast.AST, args: Values, kwargs: Kwargs) -> SugaredValue:
        held = ctx.program.keep(self.owner.cls, self.owner.cls.__name__)
        instance = ctx.emit(ctx.op("prim::CreateObject"), (held, str(self.owner.type)), node)
        return Simple(instance.operand, self.owner.type)

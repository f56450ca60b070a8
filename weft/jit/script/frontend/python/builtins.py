"""Python's builtin functions and types as a scripted program calls them."""

from __future__ import annotations

import ast
import builtins
import collections
import types
import warnings
from collections.abc import Sequence
from typing import Any

from weft.autograd.api import grad
from weft.jit.interpreter.futures import fork, wait
from weft.jit.script.frontend.branches import raise_if
from weft.jit.script.frontend.classes.script_classes import magic
from weft.jit.script.frontend.conditions import TYPES_OF, condition, has_attribute
from weft.jit.script.frontend.context import Context
from weft.jit.script.frontend.functions import Args, Builtin, Entry, Kwargs, TypedBuiltin, call_builtin
from weft.jit.script.frontend.iterables import (
    Iterable,
    enumerated,
    iterated,
    loop_over,
    range_of,
    refuse_lengths,
    zipped,
)
from weft.jit.script.frontend.python.foreign import ExceptionClass
from weft.jit.script.frontend.python.numbers import NUMBERS, values_of
from weft.jit.script.frontend.python.sorting import sorted_list
from weft.jit.script.frontend.subscripts import slice_of
from weft.jit.script.frontend.types import annotated_type, python_value
from weft.jit.script.frontend.values import NOTHING, ListValue, Simple, SugaredValue, TupleValue, constant
from weft.jit.script.marks import is_scripting, is_tracing, isinstance_of, unwrap_optional
from weft.ops.op import OPS
from weft.tensor.device import Device
from weft.tensor.tensor import Tensor
from weft.types import tensor_type as tt
from weft.types.tensor_type import ClassType, DictType, ListType, OptionalType, TupleType, Type, dict_of


def _print(ctx: Context, node: ast.AST, args: Args, kwargs: Kwargs) -> SugaredValue:
    words = {name: value.as_value(ctx, node).operand for name, value in kwargs.items()}
    ctx.emit(
        ctx.op("prim::Print"),
        (tuple(v.operand for v in values_of(ctx, node, args)), words.get("sep", " "), words.get("end", "\n")),
        node,
        (),
    )
    return NOTHING


def _range(ctx: Context, node: ast.AST, args: Args, kwargs: Kwargs) -> SugaredValue:
    return range_of(ctx, node, values_of(ctx, node, args))


def _enumerate(ctx: Context, node: ast.AST, args: Args, kwargs: Kwargs) -> SugaredValue:
    start = args[1] if len(args) > 1 else kwargs.get("start", constant(0, tt.INT))
    return enumerated(ctx, node, iterated(ctx, node, args[0]), start.as_value(ctx, node))


def _zip(ctx: Context, node: ast.AST, args: Args, kwargs: Kwargs) -> SugaredValue:
    parts = [iterated(ctx, node, a) for a in args]
    strict = kwargs.get("strict", constant(False, tt.BOOL)).as_value(ctx, node)
    if not strict.is_constant:
        ctx.fail(node, "zip: whether it is strict must be written in the program")
    if strict.operand:
        refuse_lengths(ctx, node, parts)
    return zipped(ctx, node, parts)


def _length(ctx: Context, node: ast.AST, args: Args, kwargs: Kwargs) -> SugaredValue:
    (value,) = args
    returned = magic(ctx, node, value, "__len__")
    if returned is not None:
        return returned
    if isinstance(value, Iterable) and value.length is not None:
        return value.length
    if not isinstance(value, (Simple, TupleValue)):
        return constant(len(value.elements(ctx, node)), tt.INT)
    if type(value) is TupleValue or (isinstance(value, Simple) and isinstance(value.type, (TupleType, ClassType))):
        return constant(len(value.elements(ctx, node)), tt.INT)
    return ctx.prim("len", node, value.as_value(ctx, node))


def _reversed(ctx: Context, node: ast.AST, args: Args, kwargs: Kwargs) -> SugaredValue:
    (value,) = args
    if isinstance(value, Simple) and not isinstance(value.type, TupleType):
        return ctx.prim("reversed", node, value)
    return iterated(ctx, node, value).turned(ctx, node)


def _list(ctx: Context, node: ast.AST, args: Args, kwargs: Kwargs) -> SugaredValue:
    if not args:
        return ListValue([])
    over = args[0]
    if isinstance(over, Iterable) and over.items is None:
        return _listed(ctx, node, over)
    if isinstance(over, Simple):
        return ctx.prim("list", node, over)
    return ListValue(over.elements(ctx, node)).as_value(ctx, node)


def _listed(ctx: Context, node: ast.AST, over: Iterable) -> SugaredValue:
    """`list(range(n))`: a loop that appends."""
    construct = ctx.append(ctx.op("prim::ListConstruct"), ((), ""), (tt.list_of(tt.INT),), node)

    def add(item: SugaredValue) -> None:
        value = item.as_value(ctx, node)
        construct.output.type = tt.list_of(value.type)
        ctx.prim("append", node, Simple(construct.output, construct.output.type), value)

    loop_over(ctx, node, over, add)
    construct.args = ((), str(construct.output.type))
    return Simple(construct.output, construct.output.type)


def _slice(ctx: Context, node: ast.AST, args: Args, kwargs: Kwargs) -> SugaredValue:
    return slice_of(ctx, node, args)


def _dict(ctx: Context, node: ast.AST, args: Args, kwargs: Kwargs) -> SugaredValue:
    """`dict(of, name=value)`: of a dict, or of pairs."""
    if args:
        combined = _dict_of(ctx, node, args[0])
        for name, value in kwargs.items():
            _put(ctx, node, combined, constant(name, tt.STR), value)
        return combined
    if not kwargs and isinstance(ctx.expected, DictType):
        return ctx.emit(ctx.op("prim::DictConstruct"), ((), (), str(ctx.expected)), node)
    values = [v.as_value(ctx, node) for v in kwargs.values()]
    kind = dict_of(tt.STR, values[0].type if values else tt.TENSOR)
    return ctx.emit(
        ctx.op("prim::DictConstruct"),
        (tuple(kwargs), tuple(v.operand for v in values), "" if values else str(kind)),
        node,
    )


def _dict_of(ctx: Context, node: ast.AST, over: SugaredValue) -> Simple:
    if isinstance(over, TupleValue) and over.items:
        return _dict_of_pairs(ctx, node, [p.elements(ctx, node, 2) for p in over.items])
    if isinstance(over, Simple) and isinstance(over.type, DictType):
        return ctx.prim("copy", node, over)
    kind = ctx.expected if isinstance(ctx.expected, DictType) else dict_of(tt.STR, tt.TENSOR)
    construct = ctx.append(ctx.op("prim::DictConstruct"), ((), (), str(kind)), (kind,), node)

    def add(pair: SugaredValue) -> None:
        key, value = (v.as_value(ctx, node) for v in pair.elements(ctx, node, 2))
        construct.output.type = dict_of(key.type, value.type)
        ctx.prim("setitem", node, Simple(construct.output, construct.output.type), key, value)

    loop_over(ctx, node, iterated(ctx, node, over), add)
    construct.args = ((), (), str(construct.output.type))
    return Simple(construct.output, construct.output.type)


def _put(ctx: Context, node: ast.AST, target: Simple, key: Simple, value: SugaredValue) -> None:
    inner = getattr(target.type, "value", None)
    ctx.prim("setitem", node, target, key, ctx.coerced(value.as_value(ctx, node, inner), inner, node, "the value"))


def _dict_of_pairs(ctx: Context, node: ast.AST, pairs: Sequence[Sequence[SugaredValue]]) -> Simple:
    keys = tuple(p[0].as_value(ctx, node).operand for p in pairs)
    values = tuple(p[1].as_value(ctx, node).operand for p in pairs)
    return ctx.emit(ctx.op("prim::DictConstruct"), (keys, values, ""), node)


def _tuple(ctx: Context, node: ast.AST, args: Args, kwargs: Kwargs) -> SugaredValue:
    return TupleValue(args[0].elements(ctx, node)) if args else TupleValue([])


def _sorted(ctx: Context, node: ast.AST, args: Args, kwargs: Kwargs) -> SugaredValue:
    reverse = kwargs.get("reverse", constant(False, tt.BOOL)).as_value(ctx, node)
    value = _list(ctx, node, args, {}).as_value(ctx, node)
    return sorted_list(ctx, node, value, kwargs.get("key"), reverse)


def _bool(ctx: Context, node: ast.Call, expected: Type | None) -> SugaredValue:
    if len(node.args) != 1:
        ctx.fail(node, "bool() takes one argument")
    return condition(ctx, node.args[0]).value


def _annotate(ctx: Context, node: ast.Call, expected: Type | None) -> SugaredValue:
    if len(node.args) != 2:
        ctx.fail(node, "annotate takes a type and a value")
    kind = annotated_type(ctx, node.args[0])
    return ctx.coerced(ctx.value(node.args[1], kind), kind, node.args[1], "the value")


def _instance(ctx: Context, node: ast.Call, expected: Type | None) -> SugaredValue:
    return condition(ctx, node).value


def _getattr(ctx: Context, node: ast.Call, expected: Type | None) -> SugaredValue:
    name = ctx.value(node.args[1]) if len(node.args) > 1 else None
    if name is None or not isinstance(name.operand, str):
        ctx.fail(node, "getattr takes an object and a name that is known while compiling")
    if len(node.args) == 3 and not has_attribute(ctx, node, node.args[0], name.operand):
        return ctx.expression(node.args[2], expected)
    return ctx.expression(node.args[0]).attribute(ctx, node, name.operand)


def unwrap(ctx: Context, node: ast.AST, args: Args, kwargs: Kwargs) -> SugaredValue:
    """What is not None, or an error when the program runs."""
    value = args[0].as_value(ctx, node)
    if not isinstance(value.type, OptionalType):
        return value
    missing = ctx.prim("is_", node, value, constant(None, tt.NONE))
    raise_if(ctx, node, missing, "Unwrapping null optional", "AssertionError")
    kind = value.type.inner
    return ctx.emit(ctx.op("prim::unchecked_cast"), (value.operand, str(kind)), node, (kind,))


def _device(ctx: Context, node: ast.AST, args: Args, kwargs: Kwargs) -> SugaredValue:
    """`weft.device("cpu")`, of what is known while compiling."""
    parts = [a.as_value(ctx, node).operand for a in (*args, *kwargs.values())]
    if any(not isinstance(p, (str, int)) for p in parts):
        ctx.fail(node, "weft.device takes a text, and a number, that are known while compiling")
    name = constant(str.__str__(Device(*parts)), tt.STR)
    return call_builtin(ctx, node, "weft.device", Device, [name], {}, tt.DEVICE)


def _warn(ctx: Context, node: ast.AST, args: Args, kwargs: Kwargs) -> SugaredValue:
    """`warnings.warn(text)`; a category, or how many frames up, says nothing in a program."""
    ctx.prim("warn", node, (args[0] if args else kwargs["message"]).as_value(ctx, node))
    return NOTHING


def _hash(ctx: Context, node: ast.AST, args: Args, kwargs: Kwargs) -> SugaredValue:
    (value,) = args
    returned = magic(ctx, node, value, "__hash__")
    return ctx.prim("hash", node, value.as_value(ctx, node)) if returned is None else returned


def _fork(ctx: Context, node: ast.AST, args: Args, kwargs: Kwargs) -> SugaredValue:
    """`fork(f, *args)`: the call, whose result is handed out by `wait`."""
    return TupleValue([args[0].call(ctx, node, args[1:], kwargs, 1)], "Future", ("value",)).as_value(ctx, node)


def _wait(ctx: Context, node: ast.AST, args: Args, kwargs: Kwargs) -> SugaredValue:
    (value,) = args
    if not isinstance(value, Simple) or str(value.type)[:18] != "NamedTuple(Future)":
        ctx.fail(node, "wait takes what fork gave")
    return value.elements(ctx, node)[0]


def _grad(ctx: Context, node: ast.AST, args: Args, kwargs: Kwargs) -> SugaredValue:
    """`weft.autograd.grad(outputs, inputs)`: a list, None for an input that has no part in the outputs."""
    operands = tuple(v.operand for v in values_of(ctx, node, (*args, *kwargs.values())))
    call_args = ("weft.autograd.grad", operands, tuple(kwargs), "List(Tensor?)")
    return ctx.prim("list", node, ctx.emit(ctx.op("prim::CallBuiltin"), call_args, node))


ANNOTATE = TypedBuiltin(_annotate)
_NONE, _ONE, _SEVERAL = (0, 0), (1, 1), (1, 1 << 20)
_PYTHON_TYPES: dict[Any, Any] = {
    int: tt.INT,
    float: tt.FLOAT,
    bool: tt.BOOL,
    str: tt.STR,
    complex: tt.COMPLEX,
    type(None): tt.NONE,
    list: ListType,
    tuple: TupleType,
    dict: DictType,
    Tensor: tt.TENSOR,
}


def _types_of(ctx: Context, node: ast.expr) -> list[Any]:
    """The types that the second argument of isinstance names: types, and kinds of types (any list)."""
    if isinstance(node, ast.Tuple):
        return [t for part in node.elts for t in _types_of(ctx, part)]
    value = python_value(ctx, node)
    values = value if isinstance(value, tuple) else (value,)
    return [
        _PYTHON_TYPES[v] if isinstance(v, type) and v in _PYTHON_TYPES else annotated_type(ctx, node) for v in values
    ]


TYPES_OF.append(_types_of)
_COMPILED: dict[str, SugaredValue] = {
    **{
        name: Builtin(name, function, counts, words)
        for name, (function, counts, words) in {
            "print": (_print, (0, 1 << 20), ("sep", "end")),
            "range": (_range, (1, 3), ()),
            "enumerate": (_enumerate, (1, 2), ("start",)),
            "zip": (_zip, _SEVERAL, ("strict",)),
            "len": (_length, _ONE, ()),
            "reversed": (_reversed, _ONE, ()),
            "list": (_list, (0, 1), ()),
            "dict": (_dict, (0, 1), None),
            "slice": (_slice, (1, 3), ()),
            "tuple": (_tuple, (0, 1), ()),
            "sorted": (_sorted, _ONE, ("key", "reverse")),
            "hash": (_hash, _ONE, ()),
        }.items()
    },
    **NUMBERS,
    **{
        name: Entry(OPS[f"prim::{name}"])
        for name in ("ord", "chr", "hex", "oct", "bin", "divmod")
    },
    "bool": TypedBuiltin(_bool),
    "getattr": TypedBuiltin(_getattr),
    "isinstance": TypedBuiltin(_instance),
    "hasattr": TypedBuiltin(_instance),
}


_OWN: dict[Any, SugaredValue] = {
    collections.OrderedDict: Builtin("OrderedDict", _dict, (0, 1)),
    is_scripting: Builtin("is_scripting", lambda ctx, node, args, kwargs: constant(True, tt.BOOL), _NONE, ()),
    is_tracing: Builtin("is_tracing", lambda ctx, node, args, kwargs: constant(False, tt.BOOL), _NONE, ()),
    isinstance_of: TypedBuiltin(_instance),
    unwrap_optional: Builtin("_unwrap_optional", unwrap, _ONE, ()),
    Device: Builtin("device", _device),
    fork: Builtin("fork", _fork, _SEVERAL),
    grad: Builtin("grad", _grad),
    wait: Builtin("wait", _wait, _ONE, ()),
    warnings.warn: Builtin("warn", _warn),
}


def builtin(value: Any) -> SugaredValue | None:
    """What one of Python's builtins, or a function of weft.jit's, means in a program, or None."""
    if isinstance(value, (type, types.FunctionType, types.BuiltinFunctionType)) and value in _OWN:
        return _OWN[value]
    name: str = getattr(value, "__name__", "")
    if name in _COMPILED and getattr(builtins, name, None) is value:
        return _COMPILED[name]
    if isinstance(value, type) and issubclass(value, Exception):
        return ExceptionClass(_python_exception(value))
    return None


def _python_exception(value: type) -> str:
    """The most special of Python's own exceptions that a class is: what a program raises in its place."""
    own = [c.__name__ for c in value.__mro__ if c.__module__ == "builtins"]
    plain = ("RuntimeError", "Exception", "BaseException", "object")
    return own[0] if value.__module__ == "builtins" else next((name for name in own if name not in plain), own[0])

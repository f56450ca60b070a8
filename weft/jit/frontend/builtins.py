"""Python's builtin functions and types as a scripted program calls them."""

from __future__ import annotations

import ast
import builtins
import types
import warnings
from collections.abc import Sequence
from typing import Any

from weft.autograd.api import grad
from weft.jit.frontend.classes.script_classes import magic
from weft.jit.frontend.conditions import TYPES_OF, condition, has_attribute
from weft.jit.frontend.context import Context
from weft.jit.frontend.functions import Builtin, Entry, ExceptionClass, TypedBuiltin
from weft.jit.frontend.iterables import Iterable, enumerated, iterated, range_of, zipped
from weft.jit.frontend.matching import call_operator
from weft.jit.frontend.sorting import sorted_list
from weft.jit.frontend.types import annotated_type, python_value
from weft.jit.frontend.values import NOTHING, ListValue, Simple, SugaredValue, TupleValue, constant
from weft.jit.futures import fork, wait
from weft.jit.marks import is_scripting, is_tracing, isinstance_of, unwrap_optional
from weft.ops.op import OPS
from weft.tensor.device import Device
from weft.tensor.tensor import Tensor
from weft.types import tensor_type as tt
from weft.types.tensor_type import ClassType, DictType, ListType, OptionalType, TensorType, TupleType, Type, dict_of

Args = Sequence[SugaredValue]
Kwargs = dict[str, SugaredValue]


def _values(ctx: Context, node: ast.AST, args: Args) -> list[Simple]:
    return [a.as_value(ctx, node) for a in args]


def _print(ctx: Context, node: ast.AST, args: Args, kwargs: Kwargs) -> SugaredValue:
    words = {name: kwargs.pop(name).as_value(ctx, node).operand for name in ("sep", "end") if name in kwargs}
    if kwargs:
        ctx.fail(node, f"print() takes sep= and end= here, not {', '.join(kwargs)}")
    ctx.emit(
        ctx.op("prim::Print"),
        (tuple(v.operand for v in _values(ctx, node, args)), words.get("sep", " "), words.get("end", "\n")),
        node,
        (),
    )
    return NOTHING


def _range(ctx: Context, node: ast.AST, args: Args, kwargs: Kwargs) -> SugaredValue:
    return range_of(ctx, node, _values(ctx, node, args))


def _enumerate(ctx: Context, node: ast.AST, args: Args, kwargs: Kwargs) -> SugaredValue:
    start = args[1] if len(args) > 1 else kwargs.get("start", constant(0, tt.INT))
    return enumerated(ctx, node, iterated(ctx, node, args[0]), start.as_value(ctx, node))


def _zip(ctx: Context, node: ast.AST, args: Args, kwargs: Kwargs) -> SugaredValue:
    if not args:
        ctx.fail(node, "zip needs something to go over")
    return zipped(ctx, node, [iterated(ctx, node, a) for a in args])


def _length(ctx: Context, node: ast.AST, args: Args, kwargs: Kwargs) -> SugaredValue:
    (value,) = _exactly(ctx, node, "len", args, 1)
    found = magic(ctx, node, value, "__len__")
    if found is not None:
        return found
    if isinstance(value, Iterable) and value.length is not None:
        return value.length
    if not isinstance(value, (Simple, TupleValue)):
        return constant(len(value.elements(ctx, node)), tt.INT)
    if type(value) is TupleValue or (isinstance(value, Simple) and isinstance(value.type, (TupleType, ClassType))):
        return constant(len(value.elements(ctx, node)), tt.INT)
    return ctx.prim("len", node, value.as_value(ctx, node))


def _exactly(ctx: Context, node: ast.AST, name: str, args: Args, *counts: int) -> Args:
    if len(args) not in counts:
        ctx.fail(node, f"{name}() takes {' or '.join(map(str, counts))} arguments, {len(args)} were given")
    return args


def _extremum(name: str) -> Builtin:
    def compile(ctx: Context, node: ast.AST, args: Args, kwargs: Kwargs) -> SugaredValue:
        if len(args) > 1:
            found = args[0].as_value(ctx, node)
            for other in args[1:]:
                found = _two(ctx, node, name, found, other.as_value(ctx, node))
            return found
        (value,) = _exactly(ctx, node, name, args, 1)
        simple = (ListValue(value.items) if isinstance(value, TupleValue) else value).as_value(ctx, node)
        if isinstance(simple.type, TensorType):
            return call_operator(ctx, node, f"aten::{name}", [simple])
        return ctx.prim(
            f"{name}_of", node, ctx.prim("list", node, simple) if isinstance(simple.type, TupleType) else simple
        )

    return Builtin(name, compile)


def _two(ctx: Context, node: ast.AST, name: str, a: Simple, b: Simple) -> Simple:
    if {a.type, b.type} == {tt.INT, tt.FLOAT}:
        a, b = (ctx.coerced(v, tt.FLOAT, node) for v in (a, b))
    if isinstance(a.type, TensorType) and isinstance(b.type, TensorType):
        return call_operator(ctx, node, f"aten::{name}", [a, b]).as_value(ctx, node)
    return ctx.prim(name, node, a, b)


def _absolute(ctx: Context, node: ast.AST, args: Args, kwargs: Kwargs) -> SugaredValue:
    found = magic(ctx, node, args[0], "__abs__") if args else None
    if found is not None:
        return found
    (value,) = _values(ctx, node, _exactly(ctx, node, "abs", args, 1))
    return (
        call_operator(ctx, node, "aten::abs", [value])
        if isinstance(value.type, TensorType)
        else ctx.prim("abs", node, value)
    )


def _round(ctx: Context, node: ast.AST, args: Args, kwargs: Kwargs) -> SugaredValue:
    values = _values(ctx, node, _exactly(ctx, node, "round", args, 1, 2))
    return (
        call_operator(ctx, node, "aten::round", values)
        if isinstance(values[0].type, TensorType)
        else ctx.prim("round", node, *values)
    )


def _pow(ctx: Context, node: ast.AST, args: Args, kwargs: Kwargs) -> SugaredValue:
    from weft.jit.frontend.operations import compute  # operations stand beside this module

    base, exponent = _exactly(ctx, node, "pow", args, 2)
    return compute(ctx, node, ast.Pow, base, exponent)


def _sum(ctx: Context, node: ast.AST, args: Args, kwargs: Kwargs) -> SugaredValue:
    value = args[0]
    simple = (ListValue(value.items) if isinstance(value, TupleValue) else value).as_value(ctx, node)
    if isinstance(simple.type, TensorType):
        return call_operator(ctx, node, "aten::sum", [simple, ListValue([constant(0, tt.INT)])])
    return ctx.prim("sum", node, simple, *_values(ctx, node, args[1:]))


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
    from weft.jit.frontend.iterables import loop_over

    made = ctx.append(ctx.op("prim::ListConstruct"), ((), ""), (tt.list_of(tt.INT),), node)

    def add(item: SugaredValue) -> None:
        value = item.as_value(ctx, node)
        made.output.type = tt.list_of(value.type)
        ctx.prim("append", node, Simple(made.output, made.output.type), value)

    loop_over(ctx, node, over, add)
    made.args = ((), str(made.output.type))
    return Simple(made.output, made.output.type)


def _dict(ctx: Context, node: ast.AST, args: Args, kwargs: Kwargs) -> SugaredValue:
    if args and not kwargs and isinstance(args[0], TupleValue):
        return _dict_of_pairs(ctx, node, [p.elements(ctx, node, 2) for p in args[0].items])
    if args:
        value = args[0].as_value(ctx, node)
        if not isinstance(value.type, DictType) or kwargs:
            ctx.fail(node, "dict() takes a dict, a list of pairs that is written out, or names with values")
        return ctx.prim("copy", node, value)
    if not kwargs and isinstance(ctx.expected, DictType):
        return ctx.emit(ctx.op("prim::DictConstruct"), ((), (), str(ctx.expected)), node)
    values = [v.as_value(ctx, node) for v in kwargs.values()]
    kind = dict_of(tt.STR, values[0].type if values else tt.TENSOR)
    return ctx.emit(
        ctx.op("prim::DictConstruct"),
        (tuple(kwargs), tuple(v.operand for v in values), "" if values else str(kind)),
        node,
    )


def _dict_of_pairs(ctx: Context, node: ast.AST, pairs: Sequence[Sequence[SugaredValue]]) -> SugaredValue:
    keys = tuple(p[0].as_value(ctx, node).operand for p in pairs)
    values = tuple(p[1].as_value(ctx, node).operand for p in pairs)
    return ctx.emit(ctx.op("prim::DictConstruct"), (keys, values, ""), node)


def _tuple(ctx: Context, node: ast.AST, args: Args, kwargs: Kwargs) -> SugaredValue:
    return TupleValue(args[0].elements(ctx, node)) if args else TupleValue([])


def _sorted(ctx: Context, node: ast.AST, args: Args, kwargs: Kwargs) -> SugaredValue:
    reverse = kwargs.get("reverse", constant(False, tt.BOOL)).as_value(ctx, node)
    if set(kwargs) - {"reverse", "key"}:
        ctx.fail(node, f"sorted() takes key= and reverse=, not {', '.join(set(kwargs) - {'reverse', 'key'})}")
    value = _list(ctx, node, args[:1], {}).as_value(ctx, node)
    return sorted_list(ctx, node, value, kwargs.get("key"), reverse)


def _bool(ctx: Context, node: ast.Call, expected: Type | None) -> SugaredValue:
    if len(node.args) != 1:
        ctx.fail(node, "bool() takes one argument")
    return condition(ctx, node.args[0]).value


def _conversion(name: str) -> Builtin:
    empty = {"int": (0, tt.INT), "float": (0.0, tt.FLOAT), "str": ("", tt.STR), "complex": (0j, tt.COMPLEX)}[name]

    def compile(ctx: Context, node: ast.AST, args: Args, kwargs: Kwargs) -> SugaredValue:
        found = magic(ctx, node, args[0], f"__{name}__") if len(args) == 1 else None
        if found is not None:
            return found
        values = _values(ctx, node, args)
        return constant(*empty) if not values else ctx.prim(name, node, *values)

    return Builtin(name, compile)


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


def _unwrap(ctx: Context, node: ast.AST, args: Args, kwargs: Kwargs) -> SugaredValue:
    """What is not None, or an error when the program runs."""
    value = args[0].as_value(ctx, node)
    if not isinstance(value.type, OptionalType):
        return value
    missing = ctx.prim("is_", node, value, constant(None, tt.NONE))
    with ctx.block() as inner:
        ctx.prim(
            "RaiseException", node, constant("Unwrapping null optional", tt.STR), constant("AssertionError", tt.STR)
        )
        raising = inner.block(())
    with ctx.block() as inner:
        going_on = inner.block(())
    ctx.append(ctx.op("prim::If"), (missing.operand,), (), node, (raising, going_on))
    kind = value.type.inner
    return ctx.emit(ctx.op("prim::unchecked_cast"), (value.operand, str(kind)), node, (kind,))


def _device(ctx: Context, node: ast.AST, args: Args, kwargs: Kwargs) -> SugaredValue:
    """`weft.device("cpu")`, of what is known while compiling."""
    parts = [a.as_value(ctx, node).operand for a in (*args, *kwargs.values())]
    if any(not isinstance(p, (str, int)) for p in parts):
        ctx.fail(node, "weft.device takes a text, and a number, that are known while compiling")
    return constant(str.__str__(Device(*parts)), tt.DEVICE)


def _warn(ctx: Context, node: ast.AST, args: Args, kwargs: Kwargs) -> SugaredValue:
    """`warnings.warn(text)`; a category, or how many frames up, says nothing in a program."""
    ctx.prim("warn", node, (args[0] if args else kwargs["message"]).as_value(ctx, node))
    return NOTHING


def _hash(ctx: Context, node: ast.AST, args: Args, kwargs: Kwargs) -> SugaredValue:
    (value,) = _exactly(ctx, node, "hash", args, 1)
    found = magic(ctx, node, value, "__hash__")
    return ctx.prim("hash", node, value.as_value(ctx, node)) if found is None else found


def _fork(ctx: Context, node: ast.AST, args: Args, kwargs: Kwargs) -> SugaredValue:
    """`fork(f, *args)`: the call, whose result is handed out by `wait`."""
    if not args:
        ctx.fail(node, "fork takes a function and its arguments")
    return TupleValue([args[0].call(ctx, node, args[1:], kwargs, 1)], "Future", ("value",)).as_value(ctx, node)


def _wait(ctx: Context, node: ast.AST, args: Args, kwargs: Kwargs) -> SugaredValue:
    (value,) = _exactly(ctx, node, "wait", args, 1)
    if not isinstance(value, Simple) or str(value.type)[:18] != "NamedTuple(Future)":
        ctx.fail(node, "wait takes what fork gave")
    return value.elements(ctx, node)[0]


def _grad(ctx: Context, node: ast.AST, args: Args, kwargs: Kwargs) -> SugaredValue:
    """`weft.autograd.grad(outputs, inputs)`: a list, None for an input that has no part in the outputs."""
    operands = tuple(v.operand for v in _values(ctx, node, (*args, *kwargs.values())))
    given = ("weft.autograd.grad", operands, tuple(kwargs), "List(Tensor?)")
    return ctx.prim("list", node, ctx.emit(ctx.op("prim::CallBuiltin"), given, node))


ANNOTATE = TypedBuiltin(_annotate)
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
        name: Builtin(name, function)
        for name, function in {
            "print": _print,
            "range": _range,
            "enumerate": _enumerate,
            "zip": _zip,
            "len": _length,
            "abs": _absolute,
            "round": _round,
            "pow": _pow,
            "sum": _sum,
            "list": _list,
            "dict": _dict,
            "tuple": _tuple,
            "sorted": _sorted,
            "hash": _hash,
        }.items()
    },
    **{name: _extremum(name) for name in ("min", "max")},
    **{name: _conversion(name) for name in ("int", "float", "str", "complex")},
    **{
        name: Entry(OPS[f"prim::{name}"])
        for name in ("ord", "chr", "hex", "oct", "bin", "divmod", "any", "all", "reversed")
    },
    "bool": TypedBuiltin(_bool),
    "getattr": TypedBuiltin(_getattr),
    "isinstance": TypedBuiltin(_instance),
    "hasattr": TypedBuiltin(_instance),
}


_OWN: dict[Any, SugaredValue] = {
    is_scripting: Builtin("is_scripting", lambda ctx, node, args, kwargs: constant(True, tt.BOOL)),
    is_tracing: Builtin("is_tracing", lambda ctx, node, args, kwargs: constant(False, tt.BOOL)),
    isinstance_of: TypedBuiltin(_instance),
    unwrap_optional: Builtin("_unwrap_optional", _unwrap),
    Device: Builtin("device", _device),
    fork: Builtin("fork", _fork),
    grad: Builtin("grad", _grad),
    wait: Builtin("wait", _wait),
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

"""Attributes and methods of values of the graph, by their types; unpacking them."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Any

from weft.jit.script.annotations import written
from weft.jit.script.frontend.advice import asking
from weft.jit.script.frontend.branches import raise_if
from weft.jit.script.frontend.context import TABLES, Context
from weft.jit.script.frontend.functions import Builtin, Entry, Operators, overloads
from weft.jit.script.frontend.matching import call_operator
from weft.jit.script.frontend.python.sorting import sort
from weft.jit.script.frontend.values import ListValue, Simple, SugaredValue, TupleValue, constant
from weft.ops.op import OPS
from weft.support.knobs import nearest
from weft.tensor.tensor import Tensor
from weft.types import tensor_type as tt
from weft.types.tensor_type import ClassType, DictType, ListType, OptionalType, TensorType, TupleType

# ---- tensors
_FACTS = {
    "shape": "aten::size",
    "dtype": "prim::dtype",
    "device": "prim::device",
    "layout": "prim::layout",
    "requires_grad": "prim::requires_grad",
    "is_leaf": "prim::is_leaf",
    "grad": "prim::grad",
    "data": "prim::data",
    "ndim": "aten::dim",
}
_VIEWS = {
    "T": "aten::numpy_T",
    "mT": "aten::mT",
    "mH": "aten::mH",
    "H": "aten::matrix_H",
    "real": "aten::real",
    "imag": "aten::imag",
}
READABLE = frozenset((*_FACTS, *_VIEWS))
SYNONYMS = {"ndimension": "dim", "nelement": "numel", "__len__": "len"}


def _tensor_member(ctx: Context, node: ast.AST, value: Simple, name: str) -> SugaredValue:
    if name in _FACTS:
        return ctx.emit(ctx.op(_FACTS[name]), (value.operand,), node)
    if name in _VIEWS:
        return call_operator(ctx, node, _VIEWS[name], [value])
    if name.startswith("is_") and isinstance(getattr(Tensor, name, None), bool):
        return constant(getattr(Tensor, name), tt.BOOL)  # the same for every tensor of weft's: is_cuda, is_sparse
    if name == "tolist":
        return Bound(Builtin(name, _to_list), value)
    name = SYNONYMS.get(name, name)
    candidates = [op for op in overloads(f"aten::{name}") if op.host or "Tensor" in op.public]
    python = getattr(Tensor, name, None) if not name.startswith("__") else None
    if candidates:
        return Operators(f"weft.Tensor.{name}", candidates, python, value)
    written = [op for op in overloads(f"aten::{name[:-1]}") if op.inplace] if name.endswith("_") else []
    if written:
        return Operators(f"weft.Tensor.{name}", written, None, value, in_place=True)
    if callable(python):
        return Operators(f"weft.Tensor.{name}", [], python, value)
    ctx.fail(node, f"Tensor has no attribute {name!r} in a scripted program{nearest(name, dir(Tensor))}")


def _to_list(
    ctx: Context, node: ast.AST, args: Sequence[SugaredValue], kwargs: dict[str, SugaredValue]
) -> SugaredValue:
    """`x.tolist()`, whose type its surroundings say: `items: List[int] = x.tolist()`."""
    wanted = ctx.expected
    items = ctx.emit(ctx.op("aten::tolist"), (args[0].as_value(ctx, node).operand,), node)
    if wanted is None or wanted is tt.ANY:
        return items
    fits = ctx.emit(ctx.op("prim::isinstance"), (items.operand, str(wanted)), node)
    text = f"tolist() was annotated as {written(wanted)}, which is not what a tensor of this dtype and rank gives"
    raise_if(ctx, node, ctx.prim("not_", node, fits), text, "RuntimeError")
    return ctx.emit(ctx.op("prim::unchecked_cast"), (items.operand, str(wanted)), node, (wanted,))


# ---- containers and texts
_LIST = ("append", "extend", "insert", "remove", "reverse", "clear", "copy", "index", "count", "pop")
_DICT = ("keys", "values", "items", "update", "clear", "copy", "popitem")
_TEXT = [
    "upper",
    "lower",
    "capitalize",
    "title",
    "swapcase",
    "casefold",
    "isalpha",
    "isdigit",
    "isalnum",
    "isdecimal",
    "isidentifier",
    "islower",
    "isupper",
    "isnumeric",
    "isspace",
    "istitle",
    "isprintable",
    "isascii",
    "strip",
    "lstrip",
    "rstrip",
    "split",
    "rsplit",
    "splitlines",
    "replace",
    "startswith",
    "endswith",
    "find",
    "rfind",
    "index",
    "rindex",
    "center",
    "ljust",
    "rjust",
    "zfill",
    "expandtabs",
    "partition",
    "rpartition",
    "removeprefix",
    "removesuffix",
    "join",
    "count",
]


def _sort(ctx: Context, node: ast.AST, args: Sequence[SugaredValue], kwargs: dict[str, SugaredValue]) -> SugaredValue:
    value, *rest = args
    reverse = kwargs.pop("reverse", rest[0] if rest else constant(False, tt.BOOL))
    key = kwargs.pop("key", None)
    if kwargs:
        ctx.fail(node, f"sort() takes key= and reverse=, not {', '.join(kwargs)}")
    return sort(ctx, node, value.as_value(ctx, node), key, reverse.as_value(ctx, node))


def _extend(ctx: Context, node: ast.AST, args: Sequence[SugaredValue], kwargs: dict[str, SugaredValue]) -> SugaredValue:
    target = args[0].as_value(ctx, node)
    items = ListValue(args[1].items) if isinstance(args[1], TupleValue) else args[1]
    return ctx.prim("extend", node, target, items.as_value(ctx, node, target.type))


def _append(ctx: Context, node: ast.AST, args: Sequence[SugaredValue], kwargs: dict[str, SugaredValue]) -> SugaredValue:
    target = args[0].as_value(ctx, node)
    assert isinstance(target.type, ListType)
    if len(args) != 2:
        ctx.fail(node, "append() takes one element")
    item = args[1].as_value(ctx, node, target.type.element)
    if not item.type.is_subtype_of(target.type.element):
        ctx.fail(
            node,
            f"an element of type {item.type} cannot be put into a list of {target.type.element}; annotate the list: "
            f"`List[...]`",
        )
    return ctx.prim("append", node, target, item)


def _get(ctx: Context, node: ast.AST, args: Sequence[SugaredValue], kwargs: dict[str, SugaredValue]) -> SugaredValue:
    values = [a.as_value(ctx, node) for a in args]
    return ctx.prim("get" if len(values) == 2 else "get_or", node, *values)


def _pop(ctx: Context, node: ast.AST, args: Sequence[SugaredValue], kwargs: dict[str, SugaredValue]) -> SugaredValue:
    values = [a.as_value(ctx, node) for a in args]
    return ctx.prim("pop" if len(values) == 2 else "pop_or", node, *values)


def _setdefault(
    ctx: Context, node: ast.AST, args: Sequence[SugaredValue], kwargs: dict[str, SugaredValue]
) -> SugaredValue:
    target = args[0].as_value(ctx, node)
    assert isinstance(target.type, DictType)
    return ctx.prim(
        "setdefault", node, target, args[1].as_value(ctx, node), args[2].as_value(ctx, node, target.type.value)
    )


def _format(ctx: Context, node: ast.AST, args: Sequence[SugaredValue], kwargs: dict[str, SugaredValue]) -> SugaredValue:
    text, *values = [a.as_value(ctx, node) for a in (*args, *kwargs.values())]
    return ctx.emit(ctx.op("prim::format"), (text.operand, tuple(v.operand for v in values), tuple(kwargs)), node)


_WRITTEN: dict[tuple[type, str], Any] = {
    (ListType, "sort"): _sort,
    (ListType, "extend"): _extend,
    (ListType, "append"): _append,
    (DictType, "get"): _get,
    (DictType, "pop"): _pop,
    (DictType, "setdefault"): _setdefault,
}


class Bound(SugaredValue):
    """A method with its object."""

    kind = "method"

    def __init__(self, method: Builtin, value: SugaredValue) -> None:
        self.method, self.value = method, value

    def call(
        self, ctx: Context, node: ast.AST, args: Sequence[SugaredValue], kwargs: dict[str, SugaredValue], binders: int
    ) -> SugaredValue:
        return self.method.compile(ctx, node, [self.value, *args], kwargs)


def _attribute(ctx: Context, node: ast.AST, value: Simple, name: str) -> SugaredValue:
    kind = value.type
    if isinstance(kind, TensorType):
        return _tensor_member(ctx, node, value, name)
    if isinstance(kind, OptionalType):
        ctx.fail(node, f"{name!r} of a value of type {kind}; check first that it is not None: `assert x is not None`")
    if isinstance(kind, TupleType) and kind.name == "Future" and name == "wait":
        return Bound(Builtin(name, lambda c, n, args, kwargs: args[0].elements(c, n)[0]), value)
    if isinstance(kind, TupleType) and name in kind.fields:
        return ctx.emit(ctx.op("prim::TupleIndex"), (value.operand, kind.fields.index(name)), node)
    if isinstance(kind, ClassType):
        return ctx.program.member(ctx, node, value, name)  # type: ignore[no-any-return]
    written = _WRITTEN.get((type(kind), name))
    if written is not None:
        return Bound(Builtin(name, written), value)
    if kind is tt.STR and name == "format":
        return Bound(Builtin(name, _format), value)
    names: Sequence[str] = (
        _LIST
        if isinstance(kind, ListType)
        else _DICT
        if isinstance(kind, DictType)
        else _TEXT
        if kind is tt.STR
        else ()
    )
    if name in names:
        return Entry(OPS[f"prim::{name}"], value)
    if kind in (tt.INT, tt.FLOAT, tt.NUMBER) and name == "item":
        return Bound(Builtin(name, lambda c, n, args, kwargs: args[0]), value)
    if kind is tt.COMPLEX and name in ("real", "imag"):
        return ctx.prim(name, node, value)
    if kind is tt.COMPLEX and name == "conjugate":
        return Entry(OPS["prim::conjugate"], value)
    if kind is tt.DEVICE and name in ("type", "index"):
        return ctx.emit(ctx.op(f"prim::device_{name}"), (value.operand,), node)
    ctx.fail(node, f"a value of type {kind} has no attribute {name!r}{nearest(name, names)}{asking(kind)}")


def _set_attribute(ctx: Context, node: ast.AST, value: Simple, name: str, new_value: SugaredValue) -> None:
    if isinstance(value.type, ClassType):
        return ctx.program.set_member(ctx, node, value, name, new_value)  # type: ignore[no-any-return]
    if isinstance(value.type, TensorType) and name in ("data", "grad", "requires_grad"):
        ctx.emit(ctx.op("prim::SetAttr"), (value.operand, name, new_value.as_value(ctx, node).operand), node, ())
        return
    ctx.fail(node, f"a value of type {value.type} has no attribute {name!r} that could be written")


def _elements(ctx: Context, node: ast.AST, value: Simple, count: int | None) -> Sequence[SugaredValue]:
    kind = value.type
    if isinstance(kind, ClassType):
        return ctx.program.elements(ctx, node, value)  # type: ignore[no-any-return]
    if isinstance(kind, TupleType):
        if not kind.elements:
            return []
        unpacked = ctx.append(ctx.op("prim::TupleUnpack"), (value.operand,), kind.elements, node)
        return [Simple(v, v.type) for v in unpacked.outputs]
    if count is None or not isinstance(kind, (ListType, TensorType)):
        ctx.fail(
            node,
            f"a value of type {kind} cannot be used as a tuple"
            + ("" if count is not None else ": how many elements it has is known only when the program runs"),
        )
    if isinstance(kind, TensorType):
        value = call_operator(ctx, node, "aten::unbind", [value]).as_value(ctx, node)
    element = kind.element if isinstance(kind, ListType) else tt.TENSOR
    unpacked = ctx.append(ctx.op("prim::ListUnpack"), (value.operand, count), (element,) * count, node)
    return [Simple(v, v.type) for v in unpacked.outputs]


def _call(
    ctx: Context, node: ast.AST, value: Simple, args: Sequence[SugaredValue], kwargs: dict[str, SugaredValue]
) -> SugaredValue:
    if isinstance(value.type, ClassType):
        return ctx.program.member(ctx, node, value, "__call__").call(ctx, node, args, kwargs, 1)  # type: ignore[no-any-return]
    value.refuse(ctx, node, "is not callable")


TABLES.attribute, TABLES.set_attribute, TABLES.elements, TABLES.call = _attribute, _set_attribute, _elements, _call

"""The twins of views, derived from the geometry: `name_copy` (a fresh tensor) and `name_scatter`
(the base with the viewed part replaced).

A view entry is written with `view(...)`. From it follow its type, its gradient (`inverse` where one is cheaper than
the scatter), and both twins.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from weft.ir.structure import view_type
from weft.ops.array import Array as Wrapped
from weft.ops.bind import bind
from weft.ops.compute import evaluate, geometry_of
from weft.ops.geometry import Geometry, contiguous, may_repeat, repeats_elements
from weft.ops.layout import LIKE_SELF
from weft.ops.op import Joint, Op, Rule, View, define
from weft.ops.packet import aten
from weft.ops.route import call
from weft.ops.rules import dims_text, same_dims
from weft.ops.schema import Argument, Schema, parse_schema
from weft.ops.tangents import linear
from weft.support.errors import ShapeError, StateError
from weft.types.dims import Dim
from weft.types.shape_env import fixed, less
from weft.types.tensor_type import TensorType, tensor_type

Array = Any


def view(
    schema: str,
    doc: str,
    geometry: Callable[..., Any],
    numpy: Callable[..., Any] | None = None,
    *,
    inverse: Rule | None = None,
    vjp: Mapping[str, Rule] | Joint | None = None,
    type: Rule | None = None,
    is_free: bool = False,
    keeps_order: bool = False,
    repeats: bool = False,
    compiled: Rule | None = None,
    overlaps: bool = False,
    may_copy: bool = False,
    index: Rule | None = None,
    batch: Rule | Mapping[str, Rule] | None = None,
    public_copy: bool = False,
    public_scatter: bool = False,
    **fields: Any,
) -> Op:
    """A view operator with its twins.

    inverse: the gradient's formula where it is not the scatter into zeros (a permutation's inverse,
    a reshape back, ...).
    vjp: all of the formulas, for views with several results.
    type: only where the dtype changes.
    batch: the rule of vmap, for the view and its twins (`along("dim")`, say), or one for each by what it adds to the
    view's name: "", "_copy", "_scatter" (batching.py).
    public_copy: whether the copy is public although the view is not. public_scatter: whether the scatter is public.
    is_free, keeps_order, repeats, compiled, overlaps, may_copy, index: see View.
    """
    parsed = parse_schema(schema)
    twins: list[Op] = []
    formulas = vjp if vjp is not None else {"self": inverse or _scatter_into_zeros(parsed, twins)}
    shown = View(geometry, numpy, is_free, keeps_order, repeats, compiled, overlaps, may_copy, index)
    rules = batch if isinstance(batch, Mapping) else dict.fromkeys(("", "_copy", "_scatter"), batch)
    op = define(parsed, doc, view=shown, vjp=formulas, type=type, batch=rules.get(""), **fields)
    _define_copy(op, formulas, rules.get("_copy"), public_copy)
    twins.append(_define_scatter(op, rules.get("_scatter"), public_scatter))
    return op


def _scatter_into_zeros(schema: Schema, twins: list[Op]) -> Rule:
    """The gradient of a view whose elements are distinct: its cotangent at its place among zeros."""

    def formula(g: Any, self_dims: Any, *args: Any) -> Any:
        return call(twins[0], (aten.new_zeros(g, self_dims), g, *args))

    return _with_names(formula, ("g", "self_dims", *(a.name for a in schema.arguments[1:])))


def _with_names(formula: Rule, names: tuple[str, ...]) -> Rule:
    """A formula that is called by position, under parameter names that say what it saves."""
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    formula.__signature__ = inspect.Signature([inspect.Parameter(n, kind) for n in names])  # type: ignore[attr-defined]
    return formula


def _result_type(op: Op, types: tuple[Any, ...]) -> Any:
    if op.type is not None:
        return op.type(*types)
    source = types[0]
    if not source.is_complete:
        return tensor_type(source.dtype, None, source.device)
    return view_type(op, types)


# ---- name_copy


def _define_copy(op: Op, formulas: Mapping[str, Rule] | Joint, batch: Rule | None, is_public: bool) -> Op:
    schema = op.schema
    fresh = Schema(
        schema.namespace,
        f"{schema.base}_copy",
        schema.overload,
        tuple(replace(a, alias="") for a in schema.arguments),
        tuple(replace(r, alias="") for r in schema.returns),
    )

    def kernel(*args: Any) -> Any:
        shown = _shown(op, args)
        if isinstance(shown, tuple):
            return tuple(np.array(part, order="C") for part in shown)
        return np.array(shown, order="C")

    return define(
        fresh,
        f"What `{schema.base}` shows, in memory of its own.",
        type=lambda *types: _result_type(op, types),
        kernel=kernel,
        vjp=formulas,
        batch=batch,
        jvp=linear,
        public=("weft",) if op.public or is_public else (),
        out=True,
        copies=op if op.type is None else None,
        reference=op.reference,
        samples=op.samples,
    )


def _shown(op: Op, args: tuple[Any, ...]) -> Any:
    """What the view shows; where strides cannot express it, of a contiguous copy."""
    try:
        return evaluate(op, args)
    except ShapeError:
        if args[0].flags.c_contiguous:
            raise
        return evaluate(op, (np.array(args[0], order="C"), *args[1:]))


# ---- name_scatter


def _define_scatter(op: Op, batch: Rule | None, is_public: bool) -> Op:
    schema = op.schema
    several = schema.returns_list
    base = Argument("self", "Tensor")
    picked = (Argument("output", "int"),) if several else ()
    fresh = Schema(
        schema.namespace,
        f"{schema.base}_scatter",
        "" if schema.overload in ("int", "Tensor") else schema.overload,
        (base, Argument("src", "Tensor"), *picked, *schema.arguments[1:]),
        (Argument("", "Tensor"),),
    )
    names = [a.name for a in fresh.arguments[2:]]
    twin: list[Op] = []
    is_free = op.view is not None and op.view.is_free

    def shown(x: Any, args: tuple[Any, ...]) -> Any:
        return call(op, (x, *args[1:]))[args[0]] if several else call(op, (x, *args))

    def grad_self(g: Any, src_dims: Any, *args: Any) -> Any:
        return call(twin[0], (g, aten.new_zeros(g, src_dims), *args))

    def grad_src(g: Any, *args: Any) -> Any:  # (as_strided counts in elements of memory)
        part = shown(aten._contiguous_copy(g) if is_free else g, args)
        if several or not may_overlap(op, g.dims, args):
            return part
        turns = aten.reshape(aten._iota(part.numel()), part.dims)  # of several sources of an element the last one stays
        latest = shown(call(twin[0], (aten.new_zeros(turns, g.dims), turns, *args)), args)
        return aten.where(aten.eq(latest, turns), part, 0)

    scatter = define(
        fresh,
        f"A copy of self in which the elements that `{schema.base}` shows are those of src"
        + (" (of its result number `output`)." if several else "."),
        type=lambda self, src, *args: _scatter_type(op, several, self, src, args),
        kernel=lambda self, src, *args: _scatter(op, several, self, src, args),
        vjp={"self": _with_names(grad_self, ("g", "src_dims", *names)), "src": _with_names(grad_src, ("g", *names))},
        batch=batch,
        jvp=linear,
        public=("weft", "Tensor") if is_public else (),
        out=is_public,
        lies=None if op.view is not None and op.view.is_free else LIKE_SELF,
        scatters=op if op.type is None else None,
        reference=None if op.reference is None or several or op.type is not None else _scatter_reference(op.reference),
        samples=None if op.samples is None else lambda rng: _scatter_samples(op, several, rng),
    )
    twin.append(scatter)
    return scatter


def _scatter_reference(shows: Rule) -> Rule:
    """The oracle of a scatter: where the view's oracle finds each element."""

    def reference(self: Array, src: Array, *args: Any) -> Array:
        out = self.copy()
        out.reshape(-1)[shows(np.arange(self.size).reshape(self.shape), *args)] = src
        return out

    return reference


def _scatter_type(op: Op, several: bool, base: TensorType, src: TensorType, args: tuple[Any, ...]) -> TensorType:
    if not base.is_complete:
        return base
    shown = _result_type(op, (base, *(args[1:] if several else args)))
    target = shown[args[0]] if several else shown
    if src.is_complete and not same_dims(src.shape, target.shape):
        raise ShapeError(
            f"{op.base}_scatter: expected src to have a size equal to the slice of self. "
            f"src size = {dims_text(src.shape)}, slice size = {dims_text(target.shape)}"
        )
    if op.view is not None and op.view.is_free and coincide(op.view.geometry(contiguous(base.shape), *args)):
        raise _refused(op)
    return base


def _scatter(op: Op, several: bool, base: Array, src: Array, args: tuple[Any, ...]) -> Array:
    out = np.array(base, order="C")
    shown = evaluate(op, (out, *(args[1:] if several else args)))
    target = shown[args[0]] if several else shown
    layout = geometry_of(target)
    if repeats_elements(layout) or (op.view is not None and op.view.is_free and overlaps(layout)):
        raise _refused(op)
    # a gradient of zeros may be complex
    target[...] = src.real if src.dtype.kind == "c" and target.dtype.kind != "c" else src
    return out


def _refused(op: Op) -> StateError:
    return StateError(
        f"{op.base}_scatter: unsupported operation: more than one element of the written-to tensor refers to a "
        "single memory location. Please clone() the tensor before performing the operation."
    )


_MANY = 1 << 30  # of a dim whose size is a symbol


def may_overlap(op: Op, dims: Sequence[Dim], args: tuple[Any, ...]) -> bool:
    """Whether a view of a row-major tensor may show an element in several windows, so that the order counts in which
    they are written: NumPy's, as in eager mode.
    """
    if op.view is None or not op.view.overlaps or op.view.repeats:  # (what repeats is refused)
        return False
    if not all([type(a) is int for a in args]):
        return True
    g = op.view.geometry(contiguous(tuple([d if type(d) is int else _MANY for d in dims])), *args)
    return may_repeat(g.dims, g.strides)


def coincide(g: Geometry) -> bool:
    """Whether two elements lie at one place. Sizes and strides that are symbols are asked for where they must be."""
    return not _nest(g) and overlaps(Geometry(tuple(map(fixed, g.dims)), tuple(map(fixed, g.strides))))


def _nest(g: Geometry) -> bool:
    """Whether each stride steps over all that lies within it, so that no two elements lie at one place."""
    reach: Dim = 0
    steps: list[tuple[Dim, Dim]] = [(s, d) for s, d in zip(g.strides, g.dims, strict=True) if d != 1]
    steps.sort(key=functools.cmp_to_key(_by_stride))
    for stride, size in steps:
        if not less(reach, stride) and less(1, size):
            return False
        reach = reach + stride * (size - 1)
    return True


def _by_stride(a: tuple[Dim, Dim], b: tuple[Dim, Dim]) -> int:
    return -1 if less(a[0], b[0]) else 1


def overlaps(g: Geometry) -> bool:
    """Whether two elements lie at one place. Sizes and strides are integers."""
    assert all(isinstance(n, int) for n in (*g.dims, *g.strides)), "overlaps is asked of arrays, whose sizes are known"
    if any(d == 0 for d in g.dims):
        return False
    reach: Any = 0
    for stride, size in sorted((abs(s), d) for s, d in zip(g.strides, g.dims, strict=True) if d != 1):  # type: ignore[arg-type]
        if stride <= reach:
            return _meet(g)
        reach += stride * (size - 1)
    return False


def _meet(g: Geometry) -> bool:
    """overlaps where strides do not nest: all places are looked at."""
    sizes: Any = g.dims
    strides: Any = g.strides
    places = np.zeros((), np.int64)
    for size, stride in zip(sizes, strides, strict=True):
        places = (places[..., None] + np.arange(size) * stride).reshape(-1)
    return np.unique(places).size < places.size


def _scatter_samples(op: Op, several: bool, rng: np.random.Generator) -> list[tuple[tuple[Any, ...], dict[str, Any]]]:
    """The view's own samples with a source of the right size; those whose elements overlap are left out."""
    assert op.samples is not None
    cases: list[tuple[tuple[Any, ...], dict[str, Any]]] = []
    for (base, *rest), named in op.samples(rng):
        bound = bind(op, (Wrapped(base), *rest), named)[1:]
        shown = evaluate(op, (base, *bound))
        if several:
            picked = int(rng.integers(len(shown)))
            cases.append(((base, np.asarray(rng.uniform(-2, 2, shown[picked].shape)), picked, *bound), {}))
        elif not overlaps(geometry_of(shown)):
            cases.append(((base, np.asarray(rng.uniform(-2, 2, shown.shape)), *bound), {}))
    return cases

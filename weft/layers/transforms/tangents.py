"""Tangent rules (jvp): written ones, those of pointwise and view entries, and for all others the transpose of the vjp,
which is linear.

A rule gets values and tangents of the level below (None where a tangent is zero) and gives the tangents of the results.
"""

from __future__ import annotations

from typing import Any

from weft.autograd.node import InputMetadata
from weft.autograd.validate import validate
from weft.layers import walk
from weft.layers.transforms.grad_level import GradLevel
from weft.ops.backward import ARG, DIMS, DTYPE, Plan, Source, apply_functional, plan_of
from weft.ops.op import Op
from weft.ops.packet import aten
from weft.ops.rules import Pointwise
from weft.tensor.backend import tensors_in
from weft.tensor.modes import enable_grad
from weft.tensor.tensor import Tensor

Values = tuple[Any, ...]


def push(op: Op, primals: Values, directions: Values, out: Any) -> Any:
    """The tangent of each result (None for those that carry none)."""
    if isinstance(out, Tensor) and not out.dtype.is_differentiable:
        return None
    if op.jvp is not None:
        return _fitted(op.jvp(op, primals, directions, out), out)
    if op.view is not None:
        return walk.walk(op, (directions[0], *primals[1:]))
    if op.scalar is not None and isinstance(op.type, Pointwise) and not _has_complex(primals, out):
        tangent = pointwise(op, primals, directions, out)
        if tangent is not None:
            return tangent
    return transposed(op, primals, directions, out)


def _has_complex(primals: Values, out: Any) -> bool:
    """A pointwise map of complex numbers need not be multiplication by a number, and its vjp is the adjoint."""
    return any(t.dtype.is_complex for t in (*tensors_in(primals), *tensors_in((out,))))


def _fitted(tangent: Any, out: Any) -> Any:
    if isinstance(out, (tuple, list)):
        return tuple([_fitted(f, o) for f, o in zip(tangent, out, strict=True)])
    if tangent is None or not isinstance(out, Tensor) or not out.dtype.is_differentiable:
        return None
    tangent = tangent if tangent.dtype is out.dtype else aten._to_copy(tangent, out.dtype)
    return tangent if tangent.dims == out.dims else aten.expand(tangent, out.dims)


# ---- pointwise: the Jacobian is diagonal, so the vjp formula gives the product with it too
def pointwise(op: Op, primals: Values, directions: Values, out: Tensor) -> Tensor | None:
    """The sum over inputs of their formula applied to their tangent; None where a formula sums,
    as one for a part of an input may."""
    plan = plan_of(op)
    packed = _packed(plan, primals, out)
    total: Any = None
    for i, at in enumerate(plan.differentiable):
        if directions[at] is None:
            continue
        needs = tuple(k == i for k in range(len(plan.differentiable)))
        part = apply_functional(plan, (_fitted(directions[at], out),), needs, packed)[i]
        if part is None:
            continue
        if part.ndim != out.ndim or part.dims != out.dims:
            return None
        total = part if total is None else total + part
    return aten.zeros_like(out) if total is None else _fitted(total, out)


def _packed(plan: Plan, args: Values, out: Any) -> Values:
    results = out if isinstance(out, (tuple, list)) else (out,)
    return tuple([_slot(s, args, results) for s in plan.slots])


def _slot(source: Source, args: Values, results: Any) -> Any:
    if source.kind == ARG:
        return args[source.position]
    value = args[source.position] if source.kind in (DIMS, DTYPE) else None
    if source.kind == DIMS:
        return tuple(v.dims for v in value) if type(value) is tuple else getattr(value, "dims", ())
    if source.kind == DTYPE:
        return getattr(value, "dtype", None)
    return results[source.position]


# ---- the transpose of the vjp
def transposed(op: Op, primals: Values, directions: Values, out: Any) -> Any:
    """u -> vjp(u) is linear; its own vjp at the tangents is the product with the Jacobian."""
    plan = plan_of(op)
    results = list(out) if isinstance(out, (tuple, list)) else [out]
    carries = [isinstance(r, Tensor) and r.dtype.is_differentiable for r in results]
    needs = tuple(directions[at] is not None for at in plan.differentiable)
    zeros = [aten.zeros_like(r) if c else None for r, c in zip(results, carries, strict=True)]
    with GradLevel() as level, enable_grad():
        packed = _packed(plan, level.lift(primals), level.lift(out))
        seeds = [None if z is None else level.leaf(z) for z in zeros]
        gradients = apply_functional(plan, tuple(seeds), needs, packed)
        pairs = list(_pairs(op, plan, primals, directions, gradients))
        wanted = [s for s in seeds if s is not None]
        products = iter(level.gradients([g for g, _ in pairs], wanted, [t for _, t in pairs]))
    pushed = tuple([next(products) if c else None for c in carries])
    return pushed if isinstance(out, (tuple, list)) else pushed[0]


def _pairs(op: Op, plan: Plan, primals: Values, directions: Values, gradients: Values) -> Any:
    """(gradient, tangent) for every tensor that has a tangent, those in lists one by one."""
    for at, gradient in zip(plan.differentiable, gradients, strict=True):
        values, tangent = primals[at], directions[at]
        if gradient is None or tangent is None:
            continue
        if isinstance(values, Tensor):
            yield _pair(op, at, values, tangent, gradient)
            continue
        for value, one, part in zip(values, tangent, gradient, strict=True):
            if one is not None and part is not None:
                yield _pair(op, at, value, one, part)


def _pair(op: Op, at: int, value: Tensor, tangent: Tensor, gradient: Tensor) -> tuple[Tensor, Tensor]:
    return validate(op.name, at, gradient, InputMetadata(value.dims, value.dtype)), tangent

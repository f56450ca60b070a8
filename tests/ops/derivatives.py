"""Gradients of an entry through weft.Tensor and autograd, and central differences to hold them against."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

import weft
from weft.ops.op import Op
from weft.ops.route import call
from weft.ops.schema import Argument

Function = Callable[..., float]
Position = tuple[int, ...]  # of an argument, or of an argument and an item in it
STEP = 1e-5
# No real number among the inputs, or no slope.
WITHOUT_SLOPE = {
    "argwhere", "bool", "bucketize.Scalar", "bucketize.Tensor", "byte", "char", "greater.Tensor",
    "greater_equal.Tensor", "imag", "int", "isin.Scalar_Tensor", "isin.Tensor_Scalar", "isin.Tensor_Tensor",
    "less.Tensor", "less_equal.Tensor", "linalg_matrix_rank", "long", "nonzero.as_tuple", "nonzero_numpy",
    "nonzero_static",
    "not_equal.Tensor", "one_hot", "short", "view.dtype", "view_as_real", "view_as_real_copy", "view_bits",
    "view_bits_copy", "view_bits_scatter", "where",
}
# No tensor that could have a gradient, or none in the result.
CONSTANT = {"empty_permuted", "empty_strided", "new_empty_strided", "unique_consecutive"}


# Backward through them says that there is no formula (tests/regress/autograd), and so do composites of them.
NO_FORMULA = {
    "_binomial", "_unique2", "_unique_consecutive", "binomial", "bincount", "geqrf", "heaviside", "linalg_ldl_factor",
    "linalg_ldl_factor_ex", "linalg_ldl_solve", "unique", "unique_consecutive", "unique_dim",
}
WITHOUT_SLOPE |= NO_FORMULA


def differentiable_positions(op: Op, args: tuple[Any, ...]) -> list[Position]:
    """Where the float64 tensors are, alone or in lists, that the entry promises a gradient for."""
    if op.name.removeprefix("aten::") in NO_FORMULA:
        return []
    promised = None
    if op.vjp:
        promised = set(getattr(op.vjp, "inputs", None) or op.vjp)
    found: list[Position] = []
    for i, (a, v) in enumerate(zip(op.schema.arguments, args, strict=False)):
        if promised is None or a.name in promised:
            found += [(i,)] if _is_float(v) else []
            found += [(i, j) for j, x in enumerate(v) if _is_float(x)] if isinstance(v, tuple) else []
    return found


def _is_float(value: Any) -> bool:
    return isinstance(value, np.ndarray) and value.dtype == np.float64


def at(values: Any, position: Position) -> Any:
    """The value at a position."""
    for i in position:
        values = values[i]
    return values


def placed(values: tuple[Any, ...], positions: list[Position], tensors: Iterable[Any]) -> tuple[Any, ...]:
    """The values with tensors at these positions."""
    given = dict(zip(positions, tensors, strict=True))
    return tuple(
        tuple(given.get((i, j), x) for j, x in enumerate(v)) if isinstance(v, tuple) else given.get((i,), v)
        for i, v in enumerate(values)
    )


def projected(op: Op, args: tuple[Any, ...], positions: list[Position], weights: list[Any]) -> Callable[..., Any]:
    """Tensors at `positions` -> sum of the entry's float results times fixed weights: a scalar tensor."""

    def function(*tensors: Any) -> Any:
        return weighted(call(op, placed(as_tensors(args), positions, tensors)), weights)

    return function


def squared(op: Op, args: tuple[Any, ...], positions: list[Position]) -> Callable[..., Any]:
    """As `projected`, of squares: nothing is asked about sizes, which a capture may not know."""

    def function(*tensors: Any) -> Any:
        results = call(op, placed(as_tensors(args), positions, tensors))
        listed = results if isinstance(results, (tuple, list)) else (results,)
        return sum((r * r).sum() for r in listed if isinstance(r, weft.Tensor) and r.dtype.is_differentiable)

    return function


def as_tensors(value: Any) -> Any:
    """Arrays as tensors, through tuples (lists of tensors)."""
    if isinstance(value, tuple):
        return tuple(as_tensors(v) for v in value)
    return weft.from_numpy(value) if isinstance(value, np.ndarray) else value


def weighted(results: Any, weights: list[Any]) -> Any:
    """The sum of float results times weights, which are made (random) as they are first needed."""
    total: Any = 0.0
    results = results if isinstance(results, tuple) else (results,)
    for i, r in enumerate(results):
        if not isinstance(r, weft.Tensor) or not r.dtype.is_differentiable:
            continue
        if r.dtype.is_complex:
            r = weft.abs(r)
        if len(weights) <= i:
            weights.extend([None] * (i + 1 - len(weights)))
        if weights[i] is None:
            weights[i] = np.random.default_rng(i + 17).uniform(0.5, 1.5, tuple(r.shape))
        total = total + (r * weft.from_numpy(np.asarray(weights[i]))).sum()
    return total


def numeric(function: Callable[..., Any], point: list[Any], direction: list[Any], step: float = STEP) -> float:
    """The derivative along a direction, by central differences."""
    plus, minus = (
        [weft.from_numpy(np.asarray(x + s * step * v)) for x, v in zip(point, direction, strict=False)] for s in (1, -1)
    )
    return (float(function(*plus)) - float(function(*minus))) / (2 * step)


def has_kink(function: Callable[..., Any], point: list[Any], direction: list[Any]) -> bool:
    """Whether differences at a quarter of the step and at four times the step tell different slopes:
    a drawn number may lie that near a bound."""
    near, far = (numeric(function, point, direction, STEP * factor) for factor in (0.25, 4))
    return abs(near - far) > 1e-3 * max(abs(near), abs(far), 1.0)


def along(gradients: tuple[Any, ...], direction: list[Any]) -> Any:
    """<gradients, direction>, None counting as zero."""
    total: Any = None
    for g, v in zip(gradients, direction, strict=False):
        if g is not None:
            part = (g * weft.from_numpy(np.asarray(v))).sum()
            total = part if total is None else total + part
    return total


def slope(function: Callable[..., Any], direction: list[Any]) -> Callable[..., Any]:
    """The directional derivative as a function of the point, through autograd, itself differentiable."""

    def derived(*tensors: Any) -> Any:
        leaves = [t if t.requires_grad else t.detach().requires_grad_() for t in tensors]
        value = function(*leaves)
        if not isinstance(value, weft.Tensor) or not value.requires_grad:
            return weft.zeros((), dtype=weft.float64)
        gradients = weft.autograd.grad(value, leaves, create_graph=True, allow_unused=True)
        total = along(gradients, direction)
        return weft.zeros((), dtype=weft.float64) if total is None else total

    return derived


def names(arguments: tuple[Argument, ...]) -> list[str]:
    """Argument names, for messages."""
    return [a.name for a in arguments]

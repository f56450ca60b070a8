"""Gradients of an entry through weft.Tensor and autograd, and central differences to hold them against."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import weft
from weft.ops.op import Op
from weft.ops.route import call
from weft.ops.schema import Argument

Function = Callable[..., float]
STEP = 1e-5


def differentiable_positions(op: Op, args: tuple[Any, ...]) -> list[int]:
    """Positions of the float64 tensor arguments that the entry promises a gradient for."""
    promised = None
    if op.vjp:
        promised = set(getattr(op.vjp, "inputs", None) or op.vjp)
    return [
        i for i, (a, v) in enumerate(zip(op.schema.arguments, args, strict=False))
        if isinstance(v, np.ndarray) and v.dtype == np.float64 and (promised is None or a.name in promised)
    ]


def projected(op: Op, args: tuple[Any, ...], positions: list[int], weights: list[Any]) -> Callable[..., Any]:
    """Tensors at `positions` -> sum of the entry's float results times fixed weights: a scalar tensor."""

    def function(*tensors: Any) -> Any:
        full = [as_tensors(v) for v in args]
        for at, t in zip(positions, tensors, strict=False):
            full[at] = t
        return weighted(call(op, tuple(full)), weights)

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
    plus, minus = ([weft.from_numpy(np.asarray(x + s * step * v)) for x, v in zip(point, direction, strict=False)] for s in (1, -1))
    return (float(function(*plus)) - float(function(*minus))) / (2 * step)


def has_kink(function: Callable[..., Any], point: list[Any], direction: list[Any]) -> bool:
    """Whether differences at a quarter of the step and at four times the step tell different slopes: a drawn number may lie that near a bound."""
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

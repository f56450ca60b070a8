"""Gradients while a program runs: an operator's formulas on Tensors, or the engine where an operator has none."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from weft.autograd.api import grad
from weft.ir.graph import Node
from weft.ops.backward import DIMS, Plan, flat_gradients
from weft.ops.op import OPS
from weft.ops.route import call
from weft.tensor.modes import enable_grad, modes
from weft.tensor.tensor import Tensor


def formulas_of(plan: Plan, node: Node) -> Callable[..., Any]:
    """What computes an opaque call on Tensors."""
    count = len(node.outputs)

    def run(grads: tuple[Any, ...], needs: tuple[bool, ...], packed: tuple[Any, ...]) -> Any:
        if all(g is None for g in grads):
            return None if count == 1 else (None,) * count
        values = tuple(_sizes(p) if s.kind == DIMS else p for s, p in zip(plan.slots, packed, strict=True))
        found = flat_gradients(plan, tuple(grads), needs, values)
        return found[0] if count == 1 else found

    return run


def _sizes(packed: Any) -> Any:
    """Sizes as formulas take them, those of each tensor if there are several."""
    return tuple(_sizes(p) for p in packed) if isinstance(packed, (list, tuple)) else packed


def backward_of(name: str, grads: tuple[Any, ...], needs: tuple[bool, ...], args: tuple[Any, ...]) -> tuple[Any, ...]:
    """Gradients of the wanted tensors among an operator's arguments, by the engine: the operator runs again on aliases.

    Differentiable, where gradients are recorded: the aliases have their sources' history.
    """
    wanted = [a for a, need in zip(_leaves(args), needs, strict=True) if need]
    if all(g is None for g in grads):
        return (None,) * len(wanted)
    recorded = modes.grad
    with enable_grad():
        aliases = [_alias(t, recorded) for t in wanted]
        given = iter(aliases)
        flags = iter(needs)
        out = _called(name, tuple(_replaced(a, flags, given) for a in args))
        results = out if isinstance(out, (tuple, list)) else (out,)
        pairs = [(r, g) for r, g in zip(results, grads, strict=True) if g is not None and r.requires_grad]
        if not pairs:
            return (None,) * len(wanted)
        targets = [a for a in aliases if isinstance(a, Tensor) and a.requires_grad]
        found = iter(grad(
            [r for r, _ in pairs], targets, [g for _, g in pairs], create_graph=recorded, allow_unused=True
        ))
    return tuple(next(found) if isinstance(a, Tensor) and a.requires_grad else None for a in aliases)


def _called(name: str, args: tuple[Any, ...]) -> Any:
    op = OPS[name]
    if op.host:
        assert op.kernel is not None
        return op.kernel(*args)
    lists = tuple(tuple(a) if isinstance(a, list) else a for a in args)
    return call(op, lists)


def _alias(value: Any, recorded: bool) -> Any:
    """A tensor to take the gradient at: the same values, and the same history where that is wanted."""
    if not isinstance(value, Tensor) or not value.dtype.is_differentiable:
        return value
    return value.view_as(value) if recorded and value.requires_grad else value.detach().requires_grad_()


def _leaves(values: tuple[Any, ...]) -> Iterator[Any]:
    for value in values:
        if type(value) is tuple:
            yield from _leaves(value)
        else:
            yield value


def _replaced(value: Any, needs: Iterator[bool], given: Iterator[Any]) -> Any:
    if type(value) is tuple:
        return tuple(_replaced(v, needs, given) for v in value)
    return next(given) if next(needs) else value

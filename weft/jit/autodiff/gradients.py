"""Gradients while a program runs: an operator's formulas on Tensors, or the engine where what runs again has none."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from weft.autograd.api import grad
from weft.ir.graph import Node
from weft.ops.backward import DIMS, Plan, flat_gradients
from weft.tensor.modes import enable_grad, modes
from weft.tensor.tensor import Tensor


def formulas_of(plan: Plan, node: Node) -> Callable[..., Any]:
    """What computes an opaque call on Tensors."""
    count = len(node.outputs)

    def run(grads: tuple[Any, ...], needs: tuple[bool, ...], packed: tuple[Any, ...]) -> Any:
        if all(g is None for g in grads):
            return None if count == 1 else (None,) * count
        values = tuple(_sizes(p) if s.kind == DIMS else p for s, p in zip(plan.slots, packed, strict=True))
        gradients = flat_gradients(plan, tuple(grads), needs, values)
        return gradients[0] if count == 1 else gradients

    return run


def _sizes(packed: Any) -> Any:
    """Sizes as formulas take them, those of each tensor if there are several."""
    return tuple(_sizes(p) for p in packed) if isinstance(packed, (list, tuple)) else packed


def gradients_of(
    run: Callable[[list[Any]], Sequence[Any]], grads: tuple[Any, ...], inputs: tuple[Any, ...], needs: tuple[bool, ...]
) -> list[Any]:
    """Gradients of the wanted inputs for those of what `run` gives of them, by the engine: of a list, a list, None for
    an undefined one. Differentiable, where gradients are recorded.
    """
    if all(g is None for t in grads for g in _parts(t)):
        return [None for need in needs if need]
    recorded = _is_recorded((grads, inputs))
    with enable_grad():
        aliases = [
            _mapped(v, lambda t: _alias(t, recorded)) if need else v for v, need in zip(inputs, needs, strict=True)
        ]
        pairs = [p for r, g in zip(run(aliases), grads, strict=True) for p in _pairs(r, g)]
        wanted = [a for a, need in zip(aliases, needs, strict=True) if need]
        targets = [t for a in wanted for t in _parts(a) if isinstance(t, Tensor) and t.requires_grad]
        gradient_of: dict[int, Any] = {}
        if pairs and targets:
            gradients = grad(
                [r for r, _ in pairs], targets, [g for _, g in pairs], create_graph=recorded, allow_unused=True
            )
            gradient_of = {id(t): g for t, g in zip(targets, gradients, strict=True)}
    return [_mapped(a, lambda t: gradient_of.get(id(t))) for a in wanted]


def _mapped(value: Any, function: Callable[[Any], Any]) -> Any:
    if isinstance(value, dict):
        return {k: _mapped(v, function) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        parts = [_mapped(v, function) for v in value]
        make = getattr(type(value), "_make", type(value))  # of named tuples
        return make(parts)
    return function(value)


def _parts(value: Any) -> Iterator[Any]:
    if isinstance(value, (dict, list, tuple)):
        for part in value.values() if isinstance(value, dict) else value:
            yield from _parts(part)
    else:
        yield value


def _pairs(result: Any, gradient: Any) -> Iterator[tuple[Any, Any]]:
    if gradient is None:
        return
    if isinstance(result, dict):
        for key, part in result.items():
            yield from _pairs(part, gradient.get(key))
    elif isinstance(result, (list, tuple)):
        for part, own in zip(result, gradient, strict=True):
            yield from _pairs(part, own)
    elif isinstance(result, Tensor) and result.requires_grad:
        yield result, gradient


def _is_recorded(values: tuple[Any, ...]) -> bool:
    return modes.grad and any(isinstance(t, Tensor) and t.requires_grad for t in _parts(values))


def _alias(value: Any, recorded: bool) -> Any:
    """A tensor to take the gradient at: the same values, and the same history where that is wanted."""
    if not isinstance(value, Tensor) or not value.dtype.is_differentiable:
        return value
    return value.view_as(value) if recorded and value.requires_grad else value.detach().requires_grad_()

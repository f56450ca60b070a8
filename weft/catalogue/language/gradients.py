"""What the backward of a scripted program is made of: gradients that may be undefined (None), summed and fitted."""

from __future__ import annotations

from typing import Any

from weft.catalogue.language.entries import ORDERED, language, type_of
from weft.runtime.generator import default_generator
from weft.types.tensor_type import DTYPE, INT, TENSOR, Type, list_of, optional, tuple_of

RANDOM_STATE: Type = tuple_of(INT, INT)
METADATA: Type = optional(tuple_of(list_of(INT), DTYPE))


def _sum(a: Any, b: Any) -> Any:
    if a is None or b is None:
        return b if a is None else a
    if isinstance(a, dict):
        return {k: _sum(a.get(k), b.get(k)) for k in (*a, *(k for k in b if k not in a))}
    return type(a)(map(_sum, a, b)) if isinstance(a, (list, tuple)) else a + b


language(
    "prim::AutogradAdd", "a, b", "The sum of two gradients, of which either may be undefined.",
    lambda a, b: _sum(a, b), rule=lambda a, b: type_of(b) if a is None else type_of(a),
)
language(
    "prim::metadata_if_not_equal", "self, result", "Sizes and dtype of a tensor, where they are not the result's.",
    lambda self, result: None if self.shape == result.shape and self.dtype is result.dtype
    else (list(self.shape), self.dtype),
    rule=lambda self, result: METADATA,
)


def _fitted(grad: Any, metadata: Any) -> Any:
    if grad is None or metadata is None:
        return grad
    sizes, dtype = metadata
    if list(grad.shape) != sizes:
        grad = grad.sum_to_size(sizes)
    return grad if grad.dtype is dtype else (grad if dtype.is_complex else grad.real).to(dtype)


language(
    "prim::fit_gradient", "grad, metadata", "A gradient summed to these sizes and cast to this dtype, if any.",
    _fitted, rule=lambda grad, metadata: optional(TENSOR),
)
language(
    "prim::fill_gradients", "grads, results",
    "Gradients of an operator's results, with zeros for the undefined ones; all undefined where none is defined.",
    lambda grads, results: grads if all(g is None for g in grads)
    else tuple(r.new_zeros(r.shape) if g is None else g for g, r in zip(grads, results, strict=True)),
    rule=lambda grads, results: tuple(optional(TENSOR) for _ in results), several=True,
)


def _place() -> tuple[int, int]:
    return default_generator.initial_seed(), default_generator.offset


def _go_on_from(state: tuple[int, int]) -> tuple[()]:
    default_generator.set_state(state)
    return ()


language(
    "prim::random_state", "", "Where the stream of random numbers is: seed and offset.",
    _place, rule=lambda: RANDOM_STATE, effect=ORDERED,
)
language(
    "prim::set_random_state", "state", "Go on drawing from there: what is run again draws what it drew.",
    _go_on_from, rule=lambda state: (), effect=ORDERED, several=True,
)

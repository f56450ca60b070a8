"""validate_outputs: a gradient is made to fit the tensor it belongs to: summed to its shape, cast to its dtype,
or refused by name."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from weft.autograd.node import InputMetadata, Node
from weft.ops.packet import aten
from weft.ops.rules import is_expandable, refuse_unfit
from weft.support import limits
from weft.support.errors import StateError
from weft.tensor.tensor import Tensor
from weft.types import shape_env
from weft.types.dims import Dim


def validate(name: str, index: int, gradient: Any, metadata: InputMetadata, is_users: bool = False) -> Any:
    """The gradient with the metadata's sizes and dtype. is_users: whether code of the user's made it, which says itself
    what a complex gradient of a real tensor is. Raises StateError naming the node and the gradient's number."""
    if not isinstance(gradient, Tensor):
        raise StateError(
            f"Function {name} returned a {type(gradient).__name__} at index {index}; expected a Tensor or None"
        )
    if gradient.dims != metadata.dims:
        gradient = _fit(name, index, gradient, metadata)
    if gradient.dtype is not metadata.dtype:
        if is_users and not gradient.dtype.is_floating_point:
            _refuse_other_field(name, index, gradient, metadata)
        gradient = _cast(gradient, metadata)
    return gradient


def _fit(name: str, index: int, gradient: Tensor, metadata: InputMetadata) -> Tensor:
    if _is_sum(metadata.dims, gradient.dims):
        return aten.sum_to_size(gradient, metadata.dims)  # type: ignore[no-any-return]
    if _same(gradient.dims, metadata.dims):
        return gradient
    refuse_unfit(f"Function {name} returned an invalid gradient at index {index}", gradient.dims, metadata.dims)
    return aten.sum_to_size(gradient, metadata.dims)  # type: ignore[no-any-return]


@lru_cache(maxsize=limits.RESULTS)
def _is_sum(small: tuple[Dim, ...], large: tuple[Dim, ...]) -> bool:
    """Whether both are numbers, and repeating the one gives the other."""
    return all([type(d) is int for d in (*small, *large)]) and is_expandable(small, large)  # type: ignore[arg-type]


def _same(a: tuple[Dim, ...], b: tuple[Dim, ...]) -> bool:
    return len(a) == len(b) and all(map(shape_env.same_when_summed, a, b))


def _refuse_other_field(name: str, index: int, gradient: Tensor, metadata: InputMetadata) -> None:
    if gradient.dtype.is_complex is not metadata.dtype.is_complex:
        raise StateError(
            f"Function {name} returned an invalid gradient at index {index} - got {gradient.dtype} for an input of "
            f"{metadata.dtype}. Expected isFloatingType(grad.scalar_type()) || (input_is_complex == grad_is_complex)"
        )


def _cast(gradient: Tensor, metadata: InputMetadata) -> Tensor:
    if gradient.dtype.is_complex and not metadata.dtype.is_complex:
        gradient = aten.real(gradient)
    return aten._to_copy(gradient, metadata.dtype)  # type: ignore[no-any-return]


def wrong_count(node: Node, out: tuple[Any, ...]) -> StateError:
    """The error for a node that does not give one gradient for each edge."""
    return StateError(
        f"Function {node.name()} returned an invalid number of gradients - got {len(out)}, "
        f"but expected {len(node.edges)}"
    )

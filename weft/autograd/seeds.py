"""Where a backward call starts, what it is asked for and who runs it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, cast

from weft.autograd.anomaly import anomaly
from weft.autograd.node import Edge, GradientEdge
from weft.autograd.record import arrival_edge, gradient_edge
from weft.ops.overrides import plain_kinds
from weft.ops.packet import aten
from weft.support.errors import ArgumentError, StateError
from weft.tensor.dense import is_dense, payload_of
from weft.tensor.modes import AT_WORK, modes
from weft.tensor.size import Size
from weft.tensor.tensor import Tensor


def input_edge(value: Any) -> Edge:
    """The edge into which the gradient of an input flows. Raises StateError where there is none."""
    if isinstance(value, GradientEdge):
        return (value.node.arrival(value.output_nr), value.output_nr)
    if not isinstance(value, Tensor):
        raise StateError(f"all inputs have to be Tensors or GradientEdges, but got {type(value).__name__}")
    if modes.capture is not None:
        modes.capture.outside.note_asked(value)
    edge = arrival_edge(value)
    if edge is None:
        raise StateError("One of the differentiated Tensors does not require grad")
    return edge


def seeds_of(roots: Sequence[Tensor | GradientEdge], grads: Sequence[Tensor | None]) -> tuple[list[Edge], list[Any]]:
    """The edge of each root, and the gradient that starts there: the given one, or 1 for a scalar.
    Raises StateError, ArgumentError."""
    edges: list[Edge] = []
    seeds: list[Any] = []
    for i, root in enumerate(roots):
        edge = (root.node, root.output_nr) if isinstance(root, GradientEdge) else gradient_edge(root)
        if edge is None:
            raise StateError(f"element {i} of tensors does not require grad and does not have a grad_fn")
        edges.append(edge)
        seeds.append(_seed(root, grads[i], i))
    return edges, seeds


def _seed(root: Tensor | GradientEdge, grad: Tensor | None, i: int) -> Tensor:
    like = root if isinstance(root, Tensor) else root.node.metadata_of_inputs[root.output_nr]
    assert like is not None
    if grad is not None:
        _check_seed(like, grad, i)
        return grad
    count: Any = root.numel() if isinstance(root, Tensor) else math.prod(cast(Any, like.dims))
    if count != 1:
        raise StateError("grad can be implicitly created only for scalar outputs")
    if not like.dtype.is_floating_point:
        raise StateError(f"grad can be implicitly created only for real scalar outputs but got {like.dtype}")
    previous = modes.grad
    modes.grad = modes.grad and AT_WORK
    try:
        return aten.ones_like(root) if isinstance(root, Tensor) else aten.ones(like.dims, dtype=like.dtype)  # type: ignore[no-any-return]
    finally:
        modes.grad = previous


def _check_seed(like: Any, grad: Any, i: int) -> None:
    """A gradient that the caller gave must be a tensor of the output's shape, complex exactly where the output is."""
    if not isinstance(grad, Tensor):
        raise ArgumentError(f"gradients can be either Tensors or None, but got {type(grad).__name__}")
    if grad.dims == like.dims and grad.dtype is like.dtype:
        return
    if len(grad.dims) != len(like.dims) or grad.shape != Size(like.shape):
        raise StateError(
            f"Mismatch in shape: grad_output[{i}] has a shape of {grad.shape} and output[{i}] has a shape of "
            f"{Size(like.shape)}."
        )
    if grad.dtype.is_complex != like.dtype.is_complex:
        raise StateError(
            "For complex Tensors, both grad_output and output are required to have the same dtype. Mismatch in dtype: "
            f"grad_output[{i}] has a dtype of {grad.dtype} and output[{i}] has a dtype of {like.dtype}."
        )


def retain_inputs(inputs: Any) -> None:
    """backward(inputs=[non-leaf]) makes it keep its gradient."""
    for tensor in inputs:
        if isinstance(tensor, Tensor) and tensor.requires_grad and not tensor.is_leaf:
            tensor.retain_grad()


def run_by_backend(edges: Sequence[Edge], seeds: Sequence[Any], keep: bool) -> bool:
    """Whether the back end of the gradients has run the call, which gives leaves their gradients and no more."""
    if not seeds or is_dense(seeds[0]) or anomaly.enabled or modes.capture is not None:
        return False
    if any([type(seed) not in plain_kinds for seed in seeds]):  # a class of the user's, or a mode, may be asked
        return False
    previous, modes.grad = modes.grad, modes.grad and AT_WORK
    try:
        return payload_of(seeds[0]).backend.backward(edges, seeds, keep)
    finally:
        modes.grad = previous

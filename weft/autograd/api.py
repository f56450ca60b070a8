"""weft.autograd.backward and weft.autograd.grad."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from weft.autograd.engine import run_backward
from weft.autograd.node import GradientEdge
from weft.ops.overrides import overridable
from weft.ops.packet import aten
from weft.support.errors import StateError, ValueProblem
from weft.support.warn import warn
from weft.tensor.modes import modes
from weft.tensor.tensor import Tensor

Tensors = Any


def _tuple(value: Tensors) -> tuple[Any, ...]:
    if isinstance(value, dict):
        return tuple(value.values())
    return (value,) if isinstance(value, (Tensor, GradientEdge)) or value is None else tuple(value)


@overridable
def backward(
    tensors: Tensors, grad_tensors: Tensors = None, retain_graph: bool | None = None, create_graph: bool = False,
    grad_variables: Tensors = None, inputs: Tensors = None,
) -> None:
    """Accumulate the gradients of the leaves that `tensors` depend on (of `inputs` only, when given: a dict, as
    `dict(model.named_parameters())`, stands for its values).
    grad_variables: the older name of grad_tensors."""
    if grad_variables is not None:
        warn("`grad_variables` is deprecated. Use `grad_tensors` instead.", FutureWarning)
        if grad_tensors is not None:
            raise StateError(
                "`grad_tensors` and `grad_variables` (deprecated) arguments both passed to `backward()`. "
                "Please only use `grad_tensors`."
            )
        grad_tensors = grad_variables
    roots = _tuple(tensors)
    seeds = (None,) * len(roots) if grad_tensors is None else _tuple(grad_tensors)
    if len(seeds) != len(roots):
        raise StateError(f"got {len(roots)} tensors and {len(seeds)} gradients")
    run_backward(roots, seeds, retain_graph, create_graph, None if inputs is None else _tuple(inputs), True)


@overridable
def grad(
    outputs: Tensors,
    inputs: Tensors,
    grad_outputs: Tensors = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    only_inputs: bool = True,
    allow_unused: bool | None = None,
    is_grads_batched: bool = False,
    materialize_grads: bool = False,
) -> tuple[Any, ...]:
    """Gradients of `outputs` with respect to `inputs`, returned and not accumulated: a tuple, or for a dict of inputs
    a dict. only_inputs: is ignored, as in PyTorch.

    Raises StateError for an input that the outputs do not depend on, unless allow_unused (None is returned)
    or materialize_grads (zeros).
    """
    if materialize_grads and allow_unused is False:
        raise ValueProblem(
            "Expected allow_unused to be True or not passed when materialize_grads=True, but got: allow_unused=False."
        )
    if not only_inputs:
        warn(
            "only_inputs argument is deprecated and is ignored now (defaults to True). To accumulate gradient for "
            "other parts of the graph, please use weft.autograd.backward.", FutureWarning,
        )  # fmt: skip
    roots, wanted = _tuple(outputs), _tuple(inputs)
    seeds = (None,) * len(roots) if grad_outputs is None else _tuple(grad_outputs)
    if is_grads_batched:
        gradients = _batched(roots, wanted, seeds, retain_graph, create_graph, bool(allow_unused))
    else:
        captured = run_backward(roots, seeds, retain_graph, create_graph, wanted, False)
        gradients = _complete(captured, wanted, bool(allow_unused), materialize_grads, create_graph)
    if isinstance(inputs, dict):  # (typed as the tuple that almost everybody asks for)
        return dict(zip(inputs, gradients, strict=True))  # type: ignore[return-value]
    return gradients


def _complete(
    captured: Sequence[Any], wanted: Sequence[Tensor], allow_unused: bool, materialize: bool, create_graph: bool
) -> tuple[Any, ...]:
    out = []
    for i, (gradient, tensor) in enumerate(zip(captured, wanted, strict=False)):
        if isinstance(tensor, GradientEdge) and materialize and gradient is None:
            raise StateError("materialize_grads cannot be used when the given input is a GradientEdge")
        if gradient is None and materialize:
            gradient = aten.zeros_like(tensor).requires_grad_(create_graph)
        if gradient is None and not allow_unused:
            raise StateError(
                f"The differentiated Tensor at index {i} appears to not have been used in the graph. "
                "Set allow_unused=True if this is the desired behavior."
            )
        out.append(gradient)
    return tuple(out)


def _batched(
    roots: Sequence[Tensor], wanted: Sequence[Tensor], seeds: Sequence[Tensor | None], retain: bool | None,
    create: bool, allow_unused: bool,
) -> tuple[Any, ...]:
    """The gradients for each entry of the leading dim of the seeds."""
    for i, (root, seed) in enumerate(zip(roots, seeds, strict=False)):
        if seed is not None and tuple(seed.shape[1:]) != tuple(root.shape):
            raise StateError(
                "If `is_grads_batched=True`, we interpret the first dimension of each grad_output as the batch "
                "dimension. The sizes of the remaining dimensions are expected to match the shape of corresponding "
                f"output, but a mismatch was detected: grad_output[{i}] has a shape of {seed.shape} and output[{i}] "
                f"has a shape of {root.shape}."
            )
    run = _by_rows if modes.capture is not None or all(s is None for s in seeds) else _by_batch
    return _complete(run(roots, wanted, seeds, retain, create), wanted, allow_unused, False, create)


def _by_batch(
    roots: Sequence[Tensor], wanted: Sequence[Tensor], seeds: Sequence[Tensor | None], retain: bool | None, create: bool
) -> list[Any]:
    """One walk for all of them, its gradients batched as in vmap."""
    from weft.layers.transforms.custom import BatchLevel  # the transforms stand on this package
    from weft.ops.batching import whole  # only used with them

    size = next(s.dims[0] for s in seeds if s is not None)
    with BatchLevel(size) as level:
        inside = [None if s is None else level.wrap(s) for s in seeds]
        batched = run_backward(roots, inside, retain, create, wanted, False)
        owned, values = [level.owns(g) for g in batched], level.lower(tuple(batched))
    return [whole(g, size) if g is not None and not o else g for g, o in zip(values, owned, strict=True)]


def _by_rows(
    roots: Sequence[Tensor], wanted: Sequence[Tensor], seeds: Sequence[Tensor | None], retain: bool | None, create: bool
) -> list[Any]:
    """One walk each."""
    count = next((int(s.shape[0]) for s in seeds if s is not None), 1)
    rows = []
    for i in range(count):
        keep = bool(retain) or create or i < count - 1
        rows.append(run_backward(
            roots, [None if s is None else aten.select(s, 0, i) for s in seeds], keep, create, wanted, False
        ))
    return [
        None if any(g is None for g in column) else aten.stack(tuple(column)) for column in zip(*rows, strict=False)
    ]

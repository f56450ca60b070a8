"""The outputs of a custom Function: their history, and what was saved of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from weft.autograd.function_context import FunctionCtx
from weft.autograd.node import InputMetadata
from weft.autograd.saved import SavedTensor, default_hooks, unrecorded
from weft.autograd.views import check_inplace, rebase
from weft.ops.packet import aten
from weft.support.errors import StateError
from weft.support.warn import warn
from weft.tensor.history import AutogradState
from weft.tensor.modes import modes
from weft.tensor.tensor import Tensor

if TYPE_CHECKING:
    from weft.autograd.function import FunctionNode


_NO_INPUT = (
    "ctx.mark_dirty() received a tensor that was not an input. Only input Tensors that have been mutated should be "
    "passed to ctx.mark_dirty()."
)


def _is_among(tensor: Tensor, tensors: Any) -> bool:
    return any(t is tensor for t in tensors)


def attach(
    ctx: FunctionCtx, node: FunctionNode | None, args: tuple[Any, ...], outputs: tuple[Any, ...]
) -> tuple[Any, ...]:
    """The outputs with their histories."""
    if any(not _is_among(d, outputs) for d in ctx._dirty):
        raise StateError(
            "Some elements marked as dirty during the forward method were not returned as output. "
            "The inputs that are modified inplace must all be outputs of the Function."
        )
    if any(not _is_among(d, args) for d in ctx._dirty):
        warn(_NO_INPUT)
    for written in ctx._dirty:  # perhaps through NumPy, which counts nothing
        written.storage().version += 1
    carry = [
        isinstance(o, Tensor) and o.dtype.is_differentiable and not _is_among(o, ctx._without_grad) for o in outputs
    ]
    if node is not None and not all(carry):
        node.without_grad = tuple([i for i, carries in enumerate(carry) if not carries])
    attached: list[Any] = []
    for i, output in enumerate(outputs):
        if not isinstance(output, Tensor):
            attached.append(output)
            if node is not None:
                node.metadata_of_inputs += (None,)
            continue
        is_input, is_dirty = _is_among(output, args), _is_among(output, ctx._dirty)
        if node is None or not carry[i]:
            attached.append(_without_history(output, is_input, is_dirty, node is not None))
        elif is_dirty and is_input:
            attached.append(_rewritten(node, output, i, args, len(outputs)))
        else:
            attached.append(_with_history(node, output, i, is_input, sum(carry) > 1))
        if node is not None and len(node.metadata_of_inputs) == i:
            node.metadata_of_inputs += (InputMetadata(output.dims, output.dtype),)
    if node is not None and modes.capture is not None:
        modes.capture.note_history(attached)
        modes.capture.note_function(node, [a for a in args if isinstance(a, Tensor)], attached)
    return tuple(attached)


def _without_history(output: Tensor, is_input: bool, is_dirty: bool, had_node: bool) -> Tensor:
    if is_input and not is_dirty:
        return output.detach() if had_node and output.requires_grad else _alias(output)
    if not is_input and output._view is None and output._node is not None:
        return output.detach()
    if output._view is not None and not is_dirty:
        output._view.creation = "function"
    return output


def _alias(tensor: Tensor) -> Tensor:
    """A view of the whole tensor, made as within no_grad."""
    with unrecorded():
        return aten.alias(tensor)  # type: ignore[no-any-return]


def _with_history(node: FunctionNode, output: Tensor, index: int, is_input: bool, is_one_of_many: bool) -> Tensor:
    if is_input:
        output = _alias(output)
    if output._view is not None:
        output._view.creation = "multi" if is_one_of_many else "function"
    state = AutogradState(False, node, index)
    state.version = output._version
    output._autograd = state
    return output


def _rewritten(node: FunctionNode, output: Tensor, index: int, args: tuple[Any, ...], count: int) -> Tensor:
    """An input that forward changed in place: its history, or its base's, is this call."""
    view = output._view
    if view is None and output.is_leaf and output.requires_grad:
        raise StateError("a leaf Variable that requires grad has been used in an in-place operation.")
    check_inplace(output, True)
    if view is not None and count > 1:
        raise StateError(
            "If your Function modifies inplace an input that is a view of another Tensor, "
            "your Function cannot return more than one Tensor. This is not supported by the current autograd "
            "engine. You should either make sure the input is not a view (using .clone() for example) or make your "
            "Function only return one Tensor (potentially splitting it into two Functions: "
            "one doing the inplace that returns a single Tensor and a second one that does the other operations)."
        )
    position = next(i for i, a in enumerate(args) if a is output)
    node.dirty_slot = node.place_of(position)
    rebase(output, node)
    if view is None and index:
        output._state().index = index
    return output


def save_for_node(ctx: FunctionCtx, node: FunctionNode | None, outputs: tuple[Any, ...]) -> None:
    """Turn what forward asked to keep into saved tensors; outputs are kept without a reference to their node."""
    saved: list[SavedTensor | None] = []
    for tensor in ctx._to_save:
        if tensor is None:
            saved.append(None)
            continue
        at = next((i for i, o in enumerate(outputs) if o is tensor), None)
        own = node is not None and at is not None and tensor._node is node
        packed = SavedTensor(tensor, True, tensor.output_nr) if own else SavedTensor(tensor)
        if own and default_hooks.stack:
            packed.pack_output(tensor)
        saved.append(packed)
    ctx._saved = tuple(saved)
    ctx._to_save, ctx._dirty, ctx._without_grad = (), (), ()

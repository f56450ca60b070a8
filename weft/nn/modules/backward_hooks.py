"""Full backward hooks of modules: identity nodes around the inputs and outputs of a call,
where its gradients pass by."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from weft.autograd.node import InputMetadata, Node, hooks_of
from weft.autograd.record import gradient_edge
from weft.nn.modules import global_hooks as everywhere
from weft.ops.packet import aten
from weft.support.errors import StateError
from weft.support.refusals import call_user
from weft.support.warn import warn
from weft.tensor.history import AutogradState
from weft.tensor.modes import modes, no_grad
from weft.tensor.tensor import Tensor

if TYPE_CHECKING:
    from weft.nn.modules.module import Module

Grads = tuple[Any, ...]
Tables = tuple[dict[int, Any], ...]
_NO_INPUTS = (
    "Full backward hook is firing when gradients are computed with respect to module outputs since no inputs require "
    "gradients."
)


class BackwardHookFunctionBackward(Node):
    """The identity on several tensors; hooks on it see all their gradients at once. waits_for: within a capture, of the
    inputs' node, the outputs' node: a walk that does not pass that one leaves the gradients as they are."""

    waits_for: Node | None = None

    def apply(self, grads: Grads, needs: tuple[bool, ...]) -> Grads:
        return grads


class BackwardWatch:
    """The hooks of one call of a module. grad_output is kept from the outputs' node until the inputs' node has run.

    hooks, pre_hooks: tables of hooks, called in order; None: those of all modules, then the module's own.
    """

    def __init__(self, module: Module, hooks: Tables | None = None, pre_hooks: Tables | None = None) -> None:
        self.module = module
        self.tables = (everywhere.backward, module._backward_hooks) if hooks is None else hooks
        self.pre_tables = (everywhere.backward_pre, module._backward_pre_hooks) if pre_hooks is None else pre_hooks
        self.grad_outputs: Grads | None = None
        self.inputs_node: BackwardHookFunctionBackward | None = None  # only within a capture
        self.watches_inputs = False
        self.input_count = -1

    def inputs(self, args: Any) -> Any:
        """The positional arguments, passed through a node whose gradients are grad_input."""
        passed, node, places = _through(args)
        self.input_count = len(args)
        if node is None:
            return passed
        self.watches_inputs = True
        self.inputs_node = None if modes.capture is None else node
        node.register_hook(lambda grad_inputs, _: self._inputs_known(grad_inputs, places))
        return passed

    def outputs(self, result: Any) -> Any:
        """The result, passed through a node whose gradients are grad_output."""
        is_tuple = isinstance(result, tuple)
        if not is_tuple and not isinstance(result, Tensor) and modes.capture is None:
            warn(
                (
                    "For backward hooks to be called, module output should be a Tensor or a tuple of Tensors but "
                    f"received {type(result)}"
                ),
            )
        passed, node, places = _through(result if is_tuple else (result,))
        if node is not None:
            count = len(passed)  # the hook must not hold on to the results, whose history it is part of
            node.register_prehook(lambda grads: self._outputs_known(grads, places, count))
            if self.inputs_node is not None:
                self.inputs_node.waits_for, self.inputs_node = node, None
        return passed if is_tuple else passed[0]

    def _outputs_known(self, grads: Grads, places: list[int], count: int) -> Grads:
        seen = _spread(grads, places, count)
        for hook in _hooks(self.pre_tables, call_pre_hook, 1):
            seen = call_pre_hook(hook, self.module, seen)
        self.grad_outputs = seen
        if not self.watches_inputs:
            self._without_inputs(seen)
        return tuple(seen[i] for i in places)

    def _without_inputs(self, grad_outputs: Grads) -> None:
        if modes.capture is None and any(self.tables):
            warn(_NO_INPUTS)
        for hook in _hooks(self.tables, call_without_inputs, None):
            call_without_inputs(hook, self.module, (None,) * self.input_count, grad_outputs)
        self.grad_outputs = None

    def _inputs_known(self, grads: Grads, places: list[int]) -> Grads | None:
        if self.grad_outputs is None:  # only the inputs' gradients were asked for past the outputs
            return None
        seen = _spread(grads, places, self.input_count)
        for hook in _hooks(self.tables, call_hook, 1):
            seen = call_hook(hook, self.module, seen, self.grad_outputs)
        self.grad_outputs = None
        return tuple(seen[i] for i in places)


def _hooks(tables: Tables, caller: Callable[..., Any], replaced: int | None) -> list[Any]:
    return [hook for table in tables for hook in hooks_of(table, caller, replaced)]


def call_pre_hook(hook: Any, module: Module, grad_outputs: Grads) -> Grads:
    """The gradients of a module's results, or what a hook puts in their place."""
    result = call_user(hook, module, grad_outputs)
    return _replaced(result, grad_outputs, "Backward pre hook", "grad_output")


def call_hook(hook: Any, module: Module, grad_inputs: Grads, grad_outputs: Grads) -> Grads:
    """The gradients of a module's arguments, or what a hook puts in their place."""
    result = call_user(hook, module, grad_inputs, grad_outputs)
    return _replaced(result, grad_inputs, "Backward hook", "grad_input")


def _replaced(result: Any, grads: Grads, hook: str, what: str) -> Grads:
    """What a hook puts in the gradients' place. Raises StateError where their number is another."""
    if result is None:
        return grads
    replaced = result if isinstance(result, tuple) else (result,)
    if len(replaced) != len(grads):
        raise StateError(
            f"{hook} returned an invalid number of {what}, got {len(replaced)}, but expected {len(grads)}"
        )
    return replaced


def call_without_inputs(hook: Any, module: Module, grad_inputs: Grads, grad_outputs: Grads) -> None:
    """Tell a hook the gradients of a module's results, where none of its arguments has one."""
    result = call_user(hook, module, grad_inputs, grad_outputs)
    if result is not None and not (isinstance(result, tuple) and all(f is None for f in result)):
        raise StateError(
            "Backward hook for Modules where no input requires gradient should always return None or None for "
            "all gradients.")


def _through(values: Any) -> tuple[Any, BackwardHookFunctionBackward | None, list[int]]:
    """Tensors among the values that require grad, replaced by aliases behind one new node."""
    places = [i for i, v in enumerate(values) if isinstance(v, Tensor) and v.requires_grad] if modes.grad else []
    if not places:
        return values, None, places
    node = BackwardHookFunctionBackward(tuple(gradient_edge(values[i]) for i in places))
    passed = list(values)
    for slot, i in enumerate(places):
        passed[i] = _behind(values[i], node, slot, len(places))
    if modes.capture is not None:
        modes.capture.note_function(node, [values[i] for i in places], [passed[i] for i in places])
    aliased = (
        type(values)(*passed) if hasattr(values, "_fields") else type(values)(passed) if type(values) in (tuple, list)
        else tuple(passed)
    )
    return aliased, node, places


def _behind(tensor: Tensor, node: Node, slot: int, count: int) -> Tensor:
    """A view of the tensor whose history is the node; writing to it would go past the hooks, and is refused."""
    node.metadata_of_inputs += (InputMetadata(tensor.dims, tensor.dtype),)
    with no_grad():
        alias: Tensor = aten.alias(tensor)
    if alias._view is not None:
        alias._view.creation = "multi" if count > 1 else "function"
    state = alias._autograd = AutogradState(False, node, slot)
    state.version = alias._version
    return alias


def _spread(grads: Grads, places: list[int], count: int) -> Grads:
    gradients: list[Any] = [None] * count
    for i, gradient in zip(places, grads, strict=True):
        gradients[i] = gradient
    return tuple(gradients)

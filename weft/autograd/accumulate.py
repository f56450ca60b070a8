"""AccumulateGrad: the node of a leaf. Steals, clones or adds, by PyTorch's identity and layout rules."""

from __future__ import annotations

import sys
import threading
import weakref
from typing import Any

import numpy as np

from weft.autograd.node import InputMetadata, Node, hooks_of
from weft.ops.geometry import contiguous_strides
from weft.ops.overrides import DISABLED, OverrideLevel, override_classes, plain_kinds
from weft.ops.packet import aten
from weft.support.errors import ArgumentError, StateError
from weft.support.refusals import call_user
from weft.tensor.dense import dense_array, payload_of
from weft.tensor.modes import modes, no_grad
from weft.tensor.tensor import Tensor, tensor_around
from weft.types.formats import strided

taking = threading.RLock()  # several threads may run backward into one leaf


def gradient_of(variable: Tensor) -> Tensor | None:
    """`.grad`, for code of weft's own that gives it to nobody and keeps nothing of it: reading the property says
    that somebody has it."""
    if modes.capture is not None or type(variable) not in plain_kinds:
        return variable.grad
    state = variable._autograd
    return None if state is None else state.grad


def zero(variable: Tensor) -> None:
    """Set `.grad` to zero in its own memory, if there is one."""
    capture = modes.capture
    if capture is not None and capture.gradients.zero_grad(variable):
        return
    gradient = gradient_of(variable)
    if gradient is not None:
        _put_zeros(gradient)


@no_grad()
def _put_zeros(gradient: Tensor) -> None:
    gradient.detach().zero_()


class AccumulateGrad(Node):
    """Adds the incoming gradient to `.grad` of its leaf."""

    def __init__(self, variable: Tensor) -> None:
        self.edges = ()
        self.sequence = sys.maxsize  # leaves accumulate as soon as they are ready
        self._variable = weakref.ref(variable)
        self._awaited: Tensor | None = None
        self.metadata_of_inputs = (InputMetadata(variable.dims, variable.dtype),)

    @property
    def variable(self) -> Any:
        """The leaf, or None when nobody holds it any more (the leaf keeps its node, not the other way round, but for
        one whose hooks wait for its gradient)."""
        return self._variable()

    @property
    def is_awaited(self) -> bool:
        """Whether hooks of the leaf wait for its gradient."""
        state = None if (variable := self._variable()) is None else variable._autograd
        return state is not None and bool(state.post_accumulate)

    def keep_variable(self) -> None:
        """Keep the leaf alive: its hooks are to be given it, whoever else holds it."""
        self._awaited = self._variable()

    def belong_to(self, variable: Tensor) -> None:
        """Let the leaf be another object over the same bytes, with the same state."""
        self._variable = weakref.ref(variable)
        if self._awaited is not None:
            self._awaited = variable

    @property
    def has_hooks(self) -> bool:
        """Whether anybody is given the gradients."""
        return self.hook_tables is not None and bool(self.tensor_hooks or self.pre_hooks or self.post_hooks)

    def apply(self, grads: tuple[Any, ...], needs: tuple[bool, ...]) -> tuple[Any, ...]:
        return self._add(grads[0], False)

    def take(self, gradient: Any) -> tuple[Any, ...]:
        """apply() with a gradient that nobody else has."""
        return self._add(gradient, True)

    def _add(self, gradient: Any, is_owned: bool) -> tuple[Any, ...]:
        variable = self._variable()
        if variable is None:
            return ()
        capture = modes.capture
        if variable._autograd is None or not variable._autograd.requires_grad:
            return ()  # it was asked to take no more
        if gradient is None:
            pass  # hooks hear all the same that the leaf's turn came
        elif capture is not None:
            capture.gradients.accumulate(variable, gradient)
        elif override_classes:  # adding up is no public call
            with OverrideLevel(DISABLED):
                accumulate(variable, gradient, is_owned)
        else:
            accumulate(variable, gradient, is_owned)
        self._after(variable)
        return ()

    def _after(self, variable: Tensor) -> None:
        state = variable._autograd
        if state is not None and state.post_accumulate:
            for hook in hooks_of(state.post_accumulate, call_accumulated, None):
                call_accumulated(hook, variable)


def call_accumulated(hook: Any, variable: Tensor) -> None:
    """Tell a hook that the gradient of a leaf is there."""
    result = call_user(hook, variable)
    if result is not None:
        _refuse_result(result)


def _refuse_result(returned: Any) -> None:
    """A post-accumulate hook changes `.grad` itself; what it returns would go nowhere."""
    if not isinstance(returned, Tensor):
        raise ArgumentError(f"expected Variable, but hook returned '{type(returned).__name__}'")
    raise StateError("Tensor post accumulate grad hooks should return None.")


def accumulator_of(variable: Tensor) -> AccumulateGrad:
    """The leaf's AccumulateGrad node: one for its life, while its type stays."""
    state = variable._state()
    node = state.accumulate
    if node is None:
        with taking:
            node = state.accumulate
            if node is None:
                node = AccumulateGrad(variable)
                if state.hooks:  # of a leaf whose type changed: they belong to the tensor
                    node.tensor_hooks = {0: state.hooks}
                state.accumulate = node
    return node  # type: ignore[no-any-return]


def accumulate(variable: Tensor, gradient: Tensor, is_owned: bool = False) -> None:
    """`variable.grad += gradient`: in place when there is a gradient and grad mode is off, else a new object.
    is_owned: nobody else has the gradient."""
    state = variable._state()
    with taking:
        present = state.grad
        if present is None:
            state.grad = _first(variable, gradient, is_owned)
            state.owns_grad = not modes.grad and payload_of(gradient).has_bytes
        elif modes.grad or (present.layout is not strided and gradient.layout is strided):
            state.grad, state.owns_grad = present + gradient, False  # (a sum with a dense one is dense)
        else:
            present.add_(gradient)


def _first(variable: Tensor, gradient: Tensor, is_owned: bool) -> Tensor:
    if modes.grad:  # of its own, though it goes on being differentiable
        row_major = is_row_major(variable)
        memory = aten.empty_like(variable.detach()) if row_major else laid_out_like(variable, gradient.detach())
        return memory.copy_(gradient)
    if not payload_of(gradient).has_bytes:
        return gradient.detach()
    if is_owned and _shares_layout(variable, gradient):
        return gradient.detach() if gradient._autograd is not None else gradient
    return laid_out_like(variable, gradient)


def _shares_layout(variable: Tensor, gradient: Tensor) -> bool:
    if is_row_major(variable) and is_row_major(gradient):
        return True
    return gradient.geometry().strides == _layout(variable)


def is_row_major(tensor: Tensor) -> bool:
    """Whether a tensor certainly lies row-major."""
    data = dense_array(tensor)
    return bool(payload_of(tensor).is_row_major if data is None else data.flags.c_contiguous)


def _layout(variable: Tensor) -> tuple[Any, ...]:
    """The strides that .grad must have: the variable's own when it is dense, else row-major."""
    g = variable.geometry()
    order = sorted(range(g.ndim), key=lambda i: (-g.strides[i], i))
    expected: Any = 1
    for i in reversed(order):
        if g.dims[i] == 1:
            continue
        if g.strides[i] != expected:
            return contiguous_strides(g.dims)
        expected = expected * g.dims[i]
    return g.strides


def laid_out_like(variable: Tensor, gradient: Tensor) -> Tensor:
    """A copy of the gradient, laid out as the variable is."""
    data = dense_array(gradient)
    if data is not None:
        data = payload_of(gradient).materialize("backward()")
    if data is not None and is_row_major(variable):
        return tensor_around(np.array(data, order="C"))
    if data is None:
        quick = payload_of(gradient).copied_like(variable)
        if quick is not None:
            return quick
    layout = _layout(variable)
    if data is None:
        same = gradient.geometry().strides == layout
        copied: Tensor = aten.clone(gradient) if same else aten._contiguous_copy(gradient)
        return copied
    strides = tuple(s * data.dtype.itemsize for s in layout)
    out = np.empty(data.size, data.dtype)
    shaped = np.ndarray(data.shape, data.dtype, out, 0, strides) if data.size else np.empty(data.shape, data.dtype)
    shaped[...] = data
    return tensor_around(shaped)

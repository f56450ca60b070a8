"""weft.autograd.Function: operators written by the user, with a forward and a backward of their own.

The node of a call holds the context, never the other way round, and a saved output knows its node by number only: a graph with custom
Functions is freed by reference counting alone.
"""

from __future__ import annotations

import functools
import inspect
import warnings
import weakref
from collections.abc import Callable
from typing import Any

from weft.autograd.anomaly import anomaly, remember_forward
from weft.autograd.node import Edge, InputMetadata, Node
from weft.autograd.record import gradient_edge
from weft.autograd.saved import FREED, SavedTensor, default_hooks, outspoken, unrecorded
from weft.autograd.views import rebase
from weft.ops.packet import aten
from weft.support.errors import ArgumentError, StateError
from weft.support.locations import user_mark
from weft.tensor.history import AutogradState
from weft.tensor.modes import modes
from weft.tensor.tensor import Tensor


class FunctionCtx:
    """What `forward`, `setup_context` and `backward` of one call share. Any other attribute may be set on it too."""

    def __init__(self, needs: tuple[bool, ...]) -> None:
        self.needs_input_grad = needs
        self._to_save: tuple[Tensor | None, ...] = ()
        self._for_forward: tuple[Tensor | None, ...] = ()
        self._dirty: tuple[Tensor, ...] = ()
        self._without_grad: tuple[Tensor, ...] = ()
        self._materialize = True
        self._materialize_non_diff_grads = True
        self._saved: tuple[SavedTensor | None, ...] | None = ()
        self._node: Any = None

    def save_for_backward(self, *tensors: Tensor | None) -> None:
        """Keep inputs, outputs or other tensors (or None) for `saved_tensors`. Call it once; the last call counts."""
        for i, tensor in enumerate(tensors):
            if tensor is not None and not isinstance(tensor, Tensor):
                raise ArgumentError(f"save_for_backward can only save variables, but argument {i} is of type {type(tensor).__name__}")
        self._to_save = tensors

    def save_for_forward(self, *tensors: Tensor | None) -> None:
        """Keep tensors for `saved_tensors` of jvp, the forward-mode rule."""
        for i, tensor in enumerate(tensors):
            if tensor is not None and not isinstance(tensor, Tensor):
                raise ArgumentError(f"save_for_forward expects all arguments to be tensors, but argument {i} is of type {type(tensor).__name__}")
        self._for_forward = tensors

    def mark_dirty(self, *tensors: Tensor) -> None:
        """Say which inputs `forward` changed in place. They must all be returned."""
        for tensor in tensors:
            if not isinstance(tensor, Tensor):
                raise StateError(f"mark_dirty can only accept variables, but got a {type(tensor).__name__}")
        self._dirty = tensors

    def mark_non_differentiable(self, *tensors: Tensor) -> None:
        """Say which outputs carry no gradient."""
        for tensor in tensors:
            if not isinstance(tensor, Tensor):
                raise StateError(f"mark_non_differentiable only accepts variable arguments, but got a {type(tensor).__name__}")
        self._without_grad = tensors

    def set_materialize_grads(self, value: bool) -> None:
        """Whether `backward` gets zeros (the default) or None for outputs that received no gradient."""
        self._materialize = bool(value)

    @property
    def saved_tensors(self) -> tuple[Any, ...]:
        """The tensors given to save_for_backward. Raises StateError once the graph was freed, VersionError if one was written since."""
        node = None if self._node is None else self._node()
        if self._saved is None:
            raise StateError(FREED)
        return tuple([None if s is None else s.unpack(node) for s in self._saved])

    saved_variables = saved_tensors

    @property
    def _raw_saved_tensors(self) -> tuple[Any, ...]:
        if self._saved is None:
            raise StateError(FREED)
        return self._saved

    @property
    def next_functions(self) -> tuple[tuple[Any, int], ...]:
        """(node, input number) of every edge of the call's node."""
        return self._node_of().next_functions  # type: ignore[no-any-return]

    @property
    def metadata(self) -> dict[str, Any]:
        """The dictionary for remarks of the call's node."""
        return self._node_of().metadata  # type: ignore[no-any-return]

    def name(self) -> str:
        """The node's name."""
        return self._node_of().name()  # type: ignore[no-any-return]

    def _node_of(self) -> Any:
        node = None if self._node is None else self._node()
        if node is None:
            raise StateError("the node of a custom Function exists once its forward has returned")
        return node


class FunctionNode(Node):
    """The node of a custom Function's call. Attributes that the user put on the context can be read from it."""

    runs_on_nothing = True  # backward itself sees missing gradients, as zeros or None
    function: type[Function]

    def __init__(self, ctx: FunctionCtx, edges: tuple[Edge | None, ...], positions: tuple[int, ...], count: int) -> None:
        super().__init__(edges)
        self.ctx, self.positions, self.count = ctx, positions, count
        self.dirty_slot: int | None = None
        self.without_grad: tuple[int, ...] = ()
        self.mark = user_mark(2)
        ctx._node = weakref.ref(self)

    def apply(self, grads: tuple[Any, ...], needs: tuple[bool, ...]) -> tuple[Any, ...]:
        rule = self._rule()
        if self.ctx._materialize:
            grads = tuple([self._zeros(i) if g is None and self._materializes(i) else g for i, g in enumerate(grads)])
        out = outspoken(rule, self.ctx, *grads) if modes.special is not None else rule(self.ctx, *grads)
        return self._per_edge(out if isinstance(out, tuple) else (out,))

    def _rule(self) -> Callable[..., Any]:
        function = self.function
        has_backward, has_vjp = function.backward is not Function.backward, function.vjp is not Function.vjp
        if has_backward and has_vjp:
            raise StateError(
                "Implementing both 'backward' and 'vjp' for a custom Function is not allowed. You should only implement one of them."
            )
        return function.vjp if has_vjp else function.backward

    def _materializes(self, i: int) -> bool:
        return self.ctx._materialize_non_diff_grads or i not in self.without_grad

    def _zeros(self, i: int) -> Any:
        metadata = self.metadata_of_inputs[i]
        return None if metadata is None else aten.zeros(metadata.dims, dtype=metadata.dtype)

    def _per_edge(self, out: tuple[Any, ...]) -> tuple[Any, ...]:
        """One gradient per tensor argument. Surplus Nones are forgiven."""
        if len(out) > self.count and all(g is None for g in out[self.count :]):
            out = out[: self.count]
        if len(out) != self.count:
            raise StateError(f"function {self.name()} returned an incorrect number of gradients (expected {self.count}, got {len(out)})")
        for i, gradient in enumerate(out):
            if gradient is None:
                continue
            if i not in self.positions:
                raise StateError(
                    f"function {self.name()} returned a gradient different than None at position {i + 1}, but the corresponding forward input was "
                    "not a Variable"
                )
            if not isinstance(gradient, Tensor):
                raise StateError(f"expected Variable or None (got {type(gradient).__name__})")
        return tuple([out[i] for i in self.positions])

    def release(self) -> None:
        if self.ctx._saved:
            self.ctx._saved = None

    def __getattr__(self, name: str) -> Any:
        ctx = self.__dict__.get("ctx")
        if ctx is None or name.startswith("__"):
            raise AttributeError(name)
        return getattr(ctx, name)


class Function:
    """A differentiable operator of the user's own.

    Subclass it with static methods `forward(ctx, *args)` and `backward(ctx, *grads)`, or `forward(*args)`, `setup_context(ctx, inputs, output)`
    and `backward`; call it as `MyFunction.apply(*args)`. `backward` returns one gradient (or None) per argument of forward.
    """

    generate_vmap_rule = False
    _backward_cls: type[FunctionNode] | None = None

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        warnings.warn(
            f"{type(self)} should not be instantiated. Methods on autograd functions are all static, so you should invoke them on the class itself.",
            DeprecationWarning, stacklevel=2,
        )

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise StateError(
            "Legacy autograd function with non-static forward method is deprecated. Please use new-style autograd function with static forward method."
        )

    @staticmethod
    def forward(*args: Any, **kwargs: Any) -> Any:
        """Compute the outputs. Runs without recording history."""
        raise NotImplementedError("You must implement the forward function for custom autograd.Function.")

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> Any:
        """Save what backward needs, when forward takes no ctx."""
        raise NotImplementedError("setup_context is not implemented.")

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> Any:
        """The gradients of the arguments from those of the outputs."""
        raise NotImplementedError(
            "You must implement either the backward or vjp method for your custom autograd.Function to use it with backward mode AD."
        )

    @staticmethod
    def vjp(ctx: Any, *grad_outputs: Any) -> Any:
        """Another name for backward."""
        raise NotImplementedError(
            "You must implement either the backward or vjp method for your custom autograd.Function to use it with backward mode AD."
        )

    @staticmethod
    def jvp(ctx: Any, *grad_inputs: Any) -> Any:
        """The forward-mode rule: the outputs' tangents from the arguments'. Without one, forward mode goes through backward."""
        raise NotImplementedError("You must implement the jvp function for custom autograd.Function to use it with forward mode AD.")

    @staticmethod
    def vmap(info: Any, in_dims: tuple[Any, ...], *args: Any) -> Any:
        """The Function on a batch: (output, out_dims) from arguments whose batch dims in_dims names; info has batch_size and randomness."""
        raise NotImplementedError(
            "To use autograd.Function with vmap, you must either override the vmap static method or set generate_vmap_rule=True."
        )

    @classmethod
    def apply(cls, *args: Any, **kwargs: Any) -> Any:
        """Call the Function."""
        if kwargs:
            raise ArgumentError(f"got an unexpected keyword argument '{next(iter(kwargs))}'")
        if cls.setup_context is not Function.setup_context:
            args = _with_defaults(cls.forward, args)
        if modes.special is not None and hasattr(modes.special[-1], "apply_function"):
            return modes.special[-1].apply_function(cls, args)
        needs = tuple([isinstance(a, Tensor) and a.requires_grad for a in args])
        return cls._record(args, needs, modes.grad and any(needs), cls._run_forward)

    @classmethod
    def _record(cls, args: tuple[Any, ...], needs: tuple[bool, ...], records: bool, run: Callable[..., Any]) -> Any:
        """The outputs that `run(ctx, args)` gives, with the node of the call if it records one."""
        positions = tuple([i for i, a in enumerate(args) if isinstance(a, Tensor)])
        ctx = FunctionCtx(needs)
        edges = tuple([gradient_edge(args[i]) if records and needs[i] else None for i in positions])
        output = run(ctx, args)
        is_single = not isinstance(output, tuple)
        outputs = (output,) if is_single else output
        node = _node_class(cls)(ctx, edges, positions, len(args)) if records else None
        if node is not None and anomaly.enabled:
            remember_forward(node)
        attached = _attach(ctx, node, args, outputs)
        _save(ctx, node, attached)
        return attached[0] if is_single else attached

    @classmethod
    def _run_forward(cls, ctx: FunctionCtx, args: tuple[Any, ...]) -> Any:
        previous = modes.grad
        modes.grad = False
        try:
            if cls.setup_context is Function.setup_context:
                return cls.forward(ctx, *args)
            output = cls.forward(*args)
            cls.setup_context(ctx, args, output)
            return output
        finally:
            modes.grad = previous


def _with_defaults(forward: Callable[..., Any], args: tuple[Any, ...]) -> tuple[Any, ...]:
    """The arguments with forward's defaults behind them: setup_context sees all of forward's inputs."""
    bound = inspect.signature(forward).bind(*args)
    bound.apply_defaults()
    return bound.args


class InplaceFunction(Function):
    """A Function that may work in place, as older programs declare it; mark_dirty is what counts."""

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace


def _node_class(function: type[Function]) -> type[FunctionNode]:
    """The node class of a Function, kept on it: it lives as long as the Function does."""
    found: type[FunctionNode] | None = function.__dict__.get("_backward_cls")
    if found is None:
        found = type(f"{function.__name__}Backward", (FunctionNode,), {"function": function, "__module__": "weft.autograd.function"})
        function._backward_cls = found
    return found


def _is_among(tensor: Tensor, tensors: Any) -> bool:
    return any(t is tensor for t in tensors)


def _attach(ctx: FunctionCtx, node: FunctionNode | None, args: tuple[Any, ...], outputs: tuple[Any, ...]) -> tuple[Any, ...]:
    """The outputs with their histories."""
    if any(not _is_among(d, outputs) for d in ctx._dirty):
        raise StateError(
            "Some elements marked as dirty during the forward method were not returned as output. The inputs that are modified inplace must all be "
            "outputs of the Function."
        )
    carry = [isinstance(o, Tensor) and o.dtype.is_differentiable and not _is_among(o, ctx._without_grad) for o in outputs]
    if node is not None and not all(carry):
        node.without_grad = tuple([i for i, carries in enumerate(carry) if not carries])
    made: list[Any] = []
    for i, output in enumerate(outputs):
        if not isinstance(output, Tensor):
            made.append(output)
            if node is not None:
                node.metadata_of_inputs.append(None)
            continue
        is_input, is_dirty = _is_among(output, args), _is_among(output, ctx._dirty)
        if node is None or not carry[i]:
            made.append(_without_history(output, is_input, is_dirty, node is not None))
        elif is_dirty and is_input:
            made.append(_rewritten(node, output, i, args, len(outputs)))
        else:
            made.append(_with_history(node, output, i, is_input, sum(carry) > 1))
        if node is not None and len(node.metadata_of_inputs) == i:
            node.metadata_of_inputs.append(InputMetadata(output.dims, output.dtype))
    return tuple(made)


def _without_history(output: Tensor, is_input: bool, is_dirty: bool, had_node: bool) -> Tensor:
    if is_input and not is_dirty:
        return output.detach() if had_node and output.requires_grad else _alias(output)
    if not is_input and output._view is None and output.grad_fn is not None:
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
    view, state = output._view, output._autograd
    if view is None and state is not None and state.requires_grad and state.node is None:
        raise StateError("a leaf Variable that requires grad has been used in an in-place operation.")
    if view is not None:
        if view.base.is_leaf and view.base.requires_grad:
            raise StateError("a view of a leaf Variable that requires grad is being used in an in-place operation.")
        if count > 1:
            raise StateError(
                "If your Function modifies inplace an input that is a view of another Tensor, your Function cannot return more than one Tensor. This is "
                "not supported by the current autograd engine. You should either make sure the input is not a view (using .clone() for example) or make "
                "your Function only return one Tensor (potentially splitting it into two Functions: one doing the inplace that returns a single Tensor "
                "and a second one that does the other operations)."
            )
    position = next(i for i, a in enumerate(args) if a is output)
    node.dirty_slot = node.positions.index(position)
    rebase(output, node)
    if view is None and index:
        output._state().index = index
    return output


def _save(ctx: FunctionCtx, node: FunctionNode | None, outputs: tuple[Any, ...]) -> None:
    """Turn what forward asked to keep into saved tensors; outputs are kept without a reference to their node."""
    saved: list[SavedTensor | None] = []
    for tensor in ctx._to_save:
        if tensor is None:
            saved.append(None)
            continue
        at = next((i for i, o in enumerate(outputs) if o is tensor), None)
        own = node is not None and at is not None and tensor.grad_fn is node
        packed = SavedTensor(tensor, True, tensor.output_nr) if own else SavedTensor(tensor)
        if own and default_hooks.stack:
            packed.pack_output(tensor)
        saved.append(packed)
    ctx._saved = tuple(saved)
    ctx._to_save, ctx._dirty, ctx._without_grad = (), (), ()


class _DelayedError(Node):
    """The history of a gradient that must not be differentiated again."""

    def apply(self, grads: tuple[Any, ...], needs: tuple[bool, ...]) -> tuple[Any, ...]:
        raise StateError("trying to differentiate twice a function that was marked with @once_differentiable")


def once_differentiable(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Mark a Function's backward as not differentiable: it runs without recording, and its gradients refuse a second derivative."""

    @functools.wraps(fn)
    def wrapper(ctx: Any, *args: Any) -> Any:
        previous = modes.grad
        modes.grad = False
        try:
            outputs = fn(ctx, *args)
        finally:
            modes.grad = previous
        if not previous or not any(isinstance(a, Tensor) and a.requires_grad for a in args):
            return outputs
        many = outputs if isinstance(outputs, tuple) else (outputs,)
        node = _DelayedError(tuple([gradient_edge(a) for a in args if isinstance(a, Tensor)]))
        guarded = tuple([o if o is None else _guarded(o, node) for o in many])
        return guarded if isinstance(outputs, tuple) else guarded[0]

    return wrapper


def _guarded(output: Tensor, node: _DelayedError) -> Tensor:
    out = output.detach()
    out._autograd = AutogradState(False, node, len(node.metadata_of_inputs))
    out._autograd.version = out._version
    node.metadata_of_inputs.append(InputMetadata(out.dims, out.dtype))
    return out

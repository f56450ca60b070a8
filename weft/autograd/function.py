"""weft.autograd.Function: operators written by the user, with a forward and a backward of their own.

The node of a call holds the context, never the other way round, and a saved output knows its node by number only:
a graph with custom Functions is freed by reference counting alone.
"""

from __future__ import annotations

import functools
import inspect
import weakref
from collections.abc import Callable
from typing import Any

from weft.autograd.anomaly import anomaly, remember_forward
from weft.autograd.forward_facts import note, versions_of_views
from weft.autograd.function_context import FunctionCtx as FunctionCtx
from weft.autograd.function_outputs import attach, save_for_node
from weft.autograd.node import Edge, InputMetadata, Node
from weft.autograd.record import gradient_edge
from weft.autograd.saved import with_recording
from weft.ops.packet import aten
from weft.support.errors import ArgumentError, StateError
from weft.support.locations import user_mark
from weft.support.refusals import call_user
from weft.support.seams import open_function
from weft.support.warn import warn
from weft.tensor.history import AutogradState
from weft.tensor.modes import active_trace, modes, no_grad, top_interceptor
from weft.tensor.tensor import Tensor

_OF_CALLS = {name for kind in (FunctionCtx, Node) for name in vars(kind) if name[:2] != "__"} | {"needs_input_grad"}


class FunctionNode(Node):
    """The node of a custom Function's call. Attributes that the user put on the context can be read from it."""

    is_users = True
    runs_on_nothing = True  # backward itself sees missing gradients, as zeros or None
    function: type[Function]

    def __init__(
        self, ctx: FunctionCtx, edges: tuple[Edge | None, ...], positions: tuple[int, ...], count: int
    ) -> None:
        super().__init__(edges)
        self._positions, self._count = positions, count
        self.dirty_slot: int | None = None
        self.without_grad: tuple[int, ...] = ()
        self.mark = user_mark(2)
        self.ctx = ctx  # from here on, attributes that are not the node's go there
        ctx._node = weakref.ref(self)

    def apply(self, grads: tuple[Any, ...], needs: tuple[bool, ...]) -> tuple[Any, ...]:
        function, ctx = self.function, self.ctx
        rule = function.backward if function.vjp is Function.vjp else self._rule()
        for gradient in grads:
            if gradient is None and ctx._materialize:
                grads = self._materialized(grads)
                break
        called = None if modes.capture is None else modes.capture.call_rule(self, rule, grads)
        if called is not None:
            return called
        out = call_user(rule, ctx, *grads) if modes.special is None else with_recording(call_user, rule, ctx, *grads)
        return self.per_edge(out if isinstance(out, tuple) else (out,))

    def _rule(self) -> Callable[..., Any]:
        function = self.function
        has_backward, has_vjp = function.backward is not Function.backward, function.vjp is not Function.vjp
        if has_backward and has_vjp:
            raise StateError(
                "Implementing both 'backward' and 'vjp' for a custom Function is not allowed. "
                "You should only implement one of them."
            )
        return function.vjp if has_vjp else function.backward

    @property
    def gives_once(self) -> bool:
        """Whether the backward was marked with @once_differentiable."""
        return getattr(self._rule(), "gives_once", False)

    def _materialized(self, grads: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple([self._zeros(i) if g is None and self._materializes(i) else g for i, g in enumerate(grads)])

    def _materializes(self, i: int) -> bool:
        return self.ctx._materialize_non_diff_grads or i not in self.without_grad

    def _zeros(self, i: int) -> Any:
        metadata = self.metadata_of_inputs[i]
        return None if metadata is None else aten.zeros(metadata.dims, dtype=metadata.dtype)

    def per_edge(self, out: tuple[Any, ...]) -> tuple[Any, ...]:
        """One gradient per tensor argument. Surplus Nones are forgiven."""
        if len(out) == 1 and type(out[0]) is Tensor and self._count == 1 == len(self._positions):
            return out
        if len(out) > self._count and all(g is None for g in out[self._count :]):
            out = out[: self._count]
        if len(out) != self._count:
            raise StateError(
                f"function {self.name()} returned an incorrect number of gradients (expected {self._count}, "
                f"got {len(out)})"
            )
        for i, gradient in enumerate(out):
            if gradient is None:
                continue
            if i not in self._positions:
                raise StateError(
                    f"function {self.name()} returned a gradient different than None at position {i + 1}, "
                    "but the corresponding forward input was not a Variable"
                )
            if not isinstance(gradient, Tensor):
                raise StateError(f"expected Variable or None (got {type(gradient).__name__})")
        return out if len(self._positions) == len(out) else tuple([out[i] for i in self._positions])

    def place_of(self, position: int) -> int:
        """The edge of an argument of forward."""
        return self._positions.index(position)

    @property
    def is_freed(self) -> bool:
        return self.ctx._saved is None

    def release(self) -> None:
        ctx = self.ctx
        if ctx._saved:
            ctx._saved = None

    def __setattr__(self, name: str, value: Any) -> None:
        """An attribute of the node's own, or else of the context, where backward finds it."""
        mine = self.__dict__
        if "ctx" not in mine or name in mine or hasattr(type(self), name):
            object.__setattr__(self, name, value)
        else:
            setattr(mine["ctx"], name, value)

    def __getattr__(self, name: str) -> Any:
        ctx = self.__dict__.get("ctx")
        if ctx is None or name.startswith("__"):
            raise AttributeError(name)
        return getattr(ctx, name)


class Function:
    """A differentiable operator of the user's own.

    Subclass it with static methods `forward(ctx, *args)` and `backward(ctx, *grads)`, or `forward(*args)`,
    `setup_context(ctx, inputs, output)` and `backward`; call it as `MyFunction.apply(*args)`. `backward` returns one
    gradient (or None) per argument of forward.
    """

    generate_vmap_rule = False
    # Whether a call may be compiled, forward and backward: captured backwards then hold its operators
    # instead of a call of Python. What cannot be captured runs as it is.
    is_traceable = False
    _backward_cls: type[FunctionNode] | None = None

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        warn(
            f"{type(self)} should not be instantiated. Methods on autograd functions are all static, "
            "so you should invoke them on the class itself.",
            DeprecationWarning,
        )

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise StateError(
            "Legacy autograd function with non-static forward method is deprecated. Please use new-style autograd "
            "function with static forward method."
        )

    def __getattr__(self, name: str) -> Any:
        if name in _OF_CALLS:
            raise StateError(
                f"Attribute '{name}' is invalid for this instance of {type(self).__name__}: it belongs to the context "
                "and the node of a call, which apply() makes."
            )
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

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
            "You must implement either the backward or vjp method for your custom autograd.Function to use it with "
            "backward mode AD."
        )

    @staticmethod
    def vjp(ctx: Any, *grad_outputs: Any) -> Any:
        """Another name for backward."""
        raise NotImplementedError(
            "You must implement either the backward or vjp method for your custom autograd.Function to use it with "
            "backward mode AD."
        )

    @staticmethod
    def jvp(ctx: Any, *grad_inputs: Any) -> Any:
        """The forward-mode rule: the outputs' tangents from the arguments'.
        Without one, forward mode goes through backward."""
        raise NotImplementedError(
            "You must implement the jvp function for custom autograd.Function to use it with forward mode AD."
        )

    @staticmethod
    def vmap(info: Any, in_dims: tuple[Any, ...], *args: Any) -> Any:
        """The Function on a batch: (output, out_dims) from arguments whose batch dims in_dims names;
        info has batch_size and randomness."""
        raise NotImplementedError(
            "To use autograd.Function with vmap, you must either override the vmap static method or set "
            "generate_vmap_rule=True."
        )

    @classmethod
    def apply(cls, *args: Any, **kwargs: Any) -> Any:
        """Call the Function."""
        if modes.trace is not None:
            trace = active_trace()
            if trace is not None:
                return trace.custom_function(cls, _by_position(cls, args, kwargs) if kwargs else args)
        if cls.is_traceable and modes.capture is None and modes.special is None:
            return open_function(cls, args, kwargs)
        return cls._apply(*args, **kwargs)

    @classmethod
    def _apply(cls, *args: Any, **kwargs: Any) -> Any:
        if kwargs or cls.setup_context is not Function.setup_context:
            args = _by_position(cls, args, kwargs)
        if modes.special is not None and hasattr(top := top_interceptor(), "apply_function"):
            return top.apply_function(cls, args)
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
        attached = attach(ctx, node, args, outputs)
        save_for_node(ctx, node, attached)
        return attached[0] if is_single else attached

    @classmethod
    def _run_forward(cls, ctx: FunctionCtx, args: tuple[Any, ...]) -> Any:
        previous = modes.grad
        modes.grad = False
        try:
            return call_user(cls._forward_output, ctx, args, code=cls.forward)
        finally:
            modes.grad = previous

    @classmethod
    def _forward_output(cls, ctx: FunctionCtx, args: tuple[Any, ...]) -> Any:
        output = None if modes.capture is None else modes.capture.call_forward(cls, ctx, args)
        if output is None:
            before = versions_of_views(args)
            output = run_rules(cls, ctx, args)
            note(cls, ctx, args, output, before)
        return output


def run_rules(function: type[Function], ctx: FunctionCtx, args: tuple[Any, ...]) -> Any:
    """What forward gives, and setup_context notes, where there is one."""
    if function.setup_context is Function.setup_context:
        return function.forward(ctx, *args)
    output = function.forward(*args)
    function.setup_context(ctx, args, output)
    return output


def _by_position(function: type[Function], args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
    """All of forward's inputs in their places, defaults among them.
    Raises ArgumentError for what can only be given by name."""
    takes_ctx = function.setup_context is Function.setup_context
    bound = inspect.signature(function.forward).bind(*((None, *args) if takes_ctx else args), **kwargs)
    unplaced = [name for name in kwargs if name in bound.kwargs]
    if unplaced:
        raise ArgumentError(
            f"{function.__name__}.forward() got an unexpected keyword argument '{unplaced[0]}': inputs have places"
        )
    bound.apply_defaults()
    return bound.args[1:] if takes_ctx else bound.args


def traceable(function: type[Function]) -> type[Function]:
    """Mark a Function whose rules may be traced (`is_traceable`). Usable as a decorator."""
    function.is_traceable = True
    return function


class InplaceFunction(Function):
    """A Function that may work in place, as older programs declare it; mark_dirty is what counts."""

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace


def _node_class(function: type[Function]) -> type[FunctionNode]:
    """The node class of a Function, kept on it: it lives as long as the Function does."""
    node_class: type[FunctionNode] | None = function.__dict__.get("_backward_cls")
    if node_class is None:
        node_class = type(
            f"{function.__name__}Backward", (FunctionNode,),
            {"function": function, "__module__": "weft.autograd.function"},
        )
        function._backward_cls = node_class
    return node_class


class Error(Node):
    """The history of a gradient that must not be differentiated again."""

    def apply(self, grads: tuple[Any, ...], needs: tuple[bool, ...]) -> tuple[Any, ...]:
        raise StateError("trying to differentiate twice a function that was marked with @once_differentiable")


def once_differentiable(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Mark a Function's backward as not differentiable: it runs without recording, and its gradients refuse
    a second derivative."""

    @functools.wraps(fn)
    def wrapper(ctx: Any, *args: Any) -> Any:
        with no_grad():
            outputs = fn(ctx, *args)
        many = outputs if isinstance(outputs, tuple) else (outputs,)
        guarded = given_once(args, many, modes.grad)
        return guarded if isinstance(outputs, tuple) else guarded[0]

    wrapper.gives_once = True  # type: ignore[attr-defined]
    return wrapper


def given_once(args: tuple[Any, ...], outputs: tuple[Any, ...], records: bool) -> tuple[Any, ...]:
    """The outputs with a history that refuses, where an argument has one: here and below each level of a transform."""
    level = top_interceptor()
    if hasattr(level, "grad_outside"):
        lower = level.lower(outputs)
        below = level.down(given_once, level.lower(args), lower, level.grad_outside)
        outputs = tuple([
            o if a is b else level.wrap(b) if level.owns(o) else b
            for o, a, b in zip(outputs, lower, below, strict=True)
        ])
    if not records or not any(isinstance(a, Tensor) and a.requires_grad for a in args):
        return outputs
    node = Error(tuple([gradient_edge(a) for a in args if isinstance(a, Tensor)]))
    return tuple([o if o is None else _guarded(o, node) for o in outputs])


def _guarded(output: Tensor, node: Error) -> Tensor:
    out = output.detach()
    out._autograd = AutogradState(False, node, len(node.metadata_of_inputs))
    out._autograd.version = out._version
    node.metadata_of_inputs += (InputMetadata(out.dims, out.dtype),)
    return out

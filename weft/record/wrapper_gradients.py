"""Wrapper subclasses as state of a compiled function: what is guarded about those it reaches, and their `.grad`, kept
as that of their inner tensors.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from weft.autograd.accumulate import AccumulateGrad
from weft.autograd.dependencies import nodes_behind
from weft.autograd.hooks import share_hooks
from weft.autograd.node import Edge, Node
from weft.autograd.record import gradient_edge
from weft.record.gradients import LeafGradients
from weft.record.outside import GuardedState
from weft.record.recorder import refusal
from weft.record.writes import ArgumentChange
from weft.tensor.flattening import inner_tensors, is_traceable_wrapper_subclass, parts_carry_history, put_together
from weft.tensor.history import AutogradState
from weft.tensor.modes import modes
from weft.tensor.tensor import Tensor
from weft.tensor.wrapper import is_wrapper


class PartState(AutogradState):
    """The autograd state of an inner tensor of a leaf: its `.grad` is the inner tensor of the wrapper's."""

    requires_grad = True
    is_of_part = True

    def __init__(self, wrapper: Tensor, name: str, gradients: dict[str, Tensor]) -> None:
        super().__init__(True)
        self.wrapper, self.name = wrapper, name
        self.made = gradients  # shared by the parts of a wrapper: gradients set so far, until there is one for each

    @property
    def grad(self) -> Tensor | None:
        state = self.wrapper._autograd
        whole = None if state is None else state.grad
        return None if whole is None else getattr(whole, self.name)

    @grad.setter
    def grad(self, value: Tensor | None) -> None:
        if value is None:
            self.wrapper._state().grad = None
            return
        if value is self.grad:
            return
        self.made[self.name] = value
        names, context = inner_tensors(self.wrapper)
        if len(self.made) == len(names):
            wrapper = self.wrapper
            wrapper._state().grad = put_together(
                type(wrapper), dict(self.made), context, wrapper.shape, wrapper.stride()
            )
            self.made.clear()


def part_of(wrapper: Tensor, name: str, inner: Tensor, gradients: dict[str, Tensor]) -> Tensor:
    """An alias of an inner tensor that stands for it where gradients of the wrapper are concerned."""
    part = inner._alias(share_version=True)
    part._autograd = PartState(wrapper, name, gradients)
    return part


class WrapperGradients:
    """`.grad` of leaves, wrappers included: a wrapper's is put together from its inner tensors'."""

    def __init__(self, leaves: LeafGradients, outside: GuardedState) -> None:
        self.leaves, self.outside = leaves, outside
        self._parts: dict[int, dict[str, Tensor]] = {}
        self._same: dict[int, Tensor] = {}
        self._whole: set[int] = set()
        self.go_on: dict[Node, Node] = {}  # for the nodes of such leaves, those that take their gradients apart
        self._borrowed: list[tuple[PartState, Any]] = []

    def _borrow(self, tensor: Tensor) -> None:
        """A part that takes part as itself (its memory is shared with another argument): within the capture its
        gradient ends at it.
        """
        state = tensor._autograd
        if isinstance(state, PartState) and not isinstance(state.accumulate, AccumulateGrad):
            self._borrowed.append((state, state.accumulate))
            state.accumulate = AccumulateGrad(tensor)

    def return_borrowed(self) -> None:
        """Outside of the capture the gradient of a part goes on to its wrapper's."""
        for state, node in self._borrowed:
            state.accumulate = node
        self._borrowed.clear()

    def same_grad(self, tensor: Tensor, stand_in: Tensor) -> None:
        """An argument of a class that keeps its bytes: the object that the function sees, and the stand-in that it
        shows.
        """
        self.outside.python_state.keep(tensor)
        self._same[id(tensor)] = stand_in

    def remember_whole(self, wrapper: Tensor) -> None:
        """An argument that was put together of inner tensors with its history: they have no `.grad` of their own."""
        self.outside.python_state.keep(wrapper)
        self._whole.add(id(wrapper))

    def remember_resugared(self, wrapper: Tensor, names: tuple[str, ...], stand_ins: list[Any]) -> None:
        """An argument that was put together: its `.grad` is that of its parts' stand-ins. It is a leaf that requires
        grad, with the caller's hooks, where the caller's is one."""
        for part in stand_ins:
            self._borrow(part)
        self.outside.python_state.keep(wrapper)
        self._parts[id(wrapper)] = dict(zip(names, stand_ins, strict=True))
        state = self._real(stand_ins[0])._autograd if stand_ins else None
        if isinstance(state, PartState):
            self.outside.wholes[id(wrapper)] = state.wrapper
            wrapper._autograd = AutogradState(True)
            share_hooks(wrapper, state.wrapper)

    def _real(self, stand_in: Tensor) -> Tensor:
        """The caller's tensor, or the alias of its part, that a stand-in or a leaf that was put together is for."""
        real = self.outside.wholes.get(id(stand_in))
        return self.leaves.real(stand_in) if real is None else real

    def edge_of(self, tensor: Tensor) -> Edge | None:
        """Where the gradient of a part flows when it is the caller's: not into a leaf that was put together, but into
        its parts."""
        edge = gradient_edge(tensor)
        return edge if edge is None or edge[0] not in self.go_on else (self.go_on[edge[0]], 0)

    def end_at_parts(self, outputs: Iterable[Tensor]) -> None:
        """Let the graph behind some tensors go on from leaves that were put together to their parts, which are what
        callers' gradients flow into."""
        if not self.go_on:
            return
        for node in nodes_behind([out._node for out in outputs]):
            node.edges = tuple([(self.go_on[e[0]], 0) if e and e[0] in self.go_on else e for e in node.edges])

    def _parts_of(self, wrapper: Tensor) -> dict[str, Tensor] | None:
        parts = self._parts.get(id(wrapper))
        if parts is None and is_traceable_wrapper_subclass(wrapper):
            names, _ = inner_tensors(wrapper)
            gradients: dict[str, Tensor] = {}
            inner = {name: getattr(wrapper, name) for name in names}
            if not self.outside.is_outside(wrapper) and id(wrapper) not in self._whole:
                return None  # made inside of the function: its gradient is an attribute like any other
            if parts_carry_history(type(wrapper)):
                raise refusal(
                    f"a compiled function uses .grad of a {type(wrapper).__name__} from outside of it, whose inner "
                    "tensors have no gradients of their own; make it inside, of inner tensors that require grad",
                    kind=ArgumentChange,
                )
            parts = self._parts[id(wrapper)] = {name: part_of(wrapper, name, t, gradients) for name, t in inner.items()}
            self.outside.python_state.keep(wrapper)
        return parts

    def grad_of(self, tensor: Tensor) -> Tensor | None:
        """`.grad` as the function sees it; a wrapper's is put together from its parts'."""
        tensor = self._same.get(id(tensor), tensor)
        parts = self._parts_of(tensor) if is_wrapper(tensor) else None
        if parts is None:
            return _own_grad(tensor) if is_wrapper(tensor) else self.leaves.grad_of(tensor)
        grads = {name: self.grad_of(part) for name, part in parts.items()}
        if any(g is None for g in grads.values()):
            return None
        _, context = inner_tensors(tensor)
        return put_together(type(tensor), grads, context, tensor.shape, tensor.stride())  # type: ignore[arg-type]

    def zero_grad(self, tensor: Tensor) -> bool:
        """Set `.grad` to zero if there is one. False where that is an ordinary write, which the caller makes."""
        return self.leaves.zero_grad(tensor)

    def set_grad(self, tensor: Tensor, value: Tensor | None) -> None:
        """`tensor.grad = value` inside the function."""
        tensor = self._same.get(id(tensor), tensor)
        parts = self._parts_of(tensor) if is_wrapper(tensor) else None
        if parts is not None:
            for name, part in parts.items():
                self.set_grad(part, None if value is None else _inner(tensor, value, name))
        elif is_wrapper(tensor):
            tensor._state().grad = value
        else:
            self.leaves.set_grad(tensor, value)

    def accumulate(self, variable: Tensor, gradient: Tensor) -> None:
        """AccumulateGrad inside the function."""
        variable = self._same.get(id(variable), variable)
        parts = self._parts_of(variable) if is_wrapper(variable) else None
        if parts is not None:
            self._accumulate_by_class(variable, gradient)
        elif is_wrapper(variable):
            present = _own_grad(variable)
            variable._state().grad = gradient.detach() if present is None else present + gradient
        elif is_wrapper(gradient):
            self._accumulate_wrapper(variable, gradient)
        else:
            self.leaves.accumulate(variable, gradient)

    def _accumulate_by_class(self, variable: Tensor, gradient: Tensor) -> None:
        """A wrapper's gradient and the one before it are added up as their class says, so whether there is one must be
        known."""
        self.leaves.refuse_blocks()
        present = self.grad_of(variable)
        if present is None:
            total = gradient if modes.grad else gradient.detach()
        else:
            total = present + gradient if modes.grad else present.add_(gradient)
        self.set_grad(variable, total)

    def _accumulate_wrapper(self, variable: Tensor, gradient: Tensor) -> None:
        """A plain tensor's gradient that is a wrapper: what was there before it must be known. It is assigned where
        the function ends (assigned_gradients in compile/tracing/effects.py)."""
        if self.leaves.grad_of(variable) is None:
            self.leaves.set_grad(variable, gradient if modes.grad else gradient.detach())
        else:
            self.leaves.accumulate(variable, gradient)


def _own_grad(tensor: Tensor) -> Tensor | None:
    return None if tensor._autograd is None else tensor._autograd.grad


def _inner(wrapper: Tensor, gradient: Tensor, name: str) -> Tensor:
    if not isinstance(gradient, type(wrapper)):
        raise refusal(
            f"the gradient of a {type(wrapper).__name__} is a {type(gradient).__name__}, which has no inner tensor "
            f"{name!r} to keep", kind=ArgumentChange,
        )
    part: Tensor = getattr(gradient, name)
    return part

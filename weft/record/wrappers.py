"""Tensor subclasses in compiled functions: a program takes and gives plain tensors (of wrappers, the inner ones); the
class's code runs while it is captured, and never again.

Arguments are taken apart where the call enters (`desugar`) and put together again inside the capture (`resugar`),
results the other way round. The desugared form is a pytree node that carries class and context, so the guard on an
argument's structure guards them. Both directions are steps of autograd's history.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from weft.autograd.accumulate import accumulator_of
from weft.autograd.hooks import NO_HOOKS, hooks_on
from weft.autograd.node import InputMetadata, Node
from weft.autograd.record import gradient_edge
from weft.ops.overrides import WITHOUT_CLASSES, OverrideLevel
from weft.ops.packet import aten
from weft.record.active import active_capture
from weft.record.tracer_leaks import held_symbol
from weft.record.wrapper_gradients import part_of
from weft.record.writes import ArgumentChange
from weft.support import pytree
from weft.support.errors import CaptureError
from weft.tensor.dense import is_dense
from weft.tensor.flattening import (
    inner_tensors,
    is_traceable_wrapper_subclass,
    parts_carry_history,
    put_together,
)
from weft.tensor.history import AutogradState
from weft.tensor.modes import modes
from weft.tensor.subclass import Overriding
from weft.tensor.tensor import Tensor, tensor_around
from weft.tensor.wrapper import WrapperPayload, is_wrapper


class Desugared:
    """A wrapper taken apart: its class, the names of its inner tensors, what else it takes to make it, whether they
    carry its history, the hooks on it as a leaf, how many others of the same parts there were before it; and the
    tensors (or wrappers, desugared).
    """

    __slots__ = ("facts", "inner")

    def __init__(self, facts: tuple[Any, ...], inner: list[Any]) -> None:
        self.facts, self.inner = facts, inner


pytree.register(Desugared, lambda s: (list(s.inner), s.facts), lambda children, facts: Desugared(facts, children))


class WrapperMemo:
    """What was taken apart or put together, by identity of the tensor, which is kept so that nothing else takes its
    identity; and by that of the first plain tensor among its parts."""

    __slots__ = ("_by_part", "_wrappers")

    def __init__(self) -> None:
        self._wrappers: dict[int, tuple[Tensor, Desugared]] = {}
        self._by_part: dict[int, dict[int, tuple[Tensor, Desugared]]] = {}

    @property
    def wrappers(self) -> list[Tensor]:
        """The tensors that were taken apart or put together."""
        return [wrapper for wrapper, _ in self._wrappers.values()]

    def get(self, wrapper: Tensor) -> Desugared | None:
        """The parts of a wrapper; None for one that was not taken apart."""
        entry = self._wrappers.get(id(wrapper))
        return None if entry is None else entry[1]

    def put(self, wrapper: Tensor, desugared: Desugared) -> None:
        """Note, perhaps again, what a wrapper is made of."""
        before = self.get(wrapper)
        if before is not None:
            del self._by_part[_first_part(before.inner)][id(wrapper)]
        self._wrappers[id(wrapper)] = entry = (wrapper, desugared)
        self._by_part.setdefault(_first_part(desugared.inner), {})[id(wrapper)] = entry

    def sharing(self, inner: list[Any]) -> Iterable[tuple[Tensor, Desugared]]:
        """The wrappers whose first part is that of these, and what they are made of."""
        return self._by_part.get(_first_part(inner), {}).values()


def _first_part(inner: list[Any]) -> int:
    """The identity of the first plain tensor among parts; 0 where there is none."""
    while inner:
        if type(inner[0]) is not Desugared:
            return id(inner[0])
        inner = inner[0].inner
    return 0


def desugar(tree: Any, memo: WrapperMemo | None = None, has_class: Callable[[Any], bool] | None = None) -> Any:
    """A tree with its wrappers taken apart. memo: what is one tensor there and in other trees becomes one; has_class:
    which values are taken apart too, for the sake of their class."""
    is_taken = is_special if has_class is None else lambda leaf: is_special(leaf) or has_class(leaf)
    leaves, _ = pytree.flatten(tree)
    if not any(is_taken(leaf) for leaf in leaves):
        return tree
    memo = WrapperMemo() if memo is None else memo
    return pytree.replaced(tree, lambda leaf: _desugar(leaf, memo) if is_taken(leaf) else leaf)


def is_special(leaf: Any) -> bool:
    """Whether a value is an object of a tensor subclass, which is taken apart where it enters a program."""
    return isinstance(leaf, Overriding) or is_wrapper(leaf)


def is_whole_outside(tensor: Tensor) -> bool:
    """Whether a tensor is one that desugar() takes apart, and has no values of a graph."""
    if not is_special(tensor):
        return False
    if not is_wrapper(tensor):
        return is_dense(tensor)
    if not is_traceable_wrapper_subclass(tensor):
        return False
    parts = [getattr(tensor, name) for name in inner_tensors(tensor)[0]]
    return all([is_whole_outside(part) if is_special(part) else is_dense(part) for part in parts])


def _desugar(wrapper: Tensor, memo: WrapperMemo) -> Desugared:
    desugared = memo.get(wrapper)
    if desugared is None or (not is_wrapper(wrapper) and desugared.facts[2] != Attributes(wrapper.__dict__)):
        facts, inner = _taken_apart(wrapper, memo)
        others = [d for _, d in memo.sharing(inner) if d.inner and inner and d.inner[0] is inner[0]]
        alike = [d for d in others if d.facts[:-1] == facts and _are_same(d.inner, inner)]
        desugared = Desugared((*facts, len(alike)), inner)
        memo.put(wrapper, desugared)
    return desugared


def _are_same(inner: list[Any], others: list[Any]) -> bool:
    """Whether the parts of two wrappers are the same objects."""
    return len(inner) == len(others) and all([
        a is b or (
            type(a) is type(b) is Desugared and a.facts == b.facts and _are_same(a.inner, b.inner)
        )
        for a, b in zip(inner, others, strict=True)
    ])  # fmt: skip


def _taken_apart(wrapper: Tensor, memo: WrapperMemo) -> tuple[tuple[Any, ...], list[Any]]:
    kind = type(wrapper)
    if not is_wrapper(wrapper):
        _refuse_values(wrapper)
        return (kind, None, Attributes(wrapper.__dict__), False, NO_HOOKS), [_plain(wrapper)]
    if not is_traceable_wrapper_subclass(wrapper):
        raise CaptureError(
            f"a compiled function takes or returns a {kind.__name__}, which cannot be taken apart: "
            "define __tensor_flatten__ and __tensor_unflatten__"
        )
    names, context = inner_tensors(wrapper)
    inner = [getattr(wrapper, name) for name in names]
    edge = gradient_edge(wrapper)
    capture = active_capture()
    if capture is not None and edge is not None and wrapper.is_leaf and not capture.outside.is_outside(wrapper):
        raise ArgumentChange(
            f"a compiled function gives a {kind.__name__} that it has made a leaf, whose gradient a program has no "
            "place for"
        )
    if wrapper.retains_grad and capture is not None:
        raise ArgumentChange(
            f"a compiled function takes or gives a {kind.__name__} whose gradient retain_grad() keeps, which a program "
            "gives to plain tensors alone"
        )
    carries = parts_carry_history(kind)
    if carries:
        inner = kind.__weft_parts__(wrapper)  # type: ignore[attr-defined]
    elif edge is not None:
        inner = _parts(wrapper, names, context, inner, edge)
    parts = [_desugar(t, memo) if is_special(t) else t for t in inner]
    hooks = hooks_on(wrapper) if edge is not None and wrapper.is_leaf else NO_HOOKS
    return (kind, names, context, edge is not None and not carries, hooks), parts


def resugar(tree: Any, memo: WrapperMemo | None = None, containers: dict[int, Any] | None = None) -> Any:
    """A tree with its desugared wrappers put together. memo: what was one tensor there and in other trees is one;
    containers: those made anew, where several trees share them."""
    leaves, _ = pytree.flatten(tree, stop=Desugared)
    if not any(type(leaf) is Desugared for leaf in leaves):
        return tree
    memo = WrapperMemo() if memo is None else memo
    return pytree.replaced(
        tree, lambda leaf: _resugar(leaf, memo) if type(leaf) is Desugared else leaf, Desugared, containers
    )


def _resugar(desugared: Desugared, memo: WrapperMemo) -> Tensor:
    for tensor, other in memo.sharing(desugared.inner):
        if other.facts == desugared.facts and _are_same(other.inner, desugared.inner):
            return tensor
    whole = _open(desugared, memo)
    memo.put(whole, desugared)
    return whole


def _open(desugared: Desugared, memo: WrapperMemo) -> Tensor:
    kind, names, context, wants, _, _ = desugared.facts
    capture = active_capture()
    if capture is not None:
        capture.outside.note_class(kind)
    if names is None:
        return _rewrapped(desugared.inner[0], kind, context)
    inner = [_resugar(t, memo) if type(t) is Desugared else t for t in desugared.inner]
    plain = {name: t._alias(share_version=True) if wants else t for name, t in zip(names, inner, strict=True)}
    whole = put_together(kind, plain, context, inner[0].shape, inner[0].stride())
    if parts_carry_history(kind):
        if capture is not None:
            capture.gradients.remember_whole(whole)
        return whole
    if capture is not None:
        capture.gradients.remember_resugared(whole, names, inner)
    edges = tuple([gradient_edge(t) if capture is None else capture.gradients.edge_of(t) for t in inner])
    if any(e is not None for e in edges):
        node = WrapBackward(edges, names, whole)
        if capture is not None and id(whole) in capture.outside.wholes:
            # a leaf: its gradient is added up before it is taken apart
            capture.gradients.go_on[accumulator_of(whole)] = node
        else:
            whole._autograd = AutogradState(False, node, 0)
    return whole


# ---- classes that keep their bytes: only `__weft_function__` is theirs
class Attributes:
    """What an object of such a class carries in its `__dict__`. Equal when equal by name: tensors if identical, all
    else by ==.
    """

    def __init__(self, values: dict[str, Any]) -> None:
        self.values = dict(values)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Attributes) or self.values.keys() != other.values.keys():
            return False
        return all(
            a is b or (not isinstance(a, Tensor) and type(a) is type(b) and bool(a == b))
            for a, b in zip(self.values.values(), other.values.values(), strict=True)
        )

    __hash__ = None  # type: ignore[assignment]


def _refuse_values(tensor: Tensor) -> None:
    """Raises ArgumentChange for an attribute that a compiled function has computed: it would be of the capturing call.
    """
    if active_capture() is None:
        return
    for name, value in tensor.__dict__.items():
        if held_symbol(value) is not None:
            raise ArgumentChange(
                f"a compiled function gives a {type(tensor).__name__} that its caller sees the attribute {name!r}, a "
                "value of this call. Return the value beside the tensor"
            )


def refuse_changed_attributes(memo: WrapperMemo) -> None:
    """Raises ArgumentChange where the function gave an attribute to an argument whose class keeps its bytes: it sees
    another object than the caller's."""
    for tensor in memo.wrappers:
        desugared = memo.get(tensor)
        if is_wrapper(tensor) or desugared is None or desugared.facts[2] == Attributes(tensor.__dict__):
            continue
        raise ArgumentChange(
            f"a compiled function gives an attribute to a {type(tensor).__name__} that is an argument. Return the "
            "value beside the tensor"
        )


def _plain(tensor: Tensor) -> Tensor:
    """The same tensor, history and gradient included, as one of no class in particular."""
    with OverrideLevel(WITHOUT_CLASSES):
        _keep_accumulator(tensor)
    out = tensor_around(tensor._data)
    out._storage, out._view, out._autograd = tensor.storage(), tensor._view, tensor._autograd
    capture = active_capture()
    if capture is not None and capture.outside.is_alias(tensor):
        capture.outside.note_alias(out, tensor)
    return out


def _keep_accumulator(tensor: Tensor) -> None:
    """The node that accumulates a leaf's gradient belongs to the object that stays."""
    state = tensor._autograd
    if state is not None and state.requires_grad and state.node is None:
        accumulator_of(tensor)


def _rewrapped(plain: Tensor, kind: type[Tensor], attributes: Attributes) -> Tensor:
    capture = active_capture()
    if capture is not None:
        _keep_accumulator(plain)
    out: Tensor = object.__new__(kind)
    out._data, out._storage, out._view, out._autograd = plain._data, plain.storage(), plain._view, plain._autograd
    out.__dict__.update(attributes.values)
    if capture is not None:
        capture.gradients.same_grad(out, plain)
    elif out._autograd is not None and out._autograd.accumulate is not None:  # of a leaf that the call has made
        out._autograd.accumulate.belong_to(out)
    return out


# ---- history across the border
class WrapBackward(Node):
    """The history of a wrapper that was put together from inner tensors: its gradient is taken apart."""

    def __init__(self, edges: tuple[Any, ...], names: tuple[str, ...], whole: Tensor) -> None:
        super().__init__(edges)
        self.names, self.kind = names, type(whole)
        self.metadata_of_inputs = (InputMetadata(whole.dims, whole.dtype),)

    def apply(self, grads: tuple[Any, ...], needs: tuple[bool, ...]) -> tuple[Any, ...]:
        gradient = grads[0]
        if gradient is None:
            return (None,) * len(self.edges)
        if not isinstance(gradient, self.kind):
            raise ArgumentChange(
                f"the gradient of a {self.kind.__name__} that a compiled function takes or gives is a "
                f"{type(gradient).__name__}, which has no inner tensors to give it: begin backward() with a "
                f"{self.kind.__name__}, or compile the whole step, the function that calls backward()"
            )
        inner = [getattr(gradient, name) for name in self.names]
        edge = gradient_edge(gradient) if modes.grad else None
        if edge is not None:  # to be differentiated again
            names, context = inner_tensors(gradient)
            inner = _aliases(inner, UnwrapBackward(edge, gradient, names, context, inner))
        return tuple([t if e is not None else None for t, e in zip(inner, self.edges, strict=True)])


class UnwrapBackward(Node):
    """The history of a wrapper's inner tensors: their gradients make the wrapper's."""

    def __init__(self, edge: Any, wrapper: Tensor, names: tuple[str, ...], context: Any, inner: list[Tensor]) -> None:
        super().__init__((edge,))
        self.kind, self.names, self.context = type(wrapper), names, context
        self.size, self.stride = wrapper.shape, wrapper.stride()
        self.metadata_of_inputs = tuple([InputMetadata(t.dims, t.dtype) for t in inner])

    def apply(self, grads: tuple[Any, ...], needs: tuple[bool, ...]) -> tuple[Any, ...]:
        if all(g is None for g in grads):
            return (None,)
        whole = [_zeros(m) if g is None else g for g, m in zip(grads, self.metadata_of_inputs, strict=True)]
        edges = tuple([gradient_edge(t) for t in whole]) if modes.grad else ()
        wants = any(e is not None for e in edges)
        plain = {name: t._alias(share_version=True) if wants else t for name, t in zip(self.names, whole, strict=True)}
        wrapper = put_together(self.kind, plain, self.context, self.size, self.stride)
        if wants:  # to be differentiated again
            wrapper._autograd = AutogradState(False, WrapBackward(edges, self.names, wrapper), 0)
        return (wrapper,)


class PartBackward(Node):
    """Where the gradient of a leaf's inner tensor goes: on to the step that makes the leaf's of them."""

    def __init__(self, node: UnwrapBackward, index: int, part: Tensor) -> None:
        super().__init__(((node, index),))
        self.metadata_of_inputs = (InputMetadata(part.dims, part.dtype),)

    def apply(self, grads: tuple[Any, ...], needs: tuple[bool, ...]) -> tuple[Any, ...]:
        return grads


def _zeros(metadata: InputMetadata | None) -> Tensor:
    assert metadata is not None
    return aten.zeros(metadata.dims, dtype=metadata.dtype)  # type: ignore[no-any-return]


def _parts(wrapper: Tensor, names: tuple[str, ...], context: Any, inner: list[Tensor], edge: Any) -> list[Tensor]:
    """Aliases of the inner tensors with the wrapper's history behind them."""
    for name, tensor in zip(names, inner, strict=True):
        if not tensor.dtype.is_differentiable:
            raise CaptureError(
                f"a {type(wrapper).__name__} that requires grad cannot cross the border of a compiled function: "
                f"its inner tensor {name!r} is {tensor.dtype} and has no gradient"
            )
    node = UnwrapBackward(edge, wrapper, names, context, inner)
    if not wrapper.is_leaf:
        return _aliases(inner, node)
    gradients: dict[str, Tensor] = {}
    parts = [part_of(wrapper, name, tensor, gradients) for name, tensor in zip(names, inner, strict=True)]
    for i, part in enumerate(parts):
        part._state().accumulate = PartBackward(node, i, part)
    return parts


def _aliases(inner: list[Tensor], node: Node) -> list[Tensor]:
    parts = [tensor._alias(share_version=True) for tensor in inner]
    for i, part in enumerate(parts):
        part._autograd = AutogradState(False, node, i)
    return parts


def involves(values: Any) -> bool:
    """Whether any tensor among nested tuples is a wrapper."""
    if type(values) is tuple:
        return any(involves(v) for v in values)
    return isinstance(values, Tensor) and type(values._data) is WrapperPayload

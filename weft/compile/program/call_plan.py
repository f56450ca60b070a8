"""The plan of a call: everything about a program's inputs and effects that is the same at every call, prepared once."""

from __future__ import annotations

from collections.abc import Container, Sequence
from typing import Any

import numpy as np

from weft.programs.arguments import contiguous_bytes
from weft.programs.memory import Memory, Place
from weft.programs.program_io import (
    ArgumentSource,
    EarlierGradient,
    GradBuffer,
    GradEffect,
    GradFlag,
    NumberSource,
    NumberWrite,
    ReturnArgument,
    ReturnGrad,
    StateSource,
)
from weft.record.gradients import present_grad
from weft.record.numbers.random_state import RandomState
from weft.record.state import StateSlot, base_like
from weft.support.counters import counters
from weft.tensor.tensor import Tensor, tensor_around
from weft.types import dims as dm
from weft.types.dims import Dim, Expr

Symbols = dict[str, Any]  # the values of a call's symbols (int) and lifted numbers
Grads = dict[int, Tensor | None]
_YES, _NO = np.array(True), np.array(False)


class Inputs:
    """Gathers a program's inputs: a template with the state that stays, and lists of what a call fills in."""

    def __init__(self, sources: list[Any]) -> None:
        self.template: list[Any] = [None] * len(sources)
        self.arguments: list[tuple[int, int, Any, tuple[int, ...]]] = []
        self.numbers: list[tuple[int, Any]] = []
        self.flags: list[tuple[int, GradFlag]] = []
        self.buffers: list[tuple[int, GradBuffer, bool]] = []  # and whether one that nobody can see is used again
        self.state: list[tuple[int, StateSlot]] = []
        self.moving: list[tuple[int, StateSlot]] = []
        for at, source in enumerate(sources):
            self._sort(at, source)
        self.take_state()

    def take_state(self) -> None:
        """Take the state from where it lies now."""
        template = self.template.copy()  # calls that run meanwhile keep theirs
        for at, slot in self.state:
            template[at] = slot.array
        self.template = template

    def _sort(self, at: int, source: Any) -> None:
        kind = type(source)
        if kind is ArgumentSource:
            self.arguments.append((at, source.leaf, source.permutation, source.expanded))
        elif kind is NumberSource:
            self.numbers.append((at, source.number))
        elif kind is GradFlag:
            self.flags.append((at, source))
        elif kind is GradBuffer:
            is_optional = source.slot.has is not None
            self.buffers.append((at, source, not (is_optional or source.is_later or source.slot.present)))
        else:
            assert kind is StateSource
            (self.state if source.slot.leaf is None else self.moving).append((at, source.slot))

    def gather(self, leaves: list[Any], symbols: Symbols) -> tuple[list[Any], Grads]:
        """The inputs of one call, and the gradients that are there already by parameter position."""
        inputs = self.template.copy()
        grads: Grads = {}
        for at, leaf, permutation, expanded in self.arguments:
            data = leaves[leaf]._data
            inputs[at] = (
                data if permutation is None and data.flags.c_contiguous
                else contiguous_bytes(data, permutation, expanded)
            )
        for at, number in self.numbers:
            inputs[at] = float(symbols[number.key])
        self._gather_flags(leaves, inputs)
        for at, slot in self.moving:
            inputs[at] = base_like(leaves[slot.leaf], slot)  # type: ignore[index]
        for at, source, is_used_again in self.buffers:
            tensor = source.tensor if source.leaf is None else leaves[source.leaf]
            state = tensor._autograd
            if (
                is_used_again and state is not None and state.owns_grad and (present := state.grad) is not None
                and is_like(present._data, tensor._data)
            ):
                inputs[at], grads[at] = present._data, present
            else:
                inputs[at] = _grad_buffer(at, source, tensor, grads)
        return inputs, grads

    def copy_again(self, leaves: list[Any], inputs: list[Any], read: Container[tuple[bool, int]]) -> None:
        """Copy the arguments with gaps once more that are read."""
        for at, leaf, permutation, expanded in self.arguments:
            data = leaves[leaf]._data
            if permutation is None and not data.flags.c_contiguous and (True, at) in read:
                inputs[at] = contiguous_bytes(data, None, expanded)

    def _gather_flags(self, leaves: list[Any], inputs: list[Any]) -> None:
        for at, flag in self.flags:
            inputs[at] = _YES if present_grad(target_of(flag, leaves)) is not None else _NO

    def gather_gradients(
        self, leaves: list[Any], inputs: list[Any], grads: Grads, resolved: Container[int | None]
    ) -> None:
        """Look again for gradients that are there already, but for those with memory that is `resolved`."""
        self._gather_flags(leaves, inputs)
        for at, source, _ in self.buffers:
            tensor, before = target_of(source, leaves), grads[at]
            present = present_grad(tensor)
            is_other = present is not before
            if source.slot.has is None:  # the memory of one that nobody could see; now somebody may
                is_other = before is not None and present is before and not tensor._state().owns_grad
            if is_other and at not in resolved:
                inputs[at] = _grad_buffer(at, source, tensor, grads)


def target_of(source: GradFlag | GradBuffer | GradEffect | ReturnGrad | EarlierGradient, leaves: list[Any]) -> Tensor:
    """The tensor of this call whose `.grad` is meant."""
    return source.tensor if source.leaf is None else leaves[source.leaf]


def _grad_buffer(at: int, source: GradBuffer, tensor: Tensor, grads: Grads) -> Any:
    """Memory for a gradient: that of the present one if it is added to, or if neither the program nor anybody else can
    see it; else fresh."""
    present = present_grad(tensor)
    is_optional = source.slot.has is not None
    data = tensor._data
    if (
        present is not None and not source.is_later
        and (is_optional or (not source.slot.present and tensor._state().owns_grad))
        and is_like(present._data, data)
    ):
        grads[at] = present
        return present._data
    counters.allocations += 1
    fresh = np.empty(data.shape, data.dtype)
    if is_optional and present is not None:
        fresh[...] = present._data
        grads[at] = present
    else:
        grads[at] = None
    return fresh


def is_like(gradient: Any, data: Any) -> bool:
    """Whether a program can write a gradient where it is: row-major, of its leaf's dtype (one of before `.double()`
    keeps its own).
    """
    return bool(gradient.flags.c_contiguous and gradient.dtype == data.dtype)


class Effects:
    """What a call does besides the bytes: versions, .grad objects, copied arguments, numbers, the generator."""

    def __init__(
        self, writes: Sequence[tuple[int, int]], sources: list[Any], grad_effects: list[GradEffect],
        number_writes: list[NumberWrite], random: list[RandomState], raised: dict[int, tuple[Any, int]], memory: Memory,
    ) -> None:
        moving = {
            id(s.slot.storage): s.slot.leaf for s in sources if type(s) is StateSource and s.slot.leaf is not None
        }
        self.moving: list[tuple[int, int]] = [(leaf, raised[key][1]) for key, leaf in moving.items() if key in raised]
        places = {id(place.storage): place for place in memory.places if id(place.storage) not in moving}
        self.places: list[tuple[Place, int]] = [
            (place, raised[key][1]) for key, place in places.items() if key in raised and raised[key][1]
        ]
        self.arguments: list[tuple[int, int, Any, int]] = []
        for _, param in writes:
            source = sources[param]
            if type(source) is ArgumentSource:
                by = raised[source.counter][1] if source.counter in raised else 0
                # (what is expanded is written with one value for all)
                self.arguments.append((param, source.leaf, source.permutation, by))
        self.grad_effects, self.number_writes = grad_effects, number_writes
        self.random = [state for state in random if state.is_moved()]

    def apply(
        self, leaves: list[Any], inputs: list[Any], results: list[Any], symbols: Symbols, grads: Grads,
        earlier: Sequence[Tensor | None] = (),
    ) -> None:
        """Make them visible. earlier: gradients of the call's beginning, by their numbers."""
        for place, by in self.places:
            place.storage.version += by
        for leaf, by in self.moving:
            leaves[leaf].storage().version += by
        for param, leaf, permutation, by in self.arguments:
            tensor = leaves[leaf]
            if permutation is None and inputs[param] is not tensor._data:
                tensor._data[...] = inputs[param]
            if by:
                tensor.storage().version += by
        for effect in self.grad_effects:
            tensor = target_of(effect, leaves)
            if effect.param is not None:
                _give_buffer(tensor, grads[effect.param], inputs[effect.param])
                continue
            tensor._state().grad, tensor._state().owns_grad = _assigned(effect.value, leaves, earlier), False
        for write in self.number_writes:
            write.set(results[write.position] if write.position is not None else number_of(write.dim, symbols))
        for state in self.random:
            state.move_generator(symbols)


def _assigned(
    value: Tensor | EarlierGradient | ReturnArgument | None, leaves: list[Any], earlier: Sequence[Tensor | None]
) -> Tensor | None:
    """The tensor of this call that a `.grad` becomes."""
    if isinstance(value, EarlierGradient):
        return earlier[value.number]
    return leaves[value.leaf] if isinstance(value, ReturnArgument) else value


def _give_buffer(tensor: Tensor, present: Tensor | None, array: Any) -> None:
    """Let a leaf have the gradient that the program has put into an array. present: the one that is there already."""
    state = tensor._state()
    if present is None:
        state.grad, state.owns_grad = tensor_around(array), True
        return
    if present._data is not array:
        present._data[...] = array
    if present._storage is not None:
        present._storage.version += 1
    state.grad = present


def number_of(dim: Dim | None, symbols: Symbols) -> Any:
    """The value of a symbolic integer at a call."""
    return dm.evaluate(dim, symbols) if isinstance(dim, Expr) else dim

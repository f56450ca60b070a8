"""What a program depends on beyond its arguments: which gradients there are, hooks, facts of Python state, and where
its state lies.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Iterator
from dataclasses import replace
from typing import Any

from weft.autograd.hooks import hooks_on
from weft.autograd.node import RemovableHandle
from weft.compile.program.call_plan import Inputs
from weft.compile.program.outputs import Outputs
from weft.compile.program.owner import Owner
from weft.programs.arguments import (
    leaf_of,
    sharing_pattern,
)
from weft.programs.memory import Memory, Place, shows_a_gradient
from weft.programs.program_io import (
    GradBuffer,
)
from weft.programs.store import Miss
from weft.record.capture import Capture
from weft.record.gradients import present_grad
from weft.record.numbers.lifted import StateGuard
from weft.record.state import base_like
from weft.runtime.storage import root_of
from weft.support import registry
from weft.tensor.history import AutogradState
from weft.tensor.tensor import Tensor
from weft.tensor.wrapper import is_wrapper, wrapper_classes

# what a user can do about calls that find something else
_SHARED = "give arguments memory of their own (x.clone()), or the same ones as the same arguments at each call"
_GRAD = "let gradients be there, or not, at each call alike: zero_grad() at the beginning of the step"
_LAYOUT = "make it contiguous before the call (x.contiguous())"
_MEMORY = "write into the tensor (copy_) in place of giving it other memory (.data =, set_)"
_HOOKS = "register hooks before the first call, and keep them"
_OPTIMIZER = "nothing, if an optimizer was restored: the next program takes its state as it is"


class StateGuards:
    """The guards on tensors from outside. They follow tensors that were given other memory, as long as the program
    holds there.
    """

    def __init__(
        self, owner: Owner, capture: Capture, sources: list[Any], memory: Memory, inputs: Inputs,
        outputs: Outputs, leaves: list[Any], apart: set[int], named: Container[int],
    ) -> None:
        """apart: the arguments whose memory other tensors may have or not. named: ids of the tensors that guards know
        as the very ones, wherever the function reaches them."""
        self.owner, self.capture, self.memory, self.inputs, self.outputs = owner, capture, memory, inputs, outputs
        states = list(capture.outside.states.values())
        self.by_argument: list[Any] = [s for s in states if s.leaf is not None]
        self.accumulated = [(g.tensor, g.leaf) for g in sources if type(g) is GradBuffer and g.slot.has is not None]
        reads = [
            (capture.leaf_gradients.real(g.tensor), g.present)
            for g in capture.leaf_gradients.slots.values() if g.present is not None
        ]
        self.presence = [(leaf_of(tensor, leaves), tensor, present) for tensor, present in reads]
        arguments = {i for s in states for i in s.own}  # their hooks are checked with their other facts
        self.hooks = [(t, hooks_on(t)) for i, (t, _, _) in capture.outside.wants_grad.items() if i not in arguments]
        self.open = {id(t) for t, _ in self.hooks if capture.calls.are_called(t)}  # others may take their places
        self.hooks_everywhere = _hooks_everywhere()
        self.hook_changes = RemovableHandle.changes
        self.apart = apart
        self.beside = {i for i in apart if not leaves[i].requires_grad}  # which may also share what is not written
        self.sharing = sharing_pattern(leaves, apart)
        self.elsewhere = {i: t for i, t in enumerate(leaves) if isinstance(t, Tensor) and id(t) in named}

    def match_sharing(self, leaves: list[Any]) -> Miss | None:
        """Whether arguments share memory with each other, and with state, as in the capture."""
        pattern = sharing_pattern(leaves, self.apart)
        if pattern != self.sharing:
            return Miss("arguments share memory (or are the same object) in another way than before", 3, remedy=_SHARED)
        for i, leaf in enumerate(leaves):
            outside = self.memory.written if i in self.beside else self.memory.outside
            if isinstance(leaf, Tensor) and (id(root_of(leaf._data)) in outside or id(leaf) in outside):
                return Miss(
                    (
                        "an argument now shares memory with state of the function, "
                        "or is a tensor that it reaches elsewhere"
                    ),
                    3, remedy=_SHARED,
                )
        for slot in self.by_argument:
            leaf = leaves[slot.leaf]
            is_other = slot.is_fixed and leaf.storage() is not slot.storage
            if is_other or self.elsewhere.get(slot.leaf, leaf) is not leaf:
                return Miss(
                    "is another tensor, and the function also reaches the first one from elsewhere", 3, leaf=slot.leaf,
                    remedy=_SHARED,
                )
            if base_like(leaf, slot) is None:
                return Miss("lies in its memory in another way", 3, leaf=slot.leaf, remedy=_LAYOUT)
        return None

    def match(self, leaves: list[Any]) -> Miss | None:
        """What does not fit a call, if anything does not."""
        for at, tensor, present in self.presence:
            if at is not None and leaves[at] is not tensor:
                if present:
                    return Miss(
                        "was a tensor whose .grad the function reads, is now another tensor", 5, leaf=at, remedy=_GRAD
                    )
                tensor = leaves[at]
            if (present_grad(tensor) is not None) is not present:
                was, now = ("there", None) if present else (None, "there")
                return Miss(
                    f"{self._where(tensor)}.grad of a tensor of shape {list(tensor.dims)} was {was}, is now {now}", 5,
                    remedy=_GRAD,
                )
        for tensor, wanted, where in self.capture.outside.wants_grad.values():
            state = tensor._autograd
            if (state is not None and state.requires_grad) is not wanted and tensor.requires_grad is not wanted:
                return Miss(
                    (
                        f"{where}: requires_grad of a tensor of shape {list(tensor.dims)} was {wanted}, "
                        f"is now {not wanted}"
                    ),
                    5, remedy="nothing, if it changes once (a layer is frozen): each answer has a program of its own",
                )
        if RemovableHandle.changes != self.hook_changes:
            if _hooks_everywhere() != self.hooks_everywhere:
                return Miss(
                    f"the number of hooks on every module {_counted(self.hooks_everywhere, _hooks_everywhere())}", 5,
                    remedy=_HOOKS,
                )
            for tensor, hooks in self.hooks:
                hooks_now = hooks_on(tensor)
                if hooks_now != hooks and not (id(tensor) in self.open and _same_counts(hooks_now, hooks)):
                    return Miss(
                        (
                            f"{self._where(tensor)}the number of hooks of a tensor of shape {list(tensor.dims)} "
                            f"{_counted(hooks, hooks_now)}"
                        ),
                        5, remedy=_HOOKS,
                    )
            self.hook_changes = RemovableHandle.changes
        for state_guard in self.capture.python_state.state_guards.values():
            if not state_guard.check() and not self._renew(state_guard):
                return Miss(state_guard.miss(), 5, remedy=_OPTIMIZER)
        if wrapper_classes and any(is_wrapper(target.grad) for target in self._added_to(leaves)):
            return Miss("a .grad that is added to now is of a tensor subclass", 5, remedy=_GRAD)
        if self.accumulated and shows_a_gradient(self.accumulated, leaves, self.memory.outside):
            with self.owner.lock:
                self.owner.assumptions = replace(self.owner.assumptions, knows_gradients=True)
            return Miss(
                "a .grad that is added to now shares memory with another tensor that the function uses", 5,
                remedy=_GRAD,
            )
        return None if self.memory.is_in_place() else self._go_along(leaves)

    def _added_to(self, leaves: list[Any]) -> Iterator[AutogradState]:
        """The autograd states of tensors whose .grad the program adds to."""
        for tensor, leaf in self.accumulated:
            state = (tensor if leaf is None else leaves[leaf])._autograd
            if state is not None:
                yield state

    def holds_within(self, tensors: Collection[Tensor], passed: Container[int]) -> bool:
        """Whether all of it still holds on the program's way. Of these `tensors` the program has set `.grad`; hooks
        that were added to those with ids in `passed` come too late."""
        own = {id(tensor) for tensor in tensors}
        for _, tensor, present in self.presence:
            if id(tensor) not in own and (present_grad(tensor) is not None) is not present:
                return False
        if RemovableHandle.changes != self.hook_changes and any(
            len(now) > len(before) for tensor, hooks in self.hooks
            for now, before in zip(hooks_on(tensor), hooks, strict=True) if id(tensor) not in passed
        ):
            return False
        return all(g.check() for g in self.capture.python_state.state_guards.values()) and self.memory.is_in_place()

    def _renew(self, guard: StateGuard) -> bool:
        """Go with tensors that others took the places of (the state of an optimizer that was restored), if the program
        holds for those.
        """
        renewed = None if guard.renewal is None else guard.renewal.renewed()
        if guard.renewal is None or renewed is None or self.outputs.names(renewed):
            return False
        if not self.memory.replace(renewed):
            return False
        self.inputs.take_state()
        wants = self.capture.outside.wants_grad
        wants.update({id(new): (new, *wants.pop(old)[1:]) for old, new in renewed.items() if old in wants})
        self.hooks = [(renewed.get(id(tensor), tensor), hooks) for tensor, hooks in self.hooks]
        self.outputs.changes.renew(renewed)
        self.capture.python_state.release(renewed)
        guard.renewal.settle()
        return True

    def _go_along(self, leaves: list[Any]) -> Miss | None:
        """Go with tensors that were given other memory, if the program holds there."""
        place = self.memory.follow()
        if place is not None:
            return Miss(self._where(place.tensor) + _moved(place), 5, remedy=_MEMORY)
        self.inputs.take_state()
        return self.match_sharing(leaves)  # the arguments were compared with the memory before

    def _where(self, tensor: Tensor) -> str:
        """The line at which the function used a tensor, before a text."""
        used = self.capture.outside.wants_grad.get(id(tensor))
        return "" if used is None or used[2] is None else f"{used[2]}: "


def _hooks_everywhere() -> list[list[int]]:
    return [list(table) for table in registry.hook_tables]


def _same_counts(now: Any, before: Any) -> bool:
    return list(map(len, now)) == list(map(len, before))


def _moved(place: Place) -> str:
    """What is other memory now."""
    tensor, what = place.now(), "the memory of a tensor" if place.getter is None else "a .grad"
    return (
        f"{what} was {_form(place.array)}, is now {None if tensor is None else f'other memory, {_form(tensor._data)}'}"
    )


def _form(array: Any) -> str:
    return f"{array.dtype}{list(array.shape)}"


def _counted(before: Any, after: Any) -> str:
    was, now = sum(map(len, before)), sum(map(len, after))
    return f"was {was}, is now {now}{' (others)' if was == now else ''}"

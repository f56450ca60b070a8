"""What a function changes in the containers that it is given or finds, and in gradients of tensors that it is given: a
program does it in those of each call."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from weft.compile.program.container_identity import container_at
from weft.guards import Slot
from weft.guards.slots import Key
from weft.record.gradients import present_grad
from weft.tensor.tensor import Tensor


class OfArgument:
    """A place in what a call is given, told by that of the captured call: its slot."""

    slot: Slot

    @property
    def text(self) -> str:
        """How messages say it."""
        return self.slot.text

    @property
    def name(self) -> Any:
        """Which of its holder's places it is."""
        return self.slot.name

    @property
    def holder(self) -> object:
        """The container, or the tensor, of the captured call."""
        return self.slot.holder

    @property
    def key(self) -> Key:
        """Equal for the same place in the captured call."""
        return self.slot.key


@dataclass(frozen=True)
class ArgumentPlace(OfArgument):
    """A place in a container among the arguments, or in what an object among them holds. path: the numbers of the
    children that lead to the container; slot: the place in the one that the captured call had; within: where the object
    holds it, or holds what it is in."""

    path: tuple[int, ...]
    slot: Slot
    within: Slot | None = None

    def container(self, tree: Any) -> Any:
        """The container of a call. tree: of its arguments."""
        return container_at(tree if self.within is None else self.within.get(), self.path)

    def place_in(self, container: Any) -> Slot:
        """The place in the container of a call."""
        slot = self.slot
        return type(slot)(container, slot.name, slot.text)


@dataclass(frozen=True)
class LogPlace(OfArgument):
    """The end of the list or deque that a place in Python's state holds at a call. slot: that of the one that was there
    in the captured call; within: the place."""

    slot: Slot
    within: Slot

    def place_now(self) -> Slot:
        """The end of the one that is there now."""
        return type(self.slot)(self.within.get(), self.slot.name, self.slot.text)


class GradientPlace(Slot):
    """`.grad` of a tensor (the holder) as a place that is assigned to."""

    __slots__ = ()
    kind = "gradient"

    @classmethod
    def of(cls, tensor: Tensor) -> GradientPlace:
        """That of one tensor."""
        return cls(tensor, "grad", f".grad of a tensor of shape {list(tensor.dims)}")

    def load(self) -> Any:
        return present_grad(self.holder)

    def store(self, value: Any) -> None:
        state = self.holder._state()
        state.grad, state.owns_grad = value, False


@dataclass(frozen=True)
class ArgumentGradient(OfArgument):
    """`.grad` of an argument. leaf: its number; slot: the place in the tensor that the captured call had."""

    leaf: int
    slot: GradientPlace

    def place_for(self, leaves: list[Any]) -> GradientPlace:
        """The place in the tensor of a call."""
        return GradientPlace.of(leaves[self.leaf])

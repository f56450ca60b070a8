"""Where the state of a program lies: the tensors from outside that it depends on, and their gradients,
looked up at each call.

A storage is state; a tensor is a geometry over one at the time of a call, for `.data =` rebinds the tensor alone.
So a tensor that has other memory since the capture is followed there, as long as all of them lie in memory as they did:
each with its sizes, strides and offset, and sharing storages as before.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from weft.record.state import Getter, StateSlot, base_like
from weft.runtime.storage import Storage, root_of
from weft.tensor.dense import is_dense
from weft.tensor.tensor import Tensor

Array = np.ndarray[Any, Any]


class Place:
    """A tensor through which a function reaches memory. slot: the storage that is an input of the program;
    None where only the tensor's type was read.

    getter: of a gradient, which may be another tensor at every call.
    """

    __slots__ = ("array", "getter", "layout", "slot", "storage", "tensor")

    def __init__(self, tensor: Tensor, array: Array, slot: StateSlot | None, getter: Getter | None = None) -> None:
        self.tensor, self.array, self.slot, self.getter = tensor, array, slot, getter
        self.storage: Storage = tensor.storage()
        self.layout = _layout(array, self.storage)

    def now(self) -> Tensor | None:
        """The tensor of this call."""
        return self.tensor if self.getter is None else self.getter()

    def holds(self, tensor: Tensor | None) -> bool:
        """Whether a tensor lies in its storage as the one of the capture did."""
        return (
            tensor is not None and is_dense(tensor)
            and _layout(tensor._data, tensor.storage()) == self.layout
        )


class Memory:
    """The places of a program's state. `is_in_place` is asked at each call, `follow` where it says no."""

    def __init__(self, slots: Iterable[StateSlot], named: Iterable[int], met: Iterable[Tensor]) -> None:
        """named: ids of the tensors that guards know. met: tensors that the function came upon."""
        slots, tensors = list(slots), {id(t): t for t in met}
        self.places = [place for slot in slots for place in _places(slot, tensors)]
        placed = {id(place.tensor) for place in self.places}
        self.places += [
            Place(t, t._data, None) for key, t in tensors.items() if is_dense(t) and key not in placed
        ]
        self.by_state = [slot for slot in slots if slot.leaf is None]
        # and ids of the arrays that own the state's memory: no argument may be the one or show the other
        self.outside: set[int] = set(named)
        self.written = set(named)  # of what is written alone
        self._roots: set[int] = set()
        self._settle()

    def _settle(self) -> None:
        self.fixed = [(place.tensor, place.array) for place in self.places if place.getter is None]
        self.provided = [(place.getter, place.array) for place in self.places if place.getter is not None]
        roots = {id(root_of(slot.array)) for slot in self.by_state}
        written = {id(root_of(slot.array)) for slot in self.by_state if slot.written}
        for ids, now in ((self.outside, roots), (self.written, written)):  # (the same objects: others have them)
            ids -= self._roots - now
            ids |= now
        self._roots = roots

    def is_in_place(self) -> bool:
        """Whether all of it is where it was at the call before."""
        for tensor, array in self.fixed:
            if tensor._data is not array:
                return False
        for getter, array in self.provided:
            gradient = getter()
            if gradient is None or gradient._data is not array:
                return False
        return True

    def follow(self) -> Place | None:
        """Go to where the state is now. Where the program does not hold there, nothing happens, and the first place
        that does not fit is returned."""
        tensors = [place.now() for place in self.places]
        roots: dict[int, int] = {}
        owners: dict[int, int] = {}
        for place, tensor in zip(self.places, tensors, strict=True):
            if not place.holds(tensor):
                return place
            slot = place.slot
            if slot is None:
                continue
            assert tensor is not None
            root = id(root_of(tensor._data))
            if roots.setdefault(id(slot), root) != root or owners.setdefault(root, id(slot)) != id(slot):
                return place  # tensors that shared memory, or did not, now do otherwise
            if slot.leaf is not None and tensor._data is not place.array:
                return place  # an argument's memory that is also reached from elsewhere
        for place, tensor in zip(self.places, tensors, strict=True):
            assert tensor is not None
            self._move(place, tensor)
        self._settle()
        return None

    def replace(self, renewed: Mapping[int, Tensor]) -> bool:
        """Let other tensors take the places of those with these ids, if the program holds for them;
        else nothing happens."""
        before = [
            (place, place.tensor) for place in self.places if place.getter is None and id(place.tensor) in renewed
        ]
        for place, tensor in before:
            place.tensor = renewed[id(tensor)]
        if self.follow() is None:
            return True
        for place, tensor in before:
            place.tensor = tensor
        return False

    def _move(self, place: Place, tensor: Tensor) -> None:
        if place.array is tensor._data:
            return
        place.array, place.storage = tensor._data, tensor.storage()
        if place.slot is not None:
            array = base_like(tensor, place.slot)
            assert array is not None  # (the layout is that of the capture)
            place.slot.storage, place.slot.array, place.slot.tensor = place.storage, array, tensor


def _places(slot: StateSlot, named: Container[int]) -> Iterator[Place]:
    """The tensors that lead to a storage, arguments aside. A gradient is whatever its leaf has, and that very tensor
    only where the code names it."""
    for key, (tensor, array) in slot.members.items():
        getters = slot.gradients.get(key, ())
        for getter in getters:
            yield Place(tensor, array, slot, getter)
        if key not in slot.own and (not getters or key in named):
            yield Place(tensor, array, slot)


def shows_a_gradient(added_to: Sequence[tuple[Tensor, int | None]], leaves: Sequence[Any], outside: set[int]) -> bool:
    """Whether a gradient that the program adds to (of a tensor, or of the argument at that place)
    is seen by an argument, by state or by another of them."""
    seen: list[int] = []
    for tensor, leaf in added_to:
        state = (tensor if leaf is None else leaves[leaf])._autograd
        if state is not None and state.grad is not None and not state.owns_grad:
            seen.append(id(root_of(state.grad._data)))
    if not seen:
        return False
    arguments = {id(root_of(leaf._data)) for leaf in leaves if isinstance(leaf, Tensor)}
    return len(set(seen)) < len(seen) or not outside.isdisjoint(seen) or not arguments.isdisjoint(seen)


def _layout(array: Array, storage: Storage) -> tuple[Any, ...]:
    return (array.dtype, array.shape, array.strides, storage.offset_of(array), storage.nbytes)

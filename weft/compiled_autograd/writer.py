"""Writing steps down: each with the values that it makes, and beside them the tensors, sizes, numbers and objects
that it takes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from weft.autograd.accumulate import accumulator_of
from weft.autograd.anomaly import describe_failure
from weft.autograd.node import Node, OpNode
from weft.autograd.saved import SavedTensor
from weft.compiled_autograd.steps import FLOAT, INT, SIZE, UNPACK, Constant, Pattern, Ref, Saved, Schedule, Step
from weft.ops.backward import ARG, DIMS, Plan, Source, needed_slots
from weft.support.errors import VersionError

# Of what a node saved: whether it is read, whether it is sizes, and for a number which values decide what is computed.
Slots = tuple[tuple[bool, bool, "Callable[[Any], bool] | None"], ...]


class Place(NamedTuple):
    """A saved tensor by its number."""

    ref: Ref


class Writer:
    """The steps of a schedule that is being written."""

    def __init__(self, patterns: Mapping[int, Pattern], earlier: Schedule | None) -> None:
        self.patterns = patterns
        self.out = Schedule()
        self.continues = earlier is not None
        if earlier is not None:
            self.out.kind = earlier.kind
            self.out.tensors, self.out.saved = earlier.tensors, earlier.saved
            self.out.places, self.out.known = earlier.places, earlier.known
            self.out.hooks = earlier.hooks
        self.steps: list[Step] = []
        self.owners: list[int] = []
        self.out.steps, self.out.owners = self.steps, self.owners
        self.base = 0  # steps before those in `steps`
        self.place = 0  # of the current node in the walk
        self.count = 0  # of values
        self.slots: dict[tuple[Plan, tuple[bool, ...]], Slots] = {}

    def tensor(self, tensor: Any, saved: Saved | None) -> Ref:
        """The number of a tensor beside the steps: one for each payload and history, however often it was saved."""
        place = place_of(tensor)
        found = self.out.places.get(place)
        if found is None:
            found = self.out.places[place] = ~len(self.out.tensors)
            self.out.tensors.append(tensor)
            self.out.saved.append(saved)
        elif self.continues and self.out.tensors[~found] is None:  # a run has taken it
            self.out.tensors[~found], self.out.saved[~found] = tensor, saved
        return found

    def emit(self, step: Step, results: int = 1) -> Ref:
        self.steps.append(step)
        self.owners.append(self.place)
        self.count += results
        return self.count - 1

    def python(self, step: Step, objects: tuple[Any, ...], expected: Pattern) -> list[Ref | None]:
        """A step that calls Python. Which of its results are there is looked up, or taken to be as `expected`."""
        self.out.objects.extend(objects)
        pattern = self.patterns.get(self.base + len(self.steps), expected)
        first = self.count
        self.emit((*step, pattern), len(pattern))
        return [first + i if there else None for i, there in enumerate(pattern)]

    def packed(self, node: OpNode, wanted: tuple[bool, ...]) -> tuple[Any, ...]:
        """What the wanted formulas of a node read of what it saved."""
        plan = node.plan
        slots = self.slots.get((plan, wanted))
        if slots is None:
            read = needed_slots(plan, wanted)
            slots = self.slots[plan, wanted] = tuple(
                [(i in read, slot.kind == DIMS, _question(plan, slot)) for i, slot in enumerate(plan.slots)]
            )
        known = self.out.known.get(node)
        if known is None:
            known = self.out.known[node] = self._placed(node.raw_values(), slots, node)
        packed: list[Any] = []
        for value, (is_read, is_size, decides) in zip(known, slots, strict=True):
            kind = type(value)
            if value is None or not is_read:
                packed.append(None)
                for hooked in hooked_in(value) if value is not None else ():
                    self.value(hooked, node)
            elif kind is Place:
                packed.append(value[0])
            elif decides is not None and kind in (int, float) and decides(value):
                packed.append(Constant(kind, value))  # (a formula takes another way for it)
            else:
                packed.append(self._sizes(value) if is_size else self.value(value, node))
        return tuple(packed)

    def _placed(self, values: tuple[Any, ...], slots: Slots, node: OpNode) -> tuple[Any, ...]:
        """Saved values with tensors by number. Those that are not read are looked at, as where a node unpacks all that
        it saved."""
        out: list[Any] = []
        for value, (is_read, _, _) in zip(values, slots, strict=True):
            kind = type(value)
            if not is_read or value is None:
                for saved in saved_in(value):
                    if saved.unpack_hook is None:
                        unpacked(saved, node)
                out.append(value)
            elif kind is SavedTensor and value.unpack_hook is None:
                out.append(Place(self.tensor(unpacked(value, node), (value, node))))
            elif kind is tuple:
                out.append(self._placed(value, ((True, False, None),) * len(value), node))
            else:
                out.append(value)
        return tuple(out)

    def value(self, value: Any, node: Node) -> Any:
        """A saved value as structure."""
        kind = type(value)
        if kind is int:
            self.out.ints.append(value)
            return INT
        if kind is float:
            self.out.floats.append(value)
            return FLOAT
        if kind is Place:
            return value.ref
        if kind is tuple:
            return tuple([self.value(v, node) for v in value])
        if kind is SavedTensor:
            return self.python((UNPACK,), (value, node), (True,))[0]
        return None if value is None else Constant(kind, value)

    def _sizes(self, value: Any) -> Any:
        """The dims of one tensor, or of each of a list."""
        if type(value) is int:
            self.out.sizes.append(value)
            return SIZE
        return None if value is None else tuple([self._sizes(v) for v in value])


def saved_in(value: Any) -> Iterator[SavedTensor]:
    """The saved tensors in what a node keeps for an argument."""
    if type(value) is SavedTensor:
        yield value
    elif type(value) is tuple:
        for part in value:
            yield from saved_in(part)


def hooked_in(value: Any) -> list[SavedTensor]:
    """Those whose hooks unpack them."""
    return [saved for saved in saved_in(value) if saved.unpack_hook is not None]


def unpacked(saved: SavedTensor, node: Node) -> Any:
    """What a node saved. One that was written since is an error in the node's name, as where the node runs."""
    try:
        return saved.unpack(node)
    except VersionError as error:
        describe_failure(node, error)
        raise


def place_of(tensor: Any) -> tuple[Any, ...]:
    """What makes two saved tensors one: payload and history."""
    state = tensor._autograd
    if state is None:
        return (id(tensor._data),)
    if state.node is None and state.requires_grad:
        return (id(tensor._data), id(accumulator_of(tensor)))  # (a detached leaf of the same memory is another one)
    return (id(tensor._data), id(state.node), state.index, state.requires_grad)


def _question(plan: Plan, slot: Source) -> Callable[[Any], bool] | None:
    """What the entry asks of a number that decides what is computed."""
    return dict(plan.op.specialized_positions).get(slot.position) if slot.kind == ARG else None

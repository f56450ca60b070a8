"""Ordinary assignments as results of a program: what a function assigns to objects that existed before the call, and
which of it a program can repeat.

An assigned value is one more result: it goes the way of returned tensors, so that it may be an argument, a parameter, a
view of one, another assigned value or the value that was there before. It is put in its place when the program has run.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence
from typing import Any

from weft import guards
from weft.compile.assumptions import Recording
from weft.compile.program.argument_writes import ArgumentPlace, LogPlace
from weft.compile.program.container_identity import is_empty_tuple
from weft.compile.tracing.returned_containers import (
    Before,
    ContainerWalk,
    Held,
    Older,
    identical_in,
)
from weft.guards.kinds import Kind, Kinds
from weft.guards.slots import EndSlot
from weft.record.numbers.run_time import RunTimeNumber
from weft.record.restart import Restart
from weft.record.symbolic import SymbolicPayload
from weft.support import pytree
from weft.support.errors import CaptureError
from weft.tensor.tensor import Tensor

MOST_LENGTHS = 32  # of one container
_PLAIN = frozenset({Kind.SCALAR, Kind.SYMBOL, Kind.CLASS, Kind.NAMESPACE})


def assignments(
    writes: Iterable[guards.NumberWrite | guards.ObjectWrite], recording: Recording,
    arguments: Iterable[tuple[Any, tuple[int, ...]]], held: Held, earlier: Mapping[int, Any],
    objects: Container[int], logs: Mapping[int, guards.Slot],
) -> list[guards.ObjectWrite]:
    """The writes that are results of the program; those of numbers have a way of their own, but for numbers in
    arguments. arguments: their containers, with the ways that lead there; earlier: by identity, the containers for
    which others stand in bound places, with the place; objects: the ids of stand-ins for objects among the arguments,
    in whose containers a program writes as in arguments; logs: by identity, lists that are only added to, with the
    places that lead to them.

    Raises Restart where a place that the function writes must be an input first, CaptureError for a container that
    grows without end.
    """
    lifted = recording.assumptions.lifted
    own: dict[int, tuple[tuple[int, ...], guards.Slot | None]] = {
        id(container): (path, slot)
        for slot, container, path in held
        if id(slot.holder) in objects and pytree.is_node(container) and not is_empty_tuple(container)
    }
    own |= {id(container): (path, None) for container, path in arguments if pytree.is_node(container)}
    inside = {**earlier, **{id(container): slot.key for slot, container, _ in held if pytree.is_node(container)}}
    results, lift, identical = [], {}, set()
    numbers: Counter[Any] = Counter()  # of containers that one line adds to
    for write in writes:
        target = write.target
        if id(target.holder) in own:
            path, within = own[id(target.holder)]
            if isinstance(write, guards.ObjectWrite) and type(target) in (guards.ContentSlot, EndSlot):
                added = len(write.value) - (0 if write.old is None else len(write.old))
                if added > 0:
                    length = len(target.holder) - added
                    place = "argument", path, within and within.key
                    _note_growth(write, length, recording.lengths[place])
            results.append(guards.ObjectWrite(ArgumentPlace(path, target, within), write.old, write.value, write.where))
        elif id(target.holder) in logs and isinstance(write, guards.ObjectWrite):
            end = LogPlace(target, logs[id(target.holder)])
            results.append(guards.ObjectWrite(end, write.old, write.value, write.where))
        elif id(target.holder) in inside:
            identical.add(inside[id(target.holder)])
        elif isinstance(write, guards.ObjectWrite):
            lift.update({slot.key: slot for slot in write.inputs if slot.key not in lifted})
            if type(target) is guards.ContentSlot and len(write.value) > len(write.old):
                line = write.where, target.text
                _note_growth(write, len(write.old), recording.lengths[line, numbers[line]])
                numbers[line] += 1
            results.append(write)
        elif target.key not in lifted and type(write.old) in (int, float):
            lift[target.key] = target
    if lift or identical:
        raise Restart(lift=lift, identical=identical)
    return results


def _note_growth(write: guards.ObjectWrite, length: int, lengths: set[int]) -> None:
    """Each length of a container that the function reads and adds to is another program: refused where this has no end.
    """
    lengths.add(length)
    if len(lengths) > MOST_LENGTHS:
        kind = type(write.target.holder).__name__
        raise CaptureError(
            f"{write.where}: the compiled function adds to a {kind} at every call and reads it ({write.target.text}): "
            f"each length is another program, and there were {len(lengths) - 1} already. Return the value and add it "
            "outside, or keep the last few in a collections.deque(maxlen=...)"
        )


def assigned_values(
    writes: Sequence[guards.ObjectWrite], numbers: dict[Any, int], before: Before, kinds: Kinds
) -> list[Any]:
    """The values of these writes as a tree of results, beside the result of the call. numbers: of the containers made
    there (again.py).

    Raises CaptureError for a value that a program cannot make anew at every call, and Restart where one is a container
    that stands for what a place holds: that must be the very one.
    """
    walks = [_AssignedValue(write, before, numbers, kinds) for write in writes]
    values = [walk.visit(walk.write.value) for walk in walks]
    identical_in(walks)
    return values


class _AssignedValue(ContainerWalk):
    """The walk over one assigned value."""

    def __init__(self, write: guards.ObjectWrite, before: Before, numbers: dict[Any, int], kinds: Kinds) -> None:
        super().__init__(before, numbers)
        self.write, self.kinds = write, kinds

    def tensor(self, value: Tensor) -> Any:
        if value._is_param and type(value._data) is SymbolicPayload:
            raise self.refuse(
                "a parameter made in this call", "Make it outside, or write into one with copy_() under weft.no_grad()."
            )
        return super().tensor(value)

    def leaf(self, value: Any) -> Any:
        if value is guards.MISSING or self._is_plain(value) or isinstance(value, RunTimeNumber):
            return value
        if not self.before.is_older(value):
            raise self.refuse(
                f"an object of type {type(value).__name__} made in this call",
                "Make it outside of the compiled function, or assign tensors, numbers, or a tuple, list, "
                "dict or dataclass of them.",
            )
        return Older(value)

    def _is_plain(self, value: Any) -> bool:
        """Whether a value is as good as another one that is equal: nothing can change it."""
        if type(value) is frozenset:
            return all([self.kinds.of(part) is Kind.SCALAR for part in pytree.flatten(tuple(value))[0]])
        return self.kinds.of(value) in _PLAIN

    def refuse(self, what: str, remedy: str) -> CaptureError:
        write = self.write
        return CaptureError(
            f"{write.where}: the compiled function assigns {what} to {write.target.text}, which later calls would not "
            f"make anew. {remedy}"
        )

"""Ordinary assignments as results of a program: what a function assigns to objects that existed before the call, and
which of it a program can repeat.

An assigned value is one more result: it goes the way of returned tensors, so that it may be an argument, a parameter, a
view of one, another assigned value or the value that was there before. It is put in its place when the program has run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from weft import guards
from weft.compile.assumptions import Recording
from weft.compile.program.again import Again, count, is_numbered
from weft.compile.program.container_identity import is_empty_tuple, paths_of
from weft.guards.kinds import Kind, Kinds
from weft.record.restart import Restart
from weft.record.symbolic import SymbolicPayload
from weft.support import pytree
from weft.support.errors import CaptureError
from weft.tensor.tensor import Tensor

# places in Python state, and what stands in for their values while the function is captured
Bound = Sequence[tuple[guards.Slot, Any]]
MOST_LENGTHS = 32  # of one container
_PLAIN = frozenset({Kind.SCALAR, Kind.SYMBOL, Kind.CLASS, Kind.NAMESPACE})


class Older:
    """An object that existed before the call, assigned as it is."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value


class Callers:
    """A container among the call's arguments, by the way that leads to it."""

    __slots__ = ("path",)

    def __init__(self, path: tuple[int, ...]) -> None:
        self.path = path


def callers_in(arguments: Any) -> dict[int, Callers]:
    """The containers of a call's arguments, as the function got them, by identity."""
    return {id(c): Callers(path) for c, path in paths_of(arguments) if path and not is_empty_tuple(c)}


def containers_in(tree: Any) -> Iterator[Any]:
    """The containers that a tree is made of."""
    pending = [tree]
    while pending:
        value = pending.pop()
        children, spec = pytree.one_level(value)
        if spec.kind is not None:
            yield value
            pending += children


def assignments(
    writes: Iterable[guards.NumberWrite | guards.ObjectWrite], recording: Recording, arguments: Any, bound: Bound,
    earlier: Mapping[int, Any],
) -> list[guards.ObjectWrite]:
    """The writes that are results of the program; those of numbers have a way of their own. earlier: by identity, the
    containers for which others stand in bound places, with the place.

    Raises Restart where a place that the function writes must be an input first, CaptureError for a write into an
    argument, and for a container that grows without end.
    """
    lifted = recording.assumptions.lifted
    own = set(map(id, containers_in(arguments)))
    inside = {**earlier, **{id(c): slot.key for slot, value in bound for c in containers_in(value)}}
    results, lift, identical = [], {}, set()
    for write in writes:
        target = write.target
        if id(target.holder) in own:
            what = "a number inside" if isinstance(write, guards.NumberWrite) else "a part"
            raise CaptureError(
                f"{write.where}: the compiled function changes {target.text}, {what} of an argument; "
                "return the new value instead"
            )
        if id(target.holder) in inside:
            identical.add(inside[id(target.holder)])
        elif isinstance(write, guards.ObjectWrite):
            lift.update({slot.key: slot for slot in write.inputs if slot.key not in lifted})
            if type(target) is guards.ContentSlot and len(write.value) > len(write.old):
                _note_growth(write, recording.lengths.setdefault(target.key, {}))
            results.append(write)
        elif target.key not in lifted and type(write.old) in (int, float):
            lift[target.key] = target
    if lift or identical:
        raise Restart(lift=lift, identical=identical)
    return results


def _note_growth(write: guards.ObjectWrite, lengths: dict[int, Any]) -> None:
    """Each length of a container that the function reads and adds to is another program: refused where this has no end.
    """
    lengths[len(write.old)] = write.target.holder
    if len(lengths) > MOST_LENGTHS:
        kind = type(write.target.holder).__name__
        raise CaptureError(
            f"{write.where}: the compiled function adds to a {kind} at every call and reads it ({write.target.text}): "
            f"each length is another program, and there were {len(lengths) - 1} already. Return the value and add it "
            "outside, or keep the last few in a collections.deque(maxlen=...)"
        )


def assigned_values(
    writes: Sequence[guards.ObjectWrite], numbers: dict[Any, int], arguments: Any, bound: Bound,
    is_older: Callable[[object], bool], kinds: Kinds,
) -> list[Any]:
    """The values of these writes as a tree of results, beside the result of the call. numbers: of the containers made
    there (again.py); arguments: trees whose containers are the caller's.

    Raises CaptureError for a value that a program cannot make anew at every call, and Restart where one is a container
    that stands for what a place holds: that must be the very one.
    """
    callers = callers_in(arguments)
    inputs = {id(c): slot.key for slot, value in bound for c in containers_in(value)}
    looked = [_Value(write, numbers, callers, inputs, is_older, kinds) for write in writes]
    values = [each.made(each.write.value) for each in looked]
    identical = {key for each in looked for key in each.identical}
    if identical:
        raise Restart(identical=identical)
    return values


class _Value:
    """One assigned value, looked at part by part. numbers: of the containers made so far (again.py); identical: the
    inputs that must be the very containers."""

    def __init__(
        self, write: guards.ObjectWrite, numbers: dict[Any, int], callers: dict[int, Callers],
        inputs: dict[int, Any], is_older: Callable[[object], bool], kinds: Kinds,
    ) -> None:
        self.write, self.numbers, self.callers, self.inputs = write, numbers, callers, inputs
        self.is_older, self.kinds = is_older, kinds
        self.identical: set[Any] = set()
        self._within: set[int] = set()  # containers around the one that is looked at

    def made(self, value: Any) -> Any:
        """The value as a result."""
        if isinstance(value, Tensor):
            return self._tensor(value)
        children, spec = pytree.one_level(value)
        if spec.kind is None:
            return self._leaf(value)
        if id(value) in self.callers:
            return self.callers[id(value)]
        if not is_numbered(spec.kind):
            return pytree.unflatten([self.made(child) for child in children], spec)
        if id(value) in self._within:
            raise self._refuse(
                f"a {type(value).__name__} that holds itself",
                f"Assign a tuple, or a copy of the {type(value).__name__}.",
            )
        if id(value) in self.inputs:
            self.identical.add(self.inputs[id(value)])
        if self.is_older(value):
            return Older(value)
        if id(value) in self.numbers:
            return Again(self.numbers[id(value)])
        self._within.add(id(value))
        whole = pytree.unflatten([self.made(child) for child in children], spec)
        self._within.discard(id(value))
        count(value, self.numbers)
        return whole

    def _tensor(self, value: Tensor) -> Tensor:
        if value._is_param and type(value._data) is SymbolicPayload:
            raise self._refuse(
                "a parameter made in this call", "Make it outside, or write into one with copy_() under weft.no_grad()."
            )
        return value

    def _leaf(self, value: Any) -> Any:
        if value is guards.MISSING or self.kinds.of(value) in _PLAIN:
            return value
        if not self.is_older(value):
            raise self._refuse(
                f"an object of type {type(value).__name__} made in this call",
                "Make it outside of the compiled function, or assign tensors, numbers, or a tuple, list, "
                "dict or dataclass of them.",
            )
        return Older(value)

    def _refuse(self, what: str, remedy: str) -> CaptureError:
        write = self.write
        return CaptureError(
            f"{write.where}: the compiled function assigns {what} to {write.target.text}, which later calls would not "
            f"make anew. {remedy}"
        )

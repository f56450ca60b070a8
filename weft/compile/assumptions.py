"""What a recording of a function goes by, and how the next one learns from a recording that refutes it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from types import CodeType
from typing import Any

from weft.autograd.forward_facts import ForwardFacts
from weft.guards import Slot, Switch
from weft.guards.slots import counted
from weft.record.restart import Restart

Key = tuple[Any, ...]  # of a place in Python's state, or ("leaf", number) of an argument


@dataclass(frozen=True)
class Assumptions:
    """An immutable record: what is known makes another one.

    lifted: places whose numbers, or tensors, are inputs (None: an argument); fixed: places whose numbers are read by
    code that takes no symbol, and are never inputs; identical: of the lifted places those that hold the same object at
    every call.
    static: arguments taken as they lie in memory, with fixed sizes; as_one: arguments that share memory and are taken
    as one memory. Others that share memory are each taken as memory of their own.
    symbolic_codes: functions that use math and `len` on symbols. knows_gradients: gradients that are added to are
    reached otherwise too. same_containers: containers of a call that are one object have one stand-in.
    changing_sizes: symbols of sizes for which calls found no program that fits.
    unrolled: loops of Python's are recorded iteration by iteration; counted: none goes on for other sizes;
    loops: which did not, and why.
    reads_values: Python may ask for values of tensors; the program is for the answers that the call has given.
    called: code of hooks and rules that the program calls instead of recording it; without_gradient: by the number of
    such a call, ids of tensors whose .grad it takes away; forwards: what the forwards of custom Functions among them
    give, in order.
    Of a call that is on its way, and goes on in the program: switches: what changes in Python's state at its calls of
    Python; missing: by the number of such a call, which of its results are None; kept: numbers of values that the
    program is to keep for others, in which calls may go on that it begins.
    """

    lifted: Mapping[Key, Slot | None] = field(default_factory=dict)
    fixed: frozenset[Key] = frozenset()
    identical: frozenset[Key] = frozenset()
    static: frozenset[Any] = frozenset()
    as_one: frozenset[Any] = frozenset()
    symbolic_codes: tuple[CodeType, ...] = ()
    knows_gradients: bool = False
    same_containers: bool = False
    changing_sizes: frozenset[str] = frozenset()
    unrolled: bool = False
    counted: bool = False
    loops: tuple[str, ...] = ()
    reads_values: bool = False
    called: tuple[CodeType, ...] = ()
    without_gradient: frozenset[tuple[int, int]] = frozenset()
    forwards: tuple[ForwardFacts | None, ...] = ()
    switches: tuple[Switch, ...] = ()
    missing: frozenset[tuple[int, int]] = frozenset()
    kept: frozenset[int] = frozenset()

    @property
    def as_they_lie(self) -> frozenset[Any]:
        """The arguments that are not taken as memory of their own."""
        return self.static | self.as_one

    @property
    def lifted_slots(self) -> list[Slot]:
        """The places in Python's state whose numbers are inputs."""
        slots = {key: slot for key, slot in self.lifted.items() if slot is not None and key[0] != "leaf"}
        # (an item that is counted from the end may be there counted from the start, too)
        return [s for s in slots.values() if (from_start := counted(s)) is s or from_start.key not in slots]

    @property
    def bound_slots(self) -> list[Slot]:
        """The places in Python's state whose tensors are inputs, if they hold some."""
        return [slot for slot in self.lifted_slots if slot.key not in self.identical]

    def lifting(self, slots: Mapping[Key, Slot | None]) -> Assumptions:
        """With more places as inputs."""
        return replace(self, lifted={**self.lifted, **slots})

    def lifting_changed(self, slots: Mapping[Key, Slot | None]) -> Assumptions:
        """With places as inputs that hold something else now, where their numbers may be symbols."""
        return self.lifting({key: slot for key, slot in slots.items() if key not in self.fixed})

    def fixing(self, keys: frozenset[Key]) -> Assumptions:
        """With the numbers in these places as they are, for good."""
        return replace(self.without_lifting(keys), fixed=self.fixed | keys)

    def without_lifting(self, keys: frozenset[Key]) -> Assumptions:
        """With the numbers in these places as they are."""
        return replace(self, lifted={key: slot for key, slot in self.lifted.items() if key not in keys})

    def without_places_in(self, holders: Iterable[object]) -> Assumptions:
        """With no input that lies in one of these objects."""
        ids = set(map(id, holders))
        within = {key for key, slot in self.lifted.items() if slot is not None and id(slot.holder) in ids}
        return self.without_lifting(frozenset(within)) if within else self

    def refined(self, refuted: Restart, apart: frozenset[Any]) -> Assumptions:
        """What a recording that had to begin again has shown. apart: the arguments that it took as memory of their own,
        though they share memory."""
        if refuted.lifted:
            return replace(self, symbolic_codes=(*self.symbolic_codes, *refuted.lifted))
        return replace(
            self.lifting(refuted.lift), static=self.static | (refuted.static - apart),
            as_one=self.as_one | (refuted.static & apart), identical=self.identical | refuted.identical,
            knows_gradients=self.knows_gradients or refuted.knows_gradients,
            same_containers=self.same_containers or refuted.same_containers,
            unrolled=self.unrolled or refuted.unrolled, counted=self.counted or refuted.counted,
            loops=self.loops or refuted.loops,
        )

    def after_call(self, number: int, missing: Mapping[int, bool], without: Mapping[int, bool]) -> Assumptions:
        """What call `number` of Python's has given: which results are missing, and of which tensors (by id) it has
        taken the .grad."""
        return replace(
            self, missing=_updated(self.missing, number, missing),
            without_gradient=_updated(self.without_gradient, number, without),
        )

    def with_forward(self, number: int, facts: ForwardFacts) -> Assumptions:
        """With what the forward number so many among those that are called has given."""
        forwards = [*self.forwards, *[None] * (number + 1 - len(self.forwards))]
        forwards[number] = facts
        return replace(self, forwards=tuple(forwards))


def _updated(pairs: frozenset[tuple[int, int]], number: int, answers: Mapping[int, bool]) -> frozenset[tuple[int, int]]:
    """The pairs, where those with this number are as the answers say: there if so, else not."""
    answered = {(number, place) for place in answers}
    return (pairs - answered) | {(number, place) for place, is_so in answers.items() if is_so}


@dataclass(eq=False)
class Recording:
    """One try to record a function. What is known of it stays where it fails.

    hooks, rules: those that it has called, forward rules of custom Functions among the latter; apart: the arguments
    that it takes as memory of their own, though they share memory. lengths: those that containers had which the
    function adds to, by the line that does it.
    """

    function: Callable[..., Any]
    name: str
    assumptions: Assumptions
    lengths: defaultdict[Any, set[int]]
    hooks: list[Any] = field(default_factory=list)
    rules: list[Any] = field(default_factory=list)
    apart: frozenset[Any] = frozenset()

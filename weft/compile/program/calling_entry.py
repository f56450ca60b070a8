"""A program that calls hooks on its way: its parts run one after the other, and between two of them everything that
the function has done so far is real.

What a part relies on is asked again after each call, for the hook may have changed it. Each call keeps the programs in
which it can go on, which are all the same up to there; one that fits what the call gave is captured then and there if
there is none.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from weft.autograd.forward_facts import facts_of
from weft.compile.program.boundary import Boundary, Executable, run_part
from weft.compile.program.call_plan import Symbols, target_of
from weft.compile.program.entry import Entry
from weft.compile.program.frame import Frame, FrameMapping
from weft.compile.program.owner import Owner
from weft.compile.program.parts import Parts
from weft.guards import Switch
from weft.guards.switches import has_moved, held_after, switches_in
from weft.ir.graph import Graph
from weft.programs.argument_histories import Before
from weft.programs.store import UNFIT, Miss
from weft.record.gradients import present_grad
from weft.record.numbers.lifted import NumberInput
from weft.record.python_call import NotCallable
from weft.support import limits
from weft.support.errors import OR_SPLIT
from weft.support.memo import Memo

_CHANGED = (
    "{where}: this hook changes something that the compiled step has read before it was called; the step stops behind "
    f"the hook, and later calls run as they are written.{OR_SPLIT}"
)
_LOST = (
    "{where}: this hook writes a view that it is given, of which the compiled step has made a copy; the step stops "
    f"behind the hook, and later calls run as they are written.{OR_SPLIT}"
)


@dataclass(eq=False)
class CallingEntry(Entry):
    """A program in parts, with the calls of Python between them. split: the parts, and what is where between them;
    switches: what changes in Python's state at the calls."""

    owner: Owner = field(kw_only=True)
    split: Parts = field(kw_only=True)
    boundaries: list[Boundary] = field(default_factory=list)
    switches: Sequence[Switch] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        for boundary in self.boundaries:
            boundary.continuations.add(Continuation(self, boundary.number))

    def run(self, leaves: list[Any], symbols: Symbols) -> Any:
        """Run the program on a call that fits."""
        frame = self.frame(leaves, symbols)
        before = self.outputs.remembered(leaves, frame.inputs)
        program, number = self, 0
        while number < len(program.boundaries):
            boundary = program.boundaries[number]
            boundary.run_to_call(frame)
            if not boundary.make_call(frame):
                raise program._given_up(_LOST.format(where=boundary.step.call.where))
            match = boundary.continuations.find(frame, program)
            continuation, frame = program._new_continuation(boundary, frame) if match is None else match
            program = continuation.program
            number += 1
        return program._end(frame, before)

    def frame(self, leaves: list[Any], symbols: Symbols) -> Frame:
        """The frame of a call that begins, or goes on, in the program."""
        inputs, grads = self.inputs.gather(leaves, symbols)
        hooks = [boundary.step.call.current() for boundary in self.boundaries]
        return Frame(leaves, inputs, symbols, grads, [None] * len(self.split.slots), hooks)

    def _end(self, frame: Frame, before: Before) -> Any:
        part, executable = self.split.parts[-1], self.executable
        return self.make_whole(
            lambda *_: run_part(part, executable, frame), frame.leaves, frame.inputs, frame.symbols, frame.grads, before
        )

    @property
    def programs(self) -> list[tuple[str, Graph, Executable]]:
        """The parts, each with the hook that is called after it."""
        titles = [
            f"part {boundary.number + 1}, up to the hook at {boundary.step.call.where}" for boundary in self.boundaries
        ]
        return [
            (title, part.graph, executable) for title, part, executable in zip(
                (*titles, f"part {len(titles) + 1}"), self.split.parts, self._executables(), strict=True
            )
            if executable is not None and part.graph is not None
        ]

    def stages(self) -> dict[str, Any]:
        """Every stage of every part, by name and the part's number."""
        stages: dict[str, Any] = {"captured": self.graph}
        for number, executable in enumerate(self._executables(), 1):
            stages_of_part = {} if executable is None else self.stages_of(executable)
            stages.update((f"{name} {number}", stage) for name, stage in stages_of_part.items())
        return stages

    def _executables(self) -> list[Executable | None]:
        return [*[boundary.executable for boundary in self.boundaries], self.executable]

    # ---- what a hook may have changed
    def holds(self, boundary: Boundary, frame: Frame) -> bool:
        """Whether all is as this program takes it to be after a call. Gradients that were replaced are taken up, and
        generators from which was drawn."""
        step, number = boundary.step, boundary.number
        if not boundary.has_results_like(frame):
            return False
        tensors = boundary.take_gradients(frame)
        if tensors is None:
            return False
        self.inputs.copy_again(frame.leaves, frame.inputs, boundary.reads_after)
        resolved = {effect.param for effect in step.gradients}
        self.inputs.gather_gradients(frame.leaves, frame.inputs, frame.grads, resolved)
        for state in step.call.random:
            state.go_along(frame.symbols)
        for source in self._other_numbers(frame):
            if source.since <= number:
                return False
            frame.symbols[source.key] = source.getter()
            if source.param is not None:
                frame.inputs[source.param] = float(source.getter())
        passed = step.call.passed if self.capture.evaluator.walks == 1 else set[int]()
        return step.check() and self.guards.state.holds_within(tensors, passed)

    def _other_numbers(self, frame: Frame) -> list[NumberInput]:
        """The numbers of Python's state that are not what they were."""
        return [n for n in self.guards.numbers if n.leaf is None and n.getter() != frame.symbols[n.key]]

    def _switches(self, boundary: Boundary, frame: Frame) -> list[Switch] | None:
        """What changes in Python's state at the calls up to this one; None where that is more than slots."""
        number = boundary.number
        switches = switches_in(boundary.step.guards, number)
        if switches is None:
            return None
        slots = {slot.key: slot for slot in self.owner.assumptions.lifted_slots}
        for source in self._other_numbers(frame):
            slot = next((s for s in slots.values() if s.get == source.getter), None)
            if slot is not None:
                switches.append(Switch(number, slot, frame.symbols[source.key], source.getter()))
            elif source.since <= number:
                return None
        changed = {switch.slot.key for switch in switches}
        switches += [
            Switch(number, s.slot, s.new, s.slot.get()) for s in held_after(self.switches, number - 1)
            if s.slot.key not in changed and has_moved(s)
        ]
        return [*[s for s in self.switches if s.call < number], *switches]

    # ---- where the call goes on
    def _new_continuation(self, boundary: Boundary, frame: Frame) -> tuple[Continuation, Frame]:
        """A program captured for what a call gave, and its frame. Raises NotCallable where there is none."""
        owner = self.owner
        with owner.lock:
            match = boundary.continuations.find(frame, self)  # another thread may have captured it meanwhile
            if match is not None:
                return match
            self._learn(boundary, frame)
            switches = self._switches(boundary, frame)
            program = None
            if switches is not None:
                program = owner.capture_within(self, frame.leaves, switches, self._read_by_others(boundary.number))
            why = _CHANGED.format(where=boundary.step.call.where)
            if not isinstance(program, CallingEntry):
                raise self._given_up(why)
            continuation = Continuation(program, boundary.number)
            taken = continuation.match(frame, self)
            if type(taken) is Miss:
                raise self._given_up(why)
            program._join(self, continuation)
            alike = [e for e in owner.entries if isinstance(e, CallingEntry) and e.guards.spec == self.guards.spec]
            owner.keep(program)
            if len(alike) >= limits.CONTINUATIONS_OF_A_CALL:
                owner.give_up(program, why)
            return continuation, taken

    def _read_by_others(self, number: int) -> frozenset[int]:
        """The numbers of values that the programs in which calls may go on, after this call of Python or an earlier
        one, read from before it."""
        return frozenset([
            program.split.slots[slot] for boundary in self.boundaries[: number + 1]
            for program in [continuation.program for continuation in boundary.continuations]
            for slot in program._slots_read_after(boundary.number)
        ])

    def _slots_read_after(self, number: int) -> list[int]:
        """The slots that are filled before a call of Python is made, and read after it."""
        later = [self.split.parts[number].results, *[part.slots_filled() for part in self.split.parts[number + 1 :]]]
        filled_later = set[int]().union(*later)
        return [at for held, at in self.boundaries[number].reads_after if not held and at not in filled_later]

    def _join(self, other: CallingEntry, continuation: Continuation) -> None:
        """Calls of another program may go on in this one, which is like it up to a call, and calls of this one in all
        that the other one's may go on in."""
        for boundary, shared in zip(self.boundaries, other.boundaries[: continuation.number + 1], strict=False):
            boundary.continuations = shared.continuations
            is_last = boundary.number == continuation.number
            shared.continuations.add(continuation if is_last else Continuation(self, boundary.number))

    def _given_up(self, why: str) -> NotCallable:
        """The error of a call that cannot go on; later ones run as they are written."""
        with self.owner.lock:
            self.owner.give_up(self, why)
        return NotCallable(why)

    def _learn(self, boundary: Boundary, frame: Frame) -> None:
        """Let the next capture assume what the calls gave: those before it what this program goes by, and it what is
        there now."""
        owner, assumptions = self.owner, self.owner.assumptions
        for earlier in self.boundaries[: boundary.number]:
            assumptions = assumptions.after_call(
                earlier.number, {i: earlier.step.call.likes[i] is None for i in earlier.step.call.places},
                {id(target_of(effect, frame.leaves)): effect.param is None for effect in earlier.step.gradients},
            )
        call = boundary.step.call
        if call.forward is not None and not boundary.has_expected_results(frame):
            ctx, args = frame.arguments
            facts = facts_of(ctx, args, frame.results[0] if len(frame.results) == 1 else tuple(frame.results))
            assumed = assumptions.forwards[call.forward]
            assert assumed is not None
            if facts is not None and not (assumed.takes(facts) and assumed.tells(facts)):  # its sizes hang on values
                assumptions = assumptions.with_forward(call.forward, facts)
        tensors = [target_of(effect, frame.leaves) for effect in boundary.step.gradients]
        owner.assumptions = assumptions.after_call(
            boundary.number, {i: frame.results[i] is None for i in call.places},
            {id(tensor): present_grad(tensor) is None for tensor in tensors},
        )

    def mapping_from(self, other: CallingEntry, number: int) -> FrameMapping | None:
        """Where this program has what another one has computed up to a call, and reads after it; None where that is not
        what it would have itself."""
        if len(self.boundaries) <= number or self.guards.bound.places:
            return None
        inputs, slots = [], []
        places = {value: at for at, value in enumerate(other.split.inputs)}
        held = dict(zip(other.split.inputs, other.split.parts[number].held, strict=True))
        filled = set[int]().union(*[part.slots_filled() for part in other.split.parts[: number + 1]])
        sources: dict[int, list[int]] = {}
        for slot in filled:
            sources.setdefault(other.split.slots[slot], []).append(slot)
        for at in [at for is_held, at in self.boundaries[number].reads_after if is_held]:
            value = self.split.inputs[at]
            if self.split.parts[number].held[at] != held.get(value, value):
                return None
            if value in places:
                inputs.append((at, places[value]))
        for at in self._slots_read_after(number):
            if not (others := self._sources(at, sources)):
                return None
            slots.append((at, others))
        return FrameMapping(inputs, self._symbols_from(other), slots)

    def _sources(self, slot: int, sources: dict[int, list[int]]) -> list[int]:
        """The slots of another program in which the value of a slot is, or that of before calls that it does not read
        again after."""
        number: int | None = self.split.slots[slot]
        slots = []
        while number is not None:
            slots += sources.get(number, [])
            number = self.split.before.get(number)
        return slots

    def _symbols_from(self, other: CallingEntry) -> list[tuple[str, str]]:
        """The symbols of another program that are the same, as it had them when the call began: lifted numbers, and
        where generators stood."""
        numbers = {n.place: n.key for n in other.guards.numbers}
        pairs = [(n.key, numbers[n.place]) for n in self.guards.numbers if n.place in numbers]
        for own in self.guards.random:
            for its in other.guards.random:
                if own.generator is its.generator:
                    pairs += [(own.key, its.key), (own.offset, its.offset)]
        return pairs


@dataclass(eq=False)
class Continuation:
    """A program in which a call can go on after call number `number` of Python; mappings: from the programs in which it
    may have begun."""

    program: CallingEntry
    number: int
    mappings: Memo[CallingEntry, FrameMapping | None] = field(
        default_factory=lambda: Memo(limits.CONTINUATIONS_OF_A_CALL)
    )

    def match(self, frame: Frame, began: CallingEntry) -> Frame | Miss:
        """The frame of a call that goes on in the program; a Miss where it is not what the program takes it to be."""
        taken = frame if began is self.program else self._taken(frame, began)
        if taken is None or not self.program.holds(self.program.boundaries[self.number], taken):
            return UNFIT
        if taken is not frame:
            self.program.boundaries[self.number].take_results(taken)
        return taken

    def _taken(self, frame: Frame, began: CallingEntry) -> Frame | None:
        """The program's frame with what another one has computed."""
        program = self.program
        if began not in self.mappings:
            self.mappings[began] = program.mapping_from(began, self.number)
        mapping = self.mappings[began]
        if mapping is None:
            return None
        symbols = program.guards.symbols_of(frame.leaves)
        slots = mapping.slots_of(frame, len(program.split.slots))
        if isinstance(symbols, Miss) or slots is None:
            return None
        taken = program.frame(frame.leaves, {**symbols, **mapping.symbols_of(frame)})
        for own, other in mapping.inputs:
            taken.inputs[own] = frame.inputs[other]
        taken.slots = slots
        taken.results, taken.arguments, taken.contexts = frame.results, frame.arguments, frame.contexts
        return taken

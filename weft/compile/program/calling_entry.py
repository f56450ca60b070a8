"""A program that calls hooks on its way: its parts run one after the other, and between two of them everything that
the function has done so far is real.

What a part relies on is asked again behind each call, for the hook may have changed it. Then the call goes on in
another program of the function that begins alike, captured there and then if there is none.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from weft.autograd.forward_facts import facts_of
from weft.autograd.function_context import FunctionCtx
from weft.autograd.node import InputMetadata
from weft.autograd.validate import validate
from weft.compile.program.call_plan import Symbols, is_like, target_of
from weft.compile.program.entry import Entry
from weft.compile.program.owner import Owner
from weft.compile.program.parts import Part, Place, read_before
from weft.compile.program.step import Running, Step, called, zero
from weft.guards import Switch
from weft.guards.switches import has_moved, switches_in
from weft.ir.graph import Graph
from weft.programs.argument_histories import Before
from weft.programs.executable import Compiled, Interpreted
from weft.programs.store import Miss
from weft.record.gradients import present_grad
from weft.record.numbers.lifted import NumberInput
from weft.record.python_call import Context, Given, NotCallable, Size
from weft.runtime.program import Interrupted
from weft.runtime.storage import root_of
from weft.support import pytree
from weft.support.errors import VersionError
from weft.tensor.dense import is_dense, payload_of
from weft.tensor.tensor import Tensor
from weft.types import dims as dm

_MOST_ALIKE = 8  # programs for what its hooks change: then the step runs as it is written
Executable = Interpreted | Compiled
_CHANGED = (
    "{where}: this hook changes something that the compiled step has read before it was called; the step stops behind "
    "the hook, and later calls run as they are written. Compile with split=True, which runs Python on each call"
)
_LOST = (
    "{where}: this hook writes a view that it is given, of which the compiled step has made a copy; the step stops "
    "behind the hook, and later calls run as they are written. Compile with split=True, which runs Python on each call"
)
_WRITTEN = (
    "{where}: one of the variables needed for gradient computation has been modified by an inplace operation: this "
    "hook writes a tensor of which the backward still reads what was saved"
)


@dataclass(eq=False)
class CallingEntry(Entry):
    """A program in parts, with the calls between them. slots: what lies in each slot of a call's frame; inputs_are:
    what each input is, both as texts."""

    owner: Owner = field(kw_only=True)
    parts: list[tuple[Part, Executable | None]] = field(default_factory=list)
    calls: list[Step] = field(default_factory=list)
    slots: list[str] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    switches: Sequence[Switch] = ()

    def run(self, leaves: list[Any], symbols: Symbols) -> Any:
        """Run the program on a call that fits."""
        inputs, grads = self.inputs.gather(leaves, symbols)
        hooks = [step.call.current() for step in self.calls]
        running = Running(leaves, inputs, symbols, grads, [None] * len(self.slots), hooks)
        entry: CallingEntry = self
        before = self.outputs.remembered(leaves, inputs)
        number = 0
        while number < len(entry.calls):
            entry._run_to_call(number, running)
            entry._make_call(number, running)
            if not entry._holds(number, running):
                entry = entry._successor(number, running)
            number += 1
        return entry._end(running, before)

    @property
    def programs(self) -> list[tuple[str, Graph, Executable]]:
        """The parts, each with the hook that is called behind it."""
        programs = []
        for number, (part, executable) in enumerate(self.parts):
            if executable is not None and part.graph is not None:
                title = f"part {number + 1}"
                if number < len(self.calls):
                    title += f", up to the hook at {self.calls[number].call.where}"
                programs.append((title, part.graph, executable))
        return programs

    def stages(self) -> dict[str, Any]:
        """Every stage of every part, by name and the part's number."""
        stages: dict[str, Any] = {"captured": self.graph}
        for number, (_, executable) in enumerate(self.parts, 1):
            stages_of_part = {} if executable is None else self.stages_of(executable)
            stages.update((f"{name} {number}", stage) for name, stage in stages_of_part.items())
        return stages

    def _end(self, running: Running, before: Before) -> Any:
        interrupt: Interrupted | None = None
        try:
            results = self._run_part(len(self.calls), running)
        except Interrupted as stop:
            results, interrupt = stop.results, stop
        return self.finish(
            running.leaves, running.inputs, results, running.symbols, running.grads, before, interrupt
        )

    # ---- parts
    def _run_to_call(self, number: int, running: Running) -> None:
        """The part before a call, and what it did made real."""
        try:
            self._run_part(number, running)
        except Interrupted:
            self._settle(number, running)
            raise
        self._settle(number, running)
        self._share(number, running)

    def _run_part(self, number: int, running: Running) -> list[Any]:
        part, executable = self.parts[number]
        if executable is None:
            return []
        inputs, slots = running.inputs, running.slots
        for param, slot in part.saved:
            slots[slot] = inputs[param].copy()
        operands = [inputs[at] if held else slots[at] for held, at in part.reads]
        results = executable.run(operands, running.symbols)
        taken = set(map(id, operands))
        for at, slot in part.kept:
            array = results[at]
            slots[slot] = array.copy() if isinstance(array, np.ndarray) and id(array) in taken else array
            taken.add(id(array))
        return results

    def _settle(self, number: int, running: Running) -> None:
        effects = self.calls[number].effects
        for zeroed in self.calls[number].zeroed:
            zero(present_grad(target_of(zeroed, running.leaves)))
        effects.apply(running.leaves, running.inputs, [], running.symbols, running.grads)
        for effect in effects.grad_effects:
            if effect.param is not None:
                running.grads[effect.param] = present_grad(target_of(effect, running.leaves))

    def _share(self, number: int, running: Running) -> None:
        """Keep what is read behind a call as it is now apart from what Python may write."""
        inputs, slots, part = running.inputs, running.slots, self.parts[number][0]
        for old, slot in part.shared:
            slots[slot] = slots[old]
        for (held, at), slot in part.apart:
            slots[slot] = (inputs if held else slots)[at].copy()

    # ---- calls
    def _make_call(self, number: int, running: Running) -> None:
        step, part = self.calls[number], self.parts[number][0]
        arguments = self._given(step, part, running)
        copies = [x for x, at in zip(arguments, step.call.given, strict=True) if type(at) is Given and at.is_copy]
        hook = running.hooks[number]
        if not self._is_there(number, hook):
            hook = None
        before, copied = step.versions(running.leaves), [x._version for x in copies]
        running.given = pytree.unflatten(arguments, step.call.spec)
        running.found = called(step.call, hook, running.given)
        if step.versions(running.leaves) != before:
            raise VersionError(_WRITTEN.format(where=step.call.where))
        if [x._version for x in copies] != copied:
            raise self._given_up(_LOST.format(where=step.call.where))
        if self._fits(number, running):
            self._take_results(number, running)

    def _fits(self, number: int, running: Running) -> bool:
        """Whether what a forward gave is what the program takes it to be."""
        call = self.calls[number].call
        return call.forward is None or (
            len(running.found) == len(call.likes) and all([
                value.dtype is dtype and value.shape == tuple([dm.evaluate(d, running.symbols) for d in dims])
                for value, (dims, dtype) in zip(running.found, call.likes, strict=True)
            ])
        )

    def _take_results(self, number: int, running: Running) -> None:
        """Put what came back where the next part looks for it."""
        likes = self.calls[number].call.likes
        places = [i for i, like in enumerate(likes) if like is not None]
        for slot, i in zip(self.parts[number][0].made, places, strict=True):
            running.slots[slot] = self._taken(number, i, running)

    def _taken(self, number: int, place: int, running: Running) -> Any:
        """The bytes of a result, row-major, in memory that no part writes; None if there is none."""
        call, value = self.calls[number].call, running.found[place]
        like = call.likes[place]
        if value is None:
            return None
        if isinstance(like, tuple) and call.node is not None:
            dims = tuple([dm.evaluate(d, running.symbols) for d in like[0]])
            value = validate(call.node.name(), place, value, InputMetadata(dims, like[1]))
        array = np.asarray(payload_of(value).materialize("the result of a hook"), order="C")
        root = root_of(array)
        is_shared = any([isinstance(x, np.ndarray) and root_of(x) is root for x in running.inputs])
        return array.copy() if is_shared else array

    def _is_there(self, number: int, hook: Any) -> bool:
        """Whether a hook is to be called: others before it may have removed it, but not one of the same tensor."""
        table = self.calls[number].call.table
        if table is None or (number and self.calls[number - 1].call.table is table):
            return True
        return any([other is hook for other in table.values()])

    def _given(self, step: Step, part: Part, running: Running) -> list[Any]:
        arguments: list[Any] = []
        for i, leaf in enumerate(step.call.given):
            if type(leaf) is Given:
                held, at = part.given[leaf.operand]
                leaf = Tensor(running.inputs[at] if held else running.slots[at])
            elif type(leaf) is Context:
                leaf = running.contexts.setdefault(leaf.number, FunctionCtx(leaf.needs))
            elif type(leaf) is Size:
                leaf = dm.evaluate(leaf.dim, running.symbols)
            arguments.append(running.leaves[step.leaves[i]] if i in step.leaves else leaf)
        return arguments

    # ---- what a hook may have changed
    def _holds(self, number: int, running: Running) -> bool:
        """Whether all is as this program takes it to be behind a call. Gradients that were replaced are taken up, and
        generators from which was drawn."""
        step = self.calls[number]
        if not self._fits(number, running):
            return False
        if any([(running.found[i] is None) is not (step.call.likes[i] is None) for i in step.call.places]):
            return False
        tensors = []
        for effect in step.known:
            tensor = target_of(effect, running.leaves)
            tensors.append(tensor)
            now = present_grad(tensor)
            if (now is None) is not (effect.param is None):
                return False
            if now is None or effect.param is None:
                continue
            if not is_dense(now) or not is_like(now._data, tensor._data) or now._data.shape != tensor._data.shape:
                return False
            running.inputs[effect.param], running.grads[effect.param] = now._data, now
        self.inputs.copy_again(running.leaves, running.inputs, self._read_behind[number])
        resolved = {effect.param for effect in step.known}
        self.inputs.gather_gradients(running.leaves, running.inputs, running.grads, resolved)
        for state in step.call.random:
            state.go_along(running.symbols)
        for source in self._other_numbers(running):
            if source.since <= number:
                return False
            running.symbols[source.key] = source.getter()
            if source.param is not None:
                running.inputs[source.param] = float(source.getter())
        passed = step.call.passed if self.capture.evaluator.walks == 1 else set[int]()
        return step.check() and self.guards.state.holds_within(tensors, passed)

    def _other_numbers(self, running: Running) -> list[NumberInput]:
        """The numbers of Python's state that are not what they were."""
        return [n for n in self.guards.numbers if n.leaf is None and n.getter() != running.symbols[n.key]]

    def _switches(self, number: int, running: Running) -> list[Switch] | None:
        """What changes in Python's state at the calls up to this one; None where that is more than slots."""
        switches = switches_in(self.calls[number].guards, number)
        if switches is None:
            return None
        slots = {slot.key: slot for slot in self.owner.assumptions.lifted_slots}
        for source in self._other_numbers(running):
            slot = next((s for s in slots.values() if s.get == source.getter), None)
            if slot is not None:
                switches.append(Switch(number, slot, running.symbols[source.key], source.getter()))
            elif source.since <= number:
                return None
        changed = {switch.slot.key for switch in switches}
        switches += [Switch(number, s.slot, s.new, s.slot.get()) for s in self._moved_again(number, changed)]
        return [*[s for s in self.switches if s.call < number], *switches]

    def _moved_again(self, number: int, changed: set[Any]) -> list[Switch]:
        """The latest switches of slots that hold something else now."""
        last = {s.slot.key: s for s in self.switches if s.call < number}
        again = [s for s in last.values() if s.slot.key not in changed]
        return [s for s in again if has_moved(s)]

    def _successor(self, number: int, running: Running) -> CallingEntry:
        """The program in which the call goes on, behind call `number`. Raises NotCallable where there is none."""
        owner = self.owner
        with owner.lock:
            self._learn(number, running)
            tensors = [target_of(effect, running.leaves) for effect in self.calls[number].known]
            owner.assumptions = owner.assumptions.after_call(
                number, {i: running.found[i] is None for i in self.calls[number].call.places},
                {id(tensor): present_grad(tensor) is None for tensor in tensors},
            )
            candidates = [e for e in owner.entries if isinstance(e, CallingEntry) and e.guards.spec == self.guards.spec]
            for entry in candidates:
                if entry is not self and entry._takes_over(self, number, running):
                    return entry
            switches = self._switches(number, running)
            successor = None if switches is None else owner.capture_within(self, running.leaves, switches)
            why = _CHANGED.format(where=self.calls[number].call.where)
            if isinstance(successor, CallingEntry) and successor._takes_over(self, number, running):
                owner.keep(successor)
                if len(candidates) >= _MOST_ALIKE:
                    owner.give_up(successor, why)
                return successor
            raise self._given_up(why)

    def _given_up(self, why: str) -> NotCallable:
        """The error of a call that cannot go on; later ones run as they are written."""
        with self.owner.lock:
            self.owner.give_up(self, why)
        return NotCallable(why)

    def _learn(self, number: int, running: Running) -> None:
        forward = self.calls[number].call.forward
        if forward is not None and not self._fits(number, running):
            ctx, args = running.given
            output = running.found[0] if len(running.found) == 1 else tuple(running.found)
            facts = facts_of(ctx, args, output)
            earlier = self.owner.assumptions.forwards[forward]
            assert earlier is not None
            if facts is not None and not (earlier.takes(facts) and earlier.tells(facts)):  # its sizes hang on values
                self.owner.assumptions = self.owner.assumptions.with_forward(forward, facts)

    def _takes_over(self, other: CallingEntry, number: int, running: Running) -> bool:
        """Go on with what another program has computed up to a call, if that is what this one would have."""
        matched = self.guards.symbols_of(running.leaves)
        if len(self.calls) <= number or isinstance(matched, Miss) or self.guards.bound.places:
            return False
        symbols = {**matched, **self._before(other, running)}
        there = {text: slot for slot, text in enumerate(other.slots) if running.slots[slot] is not None}
        held = dict(zip(other.texts, other.parts[number][0].held, strict=True))
        slots: list[Any] = [None] * len(self.slots)
        kept: list[tuple[int, str]] = []
        made_later = set(self.parts[number][0].made).union(*[part.slots_made() for part, _ in self.parts[number + 1 :]])
        for held_there, at in self._read_behind[number]:
            if held_there:
                text = self.texts[at]
                if self.parts[number][0].held[at] != held.get(text, text):
                    return False
                kept.append((at, text))
            elif at not in made_later:
                text = self.slots[at]
                while text not in there and (earlier := read_before(text)) is not None:
                    text = earlier
                if text not in there:
                    return False
                slots[at] = running.slots[there[text]]
        inputs, grads = self.inputs.gather(running.leaves, symbols)
        for at, text in kept:
            if text in other.texts:
                inputs[at] = running.inputs[other.texts.index(text)]
        hooks = [step.call.current() for step in self.calls]
        taken = Running(running.leaves, inputs, symbols, grads, slots, hooks, running.found, running.given)
        if not self._holds(number, taken):
            return False
        self._take_results(number, taken)
        running.inputs, running.symbols, running.grads = taken.inputs, taken.symbols, taken.grads
        running.slots, running.hooks = slots, hooks
        return True

    def _before(self, other: CallingEntry, running: Running) -> Symbols:
        """Symbols that are as they were when the call began: where generators stood, and lifted numbers."""
        symbols = {n.key: running.symbols[n.key] for n in self.guards.numbers if n.key in running.symbols}
        for mine in self.guards.random:
            for its in other.guards.random:
                if mine.generator is its.generator:
                    symbols[mine.key], symbols[mine.offset] = running.symbols[its.key], running.symbols[its.offset]
        return symbols

    @cached_property
    def _read_behind(self) -> list[set[Place]]:
        """For each call, the places that are read behind it."""
        places: list[set[Place]] = [set()]
        for part, _ in self.parts[:0:-1]:
            places.append(places[-1] | part.places_read())
        return places[:0:-1]

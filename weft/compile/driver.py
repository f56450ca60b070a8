"""weft.compile: a function, its captured programs, and the choice between them at each call."""

from __future__ import annotations

import copy
import importlib
import sys
import threading
import time
from collections import defaultdict, deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import Any

from weft.autograd.forward_facts import ForwardFacts
from weft.compile.assumptions import Assumptions, Recording
from weft.compile.methods import NO_CALL, SharedAmongInstances, SharedMethod, is_method, method_of
from weft.compile.object_arguments import ObjectArguments, ObjectCounts
from weft.compile.object_reads import Reader
from weft.compile.program.call_leaves import CallLeaves, objects_of
from weft.compile.program.call_plan import Symbols
from weft.compile.program.entry import Entry
from weft.compile.stepwise import Stepwise, hook_at_fault, run_stepwise, runs_as_written
from weft.compile.tracing import trace
from weft.compile.tracing.python_state import kinds
from weft.guards import Switch
from weft.guards.values import number_kind
from weft.ir.value_numbers import ValueNumbers
from weft.ops.overrides import current_modes, override_classes
from weft.programs.carried import Carried, take, to_carry
from weft.programs.executable import Compiled
from weft.programs.store import Miss, Variants, narrowed
from weft.record.miss_text import miss_text, takes_keywords
from weft.record.restart import Restart
from weft.record.user_code import is_called
from weft.record.wrappers import WrapperMemo, desugar, is_special, resugar
from weft.support import limits, pytree
from weft.support.counters import counters
from weft.support.errors import CaptureError, ValueChanged, ValuesThatWait
from weft.support.function_wrapper import FunctionWrapper
from weft.support.garbage import collection_held
from weft.support.knobs import knobs
from weft.support.progress import progress_shown
from weft.support.seams import exported_step
from weft.tensor import modes as mode_settings
from weft.tensor.dense import is_dense
from weft.tensor.modes import Floor, modes, top_interceptor
from weft.tensor.tensor import Tensor
from weft.tensor.wrapper import wrapper_classes


def _run(entry: Entry, leaves: CallLeaves, symbols: Symbols) -> Any:
    """Run a program on a call that fits, and put its wrappers together."""
    try:
        result = entry.run(leaves, symbols)
        return resugar(result, leaves.memo) if entry.outputs.gives_wrappers else result
    finally:
        leaves.let_go()


class CompiledFunction(FunctionWrapper):
    """A function that runs as captured programs. Attributes of the original function are available on it.

    The first call captures; later calls run the program whose guards hold, and capture anew when none
    does (`counters.guard_misses`).
    """

    calls_hooks = True  # whether programs may have calls of Python's in them, for hooks that no program can repeat

    def __init__(self, function: Callable[..., Any], name: str | None = None, backend: str | None = None) -> None:
        super().__init__(function, name, backend)
        self.entries: Variants[Entry] = Variants(limits.PROGRAMS_OF_A_FUNCTION)
        self.value_numbers = ValueNumbers()
        self.assumptions = Assumptions()  # of the next recording
        # the lengths that containers had which the function adds to, by the line: no container lives longer for it
        self.lengths: defaultdict[Any, set[int]] = defaultdict(set)
        self.misses: deque[str] = deque(maxlen=limits.TEXTS_OF_MISSES)
        self.stepwise: list[Stepwise] = []  # structures of arguments for which it is no program
        self.recording: Recording | None = None  # the latest one
        # whether a program asks which containers of a call are one object, or gives one back
        self.asks_for_containers = False
        self.meets_wrappers = False  # whether arguments, state or results were objects of tensor subclasses
        self.is_order_free = not takes_keywords(function)
        self.objects = ObjectArguments()
        self.shared: SharedMethod | None = None  # of an instance's method: what it has from the function in the class
        self.instances: SharedAmongInstances | None = None  # of a function in a class: what they have for one another
        self.lock = threading.RLock()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if knobs.eager or modes.capture is not None or (modes.special is not None and is_watched()):
            return self.function(*args, **kwargs)
        memo: WrapperMemo | None = None
        if self.shared is not None and self.shared.is_tried_first and not (wrapper_classes or override_classes):
            result = self.shared.by_program(args, kwargs)
            if result is not NO_CALL:
                return result
        leaves, spec = _flatten(*self._callers(args, kwargs))
        # whether any tensor might be of a class with a will of its own
        special = bool(wrapper_classes or override_classes)
        if special:
            if current_modes():
                return self.function(*args, **kwargs)
            if any([type(leaf) is not Tensor and is_special(leaf) for leaf in leaves]):
                self.meets_wrappers, memo = True, WrapperMemo()
                leaves, spec = _flatten(*_desugared(*self._callers(args, kwargs), memo))
        if self.objects:
            return self._call_with_objects(args, kwargs, CallLeaves(leaves, self._callers(args, kwargs), memo), spec)
        if self.meets_wrappers or self.asks_for_containers:
            leaves = CallLeaves(leaves, self._callers(args, kwargs), memo)
        match = self.entries.find(leaves, spec)
        if match is None:
            leaves = CallLeaves(leaves, self._callers(args, kwargs), memo)
            return self.capture_and_run(args, kwargs, leaves, spec)
        entry, call = match
        try:
            return _run(entry, leaves, call) if type(leaves) is CallLeaves else entry.run(leaves, call)
        except ValueChanged:
            return self._run_other(entry, args, kwargs)

    def _call_with_objects(self, args: Any, kwargs: Any, leaves: CallLeaves, spec: pytree.TreeSpec) -> Any:
        """A call in which stand-ins take the places of objects that are others at every call: one at a time."""
        with self.lock:
            try:
                with self.objects.standing_in(leaves):
                    match = self.entries.find(leaves, spec)
                    if match is None:
                        return self.capture_and_run(args, kwargs, leaves, spec)
                    return self.run_match(match, args, kwargs, leaves)
            except ObjectCounts as refusal:  # nothing has run
                stand_ins, is_sure = self.objects.count(leaves), refusal.__cause__ is None
            try:
                return CompiledFunction.__call__(self, *args, **kwargs)
            except Exception:
                if not is_sure:  # it was not their fault
                    self.objects.stand_in_again(stand_ins)
                raise

    def run_match(self, match: tuple[Entry, Any], args: Any, kwargs: Any, leaves: CallLeaves) -> Any:
        """Run a program on a call that fits, some of whose objects have stand-ins."""
        objects, inner = leaves.objects, leaves.inner
        try:
            return _run(match[0], leaves, match[1])
        except ValueChanged:
            return self._run_other(match[0], args, kwargs, objects, inner)

    def _run_other(
        self, tried: Entry, args: Any, kwargs: Any, objects: Mapping[int, Any] = MappingProxyType({}),
        inner: Mapping[Any, Any] = MappingProxyType({}),
    ) -> Any:
        """Run the call in a program for other answers to what Python asks of tensors; captured if there is none.
        objects: those that have stand-ins, by the ids of these; inner: the stand-ins for what those hold."""
        memo = WrapperMemo()
        flat, spec = _flatten(*_desugared(args, kwargs, memo))
        flat = self.objects.with_stand_ins(flat, objects)

        def leaves() -> CallLeaves:
            return CallLeaves(flat, self._callers(args, kwargs), memo, dict(objects), dict(inner))

        for entry, call in self.entries.others(flat, spec, tried):
            with suppress(ValueChanged):
                result = _run(entry, leaves(), call)
                self.entries.used(entry)
                return result
        with self.lock:
            entry = self.capture(flat, spec)
            return self._run_first(entry, leaves(), spec)

    def _callers(self, args: Any, kwargs: Any) -> tuple[Any, Any]:
        """The tree of a call's arguments, in the order in which a program takes them."""
        return args, dict(sorted(kwargs.items())) if len(kwargs) > 1 and self.is_order_free else kwargs

    def capture_and_run(self, args: Any, kwargs: Any, leaves: CallLeaves, spec: pytree.TreeSpec) -> Any:
        """args, kwargs: as they were given; leaves: with wrappers taken apart."""
        if any([isinstance(leaf, Tensor) and not is_dense(leaf) for leaf in leaves]):
            # types alone, or values that wait: another back end takes the operators as they come
            return self.function(*args, **kwargs)
        if self.shared is None:
            return self._by_own_program(args, kwargs, leaves, spec)
        own = partial(self._by_own_program, args, kwargs, leaves, spec)
        return self.shared.call(spec, args, kwargs, self.misses, own)

    def _by_own_program(self, args: Any, kwargs: Any, leaves: CallLeaves, spec: pytree.TreeSpec) -> Any:
        with self.lock:
            match = self.entries.find(leaves, spec)  # another thread may have captured it meanwhile
            if match is not None:
                return _run(match[0], leaves, match[1])
            if self._learn_objects(leaves, spec):
                return CompiledFunction.__call__(self, *args, **kwargs)
            stepwise = next((s for s in self.stepwise if s.spec == spec), None)
            is_program = stepwise is None or stepwise.is_due()
            entry = self._captured(leaves, spec) if is_program else None
            if entry is not None and type(entry.match(leaves, spec)) is Miss:
                # the capture was the first to meet something that weft then settles (a class whose rule came late)
                entry = self._captured(leaves, spec)
            if entry is not None:
                return self._run_first(entry, leaves, spec)
        if any(s.waits for s in self.stepwise if s.spec == spec):
            return self.function(*args, **kwargs)
        result, forwards = run_stepwise(self.function, args, kwargs)
        with self.lock:
            if self._learn(forwards):  # the next call may be a program
                self.stepwise = [s for s in self.stepwise if s.spec != spec]
        return result

    def _learn_objects(self, leaves: CallLeaves, spec: pytree.TreeSpec) -> bool:
        """Whether objects among the arguments have stand-ins from now on, since programs were captured for others."""
        classes, count = kinds(), len(self.objects)
        for entry in self.entries:
            bound = entry.guards.bound
            if entry.guards.spec == spec and bound.take(leaves) is None:
                reader = Reader(entry, classes)
                read = [reader.read_of(old) for old in entry.guards.constants]
                pairs = zip(entry.guards.constants, leaves, strict=False)
                others = [old for old, new in pairs if old is not new and not self.objects.is_stand_in(old)]
                before = self.assumptions.without_places_in(others)
                places = [bound.place_of(i) for i in range(len(leaves))]
                self.assumptions = self.objects.learn(places, read, leaves, classes, before)
                if len(self.objects) > count or self.assumptions is not before:
                    return True
        return False

    def _learn(self, forwards: list[tuple[Any, ForwardFacts | None]]) -> bool:
        """Take up what the forwards of custom Functions gave that a program calls. Whether that is news."""
        called = [facts for function, facts in forwards if is_called(function.forward, self.assumptions.called)]
        return any([self.take_forward(i, facts) for i, facts in enumerate(called) if facts is not None])

    def take_forward(self, number: int, facts: ForwardFacts) -> bool:
        """Take up what one of them gave. Whether that is news."""
        forwards = self.assumptions.forwards
        earlier = forwards[number] if number < len(forwards) else None
        if earlier is not None:
            return earlier.takes(facts)
        self.assumptions = self.assumptions.with_forward(number, facts)
        return True

    def _run_first(self, entry: Entry, leaves: CallLeaves, spec: pytree.TreeSpec) -> Any:
        """Keep a new program, and run it."""
        call = entry.match(leaves, spec)
        if type(call) is Miss:
            raise CaptureError(f"{self.name}: the program just captured does not fit its own arguments: {call.text}")
        self.keep(entry)  # whether or not this run ends well: what fails is a call, not the program
        return _run(entry, leaves, call)

    def lift_arguments(self, places: Sequence[int]) -> None:
        """Take the numbers among the arguments in these places as inputs, from the first call on."""
        lifted = self.assumptions.lifted
        keys = [("leaf", place) for place in places]
        self.assumptions = self.assumptions.lifting({key: None for key in keys if key not in lifted})

    def keep(self, entry: Entry) -> None:
        """Let calls that follow run a program. Where another one fits, that is faster than one that has loops for the
        sake of other sizes."""
        self.meets_wrappers |= entry.meets_wrappers
        self.asks_for_containers |= entry.guards.identity is not None or entry.outputs.gives_containers
        self.entries.add(entry, is_general=entry.capture.has_loops_for_sizes)
        if self.shared is not None:
            self.shared.note(entry)

    def capture_within(
        self, entry: Entry, leaves: list[Any], switches: Sequence[Switch], kept: frozenset[int]
    ) -> Entry | None:
        """A program for a call that is on its way in another one, which does not hold any more; None if there is none.
        switches: what changes in Python's state at the calls; kept: numbers of values that it is to keep for others."""
        assumptions = self.assumptions.fixing(frozenset([switch.slot.key for switch in switches]))
        self.assumptions = replace(assumptions, switches=tuple(switches), kept=kept)
        counters.guard_misses += 1
        try:
            size = entry.guards.spec.size
            arguments = leaves[:size]
            if isinstance(leaves, CallLeaves):
                arguments = CallLeaves(arguments, leaves.tree, leaves.memo, leaves.objects, leaves.inner)
            return self._capture(arguments, entry.guards.spec, self.backend)
        except Exception as error:
            self._say(str(error))
            return None

    def give_up(self, entry: Entry, why: str) -> None:
        """Run calls like those of a program as they are written from now on."""
        spec = entry.guards.spec
        self.entries.remove(lambda entry: entry.guards.spec == spec)
        self.stepwise.append(Stepwise(spec, why))

    def _captured(self, leaves: list[Any], spec: pytree.TreeSpec) -> Entry | None:
        """A new program; None where a custom Function or a hook does what no program can repeat, now and later."""
        self._note_misses(leaves, spec)
        try:
            return self.capture(leaves, spec)
        except Exception as error:
            if objects_of(leaves) and not isinstance(error, ObjectCounts):
                raise ObjectCounts(str(error)) from error  # without stand-ins it may do
            why, waits = self.why_as_written(error), isinstance(error, ValuesThatWait)
            if why is None:
                raise
            if waits or all(s.spec != spec for s in self.stepwise):
                self.stepwise = [*[s for s in self.stepwise if s.spec != spec], Stepwise(spec, why, waits)]
            self._say(why)
            return None
        finally:
            self.forget_users()

    def why_as_written(self, error: Exception) -> str | None:
        """Why calls run as they are written of which a capture has failed so; None where the error is the caller's."""
        if isinstance(error, ValuesThatWait):
            return f"{error} ({self.name} now runs as it is written, its operators traced)"
        recording = self.recording
        if not runs_as_written(error, [] if recording is None else [*recording.hooks, *recording.rules]):
            return None
        return f"{error} ({self.name} now runs as it is written, its backward calls by compiled autograd)"

    def forget_users(self) -> None:
        """Let go of the hooks and rules that the latest capture called: what was wrong with it has been said."""
        self.recording = None

    def _nearness(self, miss: Miss) -> tuple[bool, int, int, bool]:
        """How far a check came; a number that a newer program takes as an input is the last thing to name."""
        is_news = not miss.lift or any(key not in self.assumptions.lifted for key, _ in miss.lift)
        return is_news, miss.depth, miss.leaf or 0, bool(miss.lift)

    def _note_misses(self, leaves: list[Any], spec: pytree.TreeSpec) -> None:
        """Learn from why none of the programs fits a call."""
        reasons = self.entries.reasons(leaves, spec)
        if not reasons:
            return
        counters.guard_misses += 1
        entry, nearest = max(reasons, key=lambda reason: self._nearness(reason[1]))
        self._say(miss_text(nearest, self.function, spec))
        lift = nearest.lift
        if lift and nearest.leaf is not None:  # of an argument: what else changed is an input too
            lift += entry.guards.numbers_of_python()
        assumptions = self.assumptions.lifting_changed(dict(lift))
        self.assumptions = replace(assumptions, changing_sizes=assumptions.changing_sizes.union(nearest.sizes))

    def _say(self, why: str) -> None:  # (a MissText has its remedy)
        """Keep why a call had no program."""
        self.misses.append(why)
        if "guards" in knobs.debug:
            print(f"{self.name}: guard missed: {why}", file=sys.stderr)

    def capture(self, leaves: list[Any], spec: pytree.TreeSpec, backend: str | None = None) -> Entry:
        """Capture one program for these arguments, without running it."""
        self.assumptions = replace(self.assumptions, missing=frozenset())  # nothing is known of a call that begins
        return self._capture(leaves, spec, backend or self.backend)

    def _capture(self, leaves: list[Any], spec: pytree.TreeSpec, backend: str | None) -> Entry:
        """Capture one program for a call that begins, or is on its way."""
        start = time.perf_counter()
        with collection_held(), progress_shown(self.name):
            # which arguments share memory is another question at every capture
            self.assumptions = replace(self.assumptions, static=frozenset(), as_one=frozenset())
            try:
                entry = self._capture_with_retries(leaves, spec, backend)
                self.objects.keep(entry, objects_of(leaves).values())
            finally:
                self.assumptions = replace(self.assumptions, switches=(), missing=frozenset(), kept=frozenset())
        entry.seconds_total = time.perf_counter() - start
        counters.captures += 1
        return entry

    def _capture_with_retries(self, leaves: list[Any], spec: pytree.TreeSpec, backend: str | None) -> Entry:
        """One program. Where the function fails with stand-ins for numbers, perhaps since code in C met one of them,
        it is captured without that one."""
        try:
            return self._capture_with_restarts(leaves, spec, backend)
        except ObjectCounts:
            raise
        except Exception:
            start = self.assumptions
            slots = start.lifted.items()
            lifted = {key: slot for key, slot in slots if slot is None or number_kind(slot.get()) is not None}

            def without(keys: frozenset[Any]) -> tuple[Entry, Assumptions] | None:
                nonlocal start
                self.assumptions = start.without_lifting(keys)
                try:
                    entry = self._capture_with_restarts(leaves, spec, backend)
                except Exception:  # not their fault
                    return None
                finally:
                    learned, self.assumptions = self.assumptions, self.assumptions.lifting(lifted)
                start = self.assumptions
                return entry, learned.fixing(keys)

            match = narrowed(lifted, without)
            if match is None:  # no number is at fault
                raise
            entry, self.assumptions = match
            return entry

    def _capture_with_restarts(self, leaves: list[Any], spec: pytree.TreeSpec, backend: str | None) -> Entry:
        tries, first = 0, None
        while tries < 8:
            recording = self.recording = Recording(self.function, self.name, self.assumptions, self.lengths)
            try:
                return trace.trace_program(recording, self, leaves, spec, backend)
            except Restart as refuted:
                tries += not refuted.lifted
                self.assumptions = self.assumptions.refined(refuted, recording.apart)
            except Exception as error:
                hook = hook_at_fault(error, recording.hooks) if self.calls_hooks else None
                if hook is None or hook in self.assumptions.called:
                    if recording.apart:  # as one memory it may do
                        tries, first = tries + 1, error
                        as_one = self.assumptions.as_one | recording.apart
                        self.assumptions = replace(self.assumptions, as_one=as_one)
                        continue
                    if first is None or self.why_as_written(first) is None:
                        raise
                    raise first from None
                called = (*self.assumptions.called, hook)
                self.assumptions = replace(self.assumptions, called=called, lifted={})  # (what the hook read)
                self._say(f"{error} ({self.name} now calls it between two parts of its program)")
        raise CaptureError(
            f"{self.name}: capture did not settle; a number that the function changes depends on something that "
            "cannot be lifted"
        )

    def stages(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """Every stage of the program for these arguments, by name: captured, opened, optimized,
        ... (graphs and texts)."""
        return self.entry_for(args, kwargs)[0].stages()

    def note_call(self) -> None:
        """A call is made."""

    def leaves_of(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[CallLeaves, pytree.TreeSpec]:
        """The leaves of a call's arguments, wrappers taken apart, and their structure."""
        memo = WrapperMemo()
        tree = self._callers(args, kwargs)
        leaves, spec = _flatten(*_desugared(*tree, memo)) if wrapper_classes or override_classes else _flatten(*tree)
        return CallLeaves(leaves, tree, memo), spec

    def entry_for(
        self, args: tuple[Any, ...], kwargs: dict[str, Any], is_own: bool = False
    ) -> tuple[Entry, Any]:
        """The program that fits a call, captured if there is none, and what its `match` makes of the arguments. is_own:
        of a method, not one that instances share."""
        leaves, spec = self.leaves_of(args, kwargs)
        with self.lock, self.objects.standing_in(leaves):
            match = self.entries.find(leaves, spec)
            if match is None and self.shared is not None and not is_own:
                match = self.shared.match(args, kwargs)
            if match is not None:
                return match
            entry = self.capture(leaves, spec)
            return entry, entry.match(leaves, spec)

    def export(self, path: str, args: Sequence[Any] = (), kwargs: dict[str, Any] | None = None, **options: Any) -> Any:
        """Write a program as files that need no Python: object code, a header of C, a manifest and the state
        (docs/shipping.md; weft.export.write.export_step has the options: target, threads, bounds, shared)."""
        return exported_step(self, path, args, kwargs, **options)

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else method_of(self, instance)

    def __deepcopy__(self, memo: dict[int, Any]) -> CompiledFunction:
        """A copy (of a bound method: of the copied object's) that captures anew; a plain function is its own copy."""
        if is_method(self):
            copied: CompiledFunction = getattr(copy.deepcopy(self.function.__self__, memo), self.__name__)  # type: ignore[attr-defined]
            return copied
        return type(self)(copy.deepcopy(self.function, memo), self.name, self.backend)

    def __copy__(self) -> CompiledFunction:
        """A function that captures anew; one that is found by its name, or on its instance, is its own copy."""
        return self if is_method(self) or self.is_under_its_name else type(self)(self.function, self.name, self.backend)

    def __reduce__(self) -> Any:
        """Pickled by name where a module has it under its name, a method as its instance's attribute, others as
        function and back end; with the code of its programs, so that they are not compiled anew."""
        programs = self.programs_to_carry()
        if is_method(self):
            return (with_programs, (programs, getattr, self.function.__self__, self.__name__))  # type: ignore[attr-defined]
        if self.is_under_its_name:
            name: str = getattr(self, "__qualname__", "")
            return name if programs is None else (with_programs, (programs, by_name, self.__module__, name))
        return (with_programs, (programs, type(self), self.function, self.name, self.backend))

    def programs_to_carry(self) -> Carried | None:
        """The code of its programs, for another process; None where there is none."""
        executables = [executable for entry in self.entries for executable in entry.executables]
        return to_carry([e.to_carry() for e in executables if isinstance(e, Compiled)])

    def __repr__(self) -> str:
        return f"<compiled {self.name}: {len(self.entries)} program(s)>"


def with_programs(programs: Carried | None, make: Callable[..., Any], *args: Any) -> Any:
    """What a pickle of a compiled function becomes: what `make` makes, with these programs at hand."""
    take(programs)
    return make(*args)


def by_name(module: str, name: str) -> Any:
    """What a module has under a name; None where it has nothing."""
    value: Any = sys.modules.get(module)
    value = importlib.import_module(module) if value is None else value
    for part in name.split("."):
        value = getattr(value, part, None)
    return value


def is_watched() -> bool:
    """Whether transforms or dispatch modes stand above the back end: they see the operators of the function,
    not one program."""
    top = top_interceptor()
    if top is None or top is mode_settings.inference_layer:
        return False
    return not isinstance(top, Floor) or top.stays


_FLAT: dict[int, pytree.TreeSpec] = {}
_ENDLESS = (
    "an argument of a compiled function holds itself, or is nested as deep as Python's recursion limit: give its "
    "parts, or read it from where the function finds it by itself"
)


def _desugared(args: tuple[Any, ...], kwargs: dict[str, Any], memo: WrapperMemo) -> Any:
    """The arguments, wrappers taken apart. Raises CaptureError for a container that holds itself."""
    try:
        return desugar((args, kwargs), memo)
    except RecursionError as error:
        raise CaptureError(_ENDLESS) from error


def _flatten(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[list[Any], pytree.TreeSpec]:
    """pytree.flatten((args, kwargs)), with one structure object for calls that pass no containers. Raises CaptureError
    for a container that holds itself."""
    if kwargs or any([type(a) is not Tensor and pytree.is_node(a) for a in args]):
        try:
            return pytree.flatten((args, kwargs))
        except RecursionError as error:
            raise CaptureError(_ENDLESS) from error
    spec = _FLAT.get(len(args))
    if spec is None:
        spec = _FLAT[len(args)] = pytree.flatten((args, kwargs))[1]
    return list(args), spec

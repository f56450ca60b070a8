"""Compiled methods: one program for all instances of a class where that can be, else programs of each instance, which
live and die with it.

A program's guards and state hold the instance; were the programs held by the class, no instance would ever go.
So they hang on the instance, as functools.cached_property's values do, and the garbage collector sees one cycle.
The machine code below is shared (live_programs.py).

What the program of one instance has read is noted, without the values. Where the next instance that has no program is
like it, its call is one of the function in the class, with the instance as an argument that has a stand-in
(object_arguments.py). A program that is made so holds no instance. Where it holds nothing else that instances hold (a
model, an object of settings) the class keeps it; other ones are kept by the instances that use them.
"""

from __future__ import annotations

import functools
import weakref
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from types import MethodType
from typing import TYPE_CHECKING, Any, Final

from weft.compile.methods_of_instance import PLACE, Methods
from weft.compile.object_arguments import ObjectCounts
from weft.compile.object_reads import ObjectRead, Reader, can_stand_in, has_plain_keys, without_keys
from weft.compile.program.entry import Entry
from weft.compile.tracing.python_state import kinds
from weft.guards.slots import Key, Slot
from weft.programs.store import Variants
from weft.support import limits, pytree
from weft.tensor.modes import modes

if TYPE_CHECKING:
    from weft.compile.driver import CompiledFunction

NO_CALL: Final = object()  # a call has not been made


def method_of(compiled: CompiledFunction, instance: Any) -> Any:
    """What a compiled function of a class is on one of its instances."""
    held = getattr(instance, "__dict__", None)
    # __slots__, or a class; or it becomes a part of the program that is captured
    if type(held) is not dict or modes.capture is not None:
        return functools.partial(compiled, instance)
    methods = held.get(PLACE)
    if methods is None:
        methods = held.setdefault(PLACE, Methods())
    method = methods.of.get(compiled)
    if method is None or method.function.__self__ is not instance:
        if method is not None:  # a shallow copy has the attributes of the other
            methods = held[PLACE] = Methods()
        bound = type(compiled)(MethodType(compiled.function, instance), compiled.name, compiled.backend)
        if can_stand_in(instance, kinds()) and not pytree.is_node(instance):
            bound.shared = SharedMethod(bound, compiled)
            bound.entries = ProgramsOfMethod(bound.shared)
        method = methods.of.setdefault(compiled, bound)
    return method


def is_method(compiled: CompiledFunction) -> bool:
    """Whether it was made by `method_of`."""
    instance = getattr(compiled.function, "__self__", None)
    methods = getattr(instance, "__dict__", {}).get(PLACE)
    return methods is not None and any(method is compiled for method in methods.of.values())


@dataclass(frozen=True, eq=False)
class CallRead:
    """What the program for a call of an instance's has read of the instance and of the arguments. spec: of those."""

    spec: pytree.TreeSpec
    objects: tuple[ObjectRead | None, ...]


@dataclass(eq=False)
class SharedAmongInstances:
    """What instances have for one another. reads: what the latest programs of instances have read; kept: the
    programs made of stand-ins that instances keep."""

    reads: deque[CallRead] = field(default_factory=lambda: deque(maxlen=limits.READS_OF_A_METHOD))
    kept: list[weakref.ref[Entry]] = field(default_factory=list)

    def note(self, spec: pytree.TreeSpec, objects: Sequence[ObjectRead | None]) -> None:
        """Take up what the program for a call has read of the instance and the arguments."""
        if objects and objects[0] is not None and has_plain_keys(spec):
            self.reads.append(CallRead(spec, tuple(map(without_keys, objects))))

    def alive(self) -> Iterator[Entry]:
        """The programs that instances keep."""
        entries = [entry for ref in self.kept if (entry := ref()) is not None]
        self.kept = [weakref.ref(entry) for entry in entries]
        return iter(entries)


class SharedMethod:
    """What the method of an instance has from the function in its class, the owner. programs: those that the owner does
    not keep; lifted: places in what the instance holds that are inputs of programs."""

    def __init__(self, method: CompiledFunction, owner: CompiledFunction) -> None:
        self.instance = method.function.__self__  # type: ignore[attr-defined]
        self.owner, self.programs, self.lifted = owner, list[Entry](), dict[Key, Slot | None]()
        self.is_tried_first = False  # whether the latest call ran in a shared program
        if owner.instances is None:
            owner.instances = SharedAmongInstances()
        self.instances = owner.instances

    def note(self, entry: Entry) -> None:
        """Take up what a program of the instance's own has read."""
        values = [self.instance, *entry.guards.constants[: entry.guards.spec.size]]
        reader = Reader(entry, kinds())
        with suppress(RecursionError):  # a list that holds itself, or very many objects one in the other
            self.instances.note(entry.guards.spec, [reader.read_of(value) for value in values])

    def call(
        self, spec: pytree.TreeSpec, args: Any, kwargs: Any, misses: deque[str], own: Callable[[], Any]
    ) -> Any:
        """Make a call for which the instance has no program of its own in one that it shares; where that cannot be, by
        `own`. spec: of the arguments; misses: takes up why no program fits."""
        self.is_tried_first = False
        owner, arguments = self.owner, (self.instance, *args)
        if not owner.objects and not self.instances.reads:
            return own()
        owner.note_call()
        try:
            with owner.lock, owner.entries.with_also(self.programs, self._is_of_instances):
                result = self._by_program(arguments, kwargs)
                if result is NO_CALL and self._is_alike(spec, arguments, kwargs):
                    result = self._by_capture(arguments, kwargs, misses)
        except ObjectCounts as refusal:  # nothing has run
            stand_ins, is_sure = refusal.stand_ins, refusal.__cause__ is None
            try:
                return own()
            except Exception:
                if not is_sure:  # it was not their fault
                    owner.objects.stand_in_again(stand_ins)
                raise
        if result is NO_CALL:
            return own()
        self.is_tried_first = True
        return result

    def by_program(self, args: Any, kwargs: Any) -> Any:
        """Make a call in one of the shared programs that there are; NO_CALL where none fits."""
        with self.owner.lock, self.owner.entries.with_also(self.programs, self._is_of_instances):
            return self._by_program((self.instance, *args), kwargs)

    def match(self, args: Any, kwargs: Any) -> Any:
        """The shared program that fits a call, and what it makes of the arguments; None where there is none."""
        owner = self.owner
        leaves, spec = owner.leaves_of((self.instance, *args), kwargs)
        with (
            owner.lock, owner.entries.with_also(self.programs, self._is_of_instances),
            owner.objects.standing_in(leaves),
        ):
            return owner.entries.find(leaves, spec)

    def _by_program(self, args: Any, kwargs: Any) -> Any:
        """Make a call in one of the programs that there are."""
        owner = self.owner
        if not owner.objects:
            return NO_CALL
        leaves, spec = owner.leaves_of(args, kwargs)
        with owner.objects.standing_in(leaves):
            match = owner.entries.find(leaves, spec) or self._find_kept(leaves, spec)
            return NO_CALL if match is None else owner.run_match(match, args, kwargs, leaves)

    def _find_kept(self, leaves: list[Any], spec: pytree.TreeSpec) -> tuple[Entry, Any] | None:
        """A program that another instance keeps; this one keeps it, too."""
        for entry in self.instances.alive():
            match = self.owner.entries.taken(entry, leaves, spec)
            if match is not None:
                return entry, match
        return None

    def _is_alike(self, spec: pytree.TreeSpec, args: Any, kwargs: Any) -> bool:
        """Whether an instance for which there is a program is like this one. What differs has stand-ins, or is an
        input, from now on."""
        owner, classes = self.owner, kinds()
        leaves = owner.leaves_of(args, kwargs)[0]
        for read in [read for read in self.instances.reads if read.spec == spec]:
            pairs = list(zip(read.objects, leaves, strict=True))
            if any(old is not None and old.same() is self.instance for old, _ in pairs[:1]):
                continue
            if not all(old is None or old.is_alike(leaf, classes) for old, leaf in pairs):
                continue
            places = range(len(leaves))
            owner.assumptions = owner.objects.learn(places, read.objects, leaves, classes, owner.assumptions)
            if owner.objects.has_stand_in(0, self.instance):
                return True
        return False

    def _by_capture(self, args: Any, kwargs: Any, misses: deque[str]) -> Any:
        """Make a call in a new program that is made of stand-ins. Raises ObjectCounts where they do not do."""
        owner = self.owner
        said = owner.misses
        owner.misses = deque(maxlen=said.maxlen)
        owner.assumptions = owner.assumptions.lifting(self.lifted)
        leaves, spec = owner.leaves_of(args, kwargs)
        try:
            with owner.objects.standing_in(leaves):
                if id(leaves[0]) not in leaves.objects:
                    return NO_CALL
                return owner.capture_and_run(args, kwargs, leaves, spec)
        except ObjectCounts as refusal:
            refusal.stand_ins = owner.objects.count(leaves)
            raise
        finally:
            misses.extend(owner.misses)
            said.extend(owner.misses)
            owner.misses = said
            lifted = owner.assumptions.lifted.items()
            self.lifted = {key: slot for key, slot in lifted if not owner.objects.is_anybodys(slot)}
            owner.assumptions = owner.assumptions.without_lifting(frozenset(self.lifted))

    def _is_of_instances(self, entry: Entry) -> bool:
        """Whether the class does not keep a new program, but the instance."""
        if not self.owner.objects.holds_others(entry, kinds()):
            return False
        if all(entry is not other for other in self.instances.alive()):
            self.instances.kept.append(weakref.ref(entry))
        return True


class ProgramsOfMethod(Variants[Entry]):
    """The programs of an instance's method: as a sequence, its own ones, and those that it shares."""

    __slots__ = ("_shared",)

    def __init__(self, shared: SharedMethod) -> None:
        super().__init__(limits.PROGRAMS_OF_A_FUNCTION)
        self._shared = shared

    def _all(self) -> list[Entry]:
        shared = self._shared
        objects = shared.owner.objects
        of_class = [e for e in shared.owner.entries if objects.is_for(e, shared.instance)]
        return [*self._programs, *shared.programs, *[e for e in of_class if e not in shared.programs]]

    def __len__(self) -> int:
        return len(self._all())

    def __iter__(self) -> Iterator[Entry]:
        return iter(self._all())

    def __getitem__(self, index: int) -> Entry:
        return self._all()[index]

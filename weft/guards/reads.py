"""The read-set: what the code that ran can have read, resolved without running user code."""

from __future__ import annotations

import abc
import functools
import gc
import sys
import types
import weakref
from collections import ChainMap, UserDict, UserList, defaultdict, deque
from collections.abc import Callable, Mapping
from types import FunctionType
from typing import Any, Final, NoReturn

import numpy as np

from weft.guards.asked import AMBIENT, content_of, module_of, settings_now
from weft.guards.class_reads import DESCRIPTORS
from weft.guards.effects import PASS_IN, PASS_ITEM, SideEffectError, builtin_deed, caller_deed, is_foreign, refusal
from weft.guards.guard import FunctionGuard, TypeGuard
from weft.guards.held import CALLED, HOLDING, called_by, is_own, note_attribute, note_settings
from weft.guards.hidden_guard import AnswerGuard, results_in
from weft.guards.kinds import BORING, CONTAINERS, Kind, Kinds, content_of_cell, is_changeable, parts_of, pointed_to
from weft.guards.leaf_reads import LeafReads, overrides_instances
from weft.guards.origin import INTERNAL, USER
from weft.guards.rewrite import original
from weft.guards.slots import (
    GONE,
    AttributeSlot,
    ClassSlot,
    ContextSlot,
    GlobalSlot,
    HiddenSlot,
    ItemSlot,
    Key,
    Slot,
    class_lookup,
    counted,
    instance_dict,
    is_slot,
)
from weft.guards.snapshots import (
    ArrayContent,
    BufferContent,
    Contents,
    Drawn,
    Entry,
    OpaqueContent,
    RandomState,
    copied,
    count_from_the_start,
    position,
    said_state,
    state_of,
)
from weft.guards.values import MISSING, key_text
from weft.support.locations import Location
from weft.support.refusals import in_user_call

_WRAPPED: Final = (ChainMap, UserDict, UserList)  # containers of Python's that are written in Python, around another
_CLOSED: Final = frozenset({
    Kind.ARRAY, Kind.BUFFER, Kind.VIEW, Kind.VARIABLE, Kind.RANDOM, Kind.CACHE,
    Kind.PARTIAL, Kind.ITERATOR, Kind.BUILTIN, Kind.TUPLE, Kind.OPAQUE,
})
_IN_C: Final = (types.GetSetDescriptorType, types.MemberDescriptorType)
_SAID_BY_FUNCTIONS: Final = frozenset(str.split(
    "__name__ __qualname__ __doc__ __module__ __annotations__ __closure__ __defaults__ __kwdefaults__ __code__ "
    "__globals__ __type_params__ __builtins__"
))
_NOT_SAID: Final = frozenset({"__dict__", "__class__", "__weakref__", "shape", "dtype", "ndim", "size", "nbytes"})
_STATES: Final = frozenset(str.split("get_state getstate state bit_generator __getstate__ __reduce__ __copy__"))
_ARRAY_LIMIT: Final = 1 << 20  # bytes; a larger array is guarded by identity alone


class Reads(LeafReads):
    """What has been read so far, each thing with its value when it was first seen.

    known: objects older than the call, because a chain of reads leads to them;
    tentative: objects met in frames by another way, which are older or were made by the call itself.
    is_strict: whether what could not be put back, or not be compared at the next call, is refused where it is met.
    """

    def __init__(self, kinds: Kinds, lifted: Mapping[Key, Any], is_strict: bool = False) -> None:
        super().__init__()
        self.is_strict = is_strict
        self.kinds, self.lifted = kinds, dict(lifted)
        self.entries: dict[Key, Entry] = {}
        self.items: dict[int, list[Entry]] = {}  # entries of items, by the container that holds them
        self.containers: dict[int, Contents] = {}
        self.types: dict[int, TypeGuard] = {}
        self.functions: dict[int, FunctionGuard] = {}
        self.by_code: dict[int, list[FunctionType]] = {}
        self.shadows: dict[int, tuple[dict[str, Any], dict[str, Location]]] = {}
        self.arrays: dict[int, ArrayContent] = {}
        self.caches: dict[int, tuple[Any, Location, str]] = {}
        self.registries: dict[int, tuple[Any, Location]] = {}
        self.references: dict[int, tuple[Any, bool, Location, str]] = {}
        self.weak: dict[int, Any] = {}  # the reference by which an object was found, by the object's id
        self.randoms: dict[int, RandomState] = {}
        self.drawn: dict[int, Drawn] = {}
        self.leaves: dict[int, Any] = {}  # what is never opened, for those who know what to ask of it
        self.known: dict[int, Any] = {}
        self.tentative: dict[int, Any] = {}
        self.fresh: dict[int, Any] = {}  # objects that the call made, since it initialised them: never guarded
        self.exempt: set[int] = set()  # containers of the arguments, whose structure is the caller's to guard
        self.mutations: dict[int, list[Location]] = {}
        self.answers: dict[tuple[int, str], AnswerGuard] = {}
        self.opaques: dict[int, OpaqueContent] = {}
        self.settings_before = settings_now()
        self.passing: dict[int, Callable[[], Any]] = {}  # how to come to objects that are made when they are asked for
        self.refused: SideEffectError | None = None
        self.asks_identity = self.asks_id = False  # the user's code asks which of two objects one is, and calls id()
        self._noted: set[int] = set()

    # values
    def is_known(self, value: Any) -> bool:
        """Whether the object is older than the call for certain."""
        return id(value) in self.known

    def meet(self, value: Any) -> bool:
        """Keep an object found in a frame alive; whether it is known."""
        if id(value) in self.known:
            return True
        if id(value) not in self.fresh:
            self._not_led_to(value)[id(value)] = value
        return False

    def _not_led_to(self, value: Any) -> dict[int, Any]:
        """Where an object belongs that no chain of reads led to."""
        return self.fresh if issubclass(type(value), self.kinds.made) else self.tentative

    def own(self, value: Any) -> None:
        """The call itself has put a value where it was found: unless a chain of reads led to it, the call made it."""
        if id(value) not in self.known and self.kinds.of(value) not in BORING:
            self.fresh[id(value)] = value
            self.tentative.pop(id(value), None)

    def is_changed(self, container: Any) -> bool:
        """Whether the call made a container, or has changed what it holds."""
        contents = self.containers.get(id(container))
        return id(container) in self.fresh or (contents is not None and contents.changed())

    def note(self, value: Any, text: str, where: Location, sure: bool = True) -> None:
        """A value that was read: keep it, and guard what hangs on its being read (code, modules, array content)."""
        kind = self.kinds.of(value)
        if kind is Kind.LEAF:
            self.leaves[id(value)] = value
        deed = caller_deed(value)
        if deed is not None and self.is_strict and is_foreign(value):  # (what it draws nobody puts back)
            self._refuse(*deed, where)
        self.refused = refusal(deed, where) or self.refused
        if kind in BORING:
            return
        if not sure and id(value) not in self.known:
            self._not_led_to(value)[id(value)] = value
            return
        self.known[id(value)] = value
        self.tentative.pop(id(value), None)
        if id(value) in self._noted:
            return
        self._noted.add(id(value))
        if kind is Kind.FUNCTION:
            self.function(value, where)
        elif kind is Kind.MODULE:
            self.module(value, text, where)
        elif kind is Kind.ARRAY:
            self.array(value, text, where)
        elif kind is Kind.BUFFER:
            self.arrays[id(value)] = BufferContent(value, memoryview(value).tobytes(), where, text)
            for pointee in pointed_to(value):
                self.note(pointee, f"{text}.contents", where)
        elif kind is Kind.OPAQUE:
            self.opaque(value, text, where)
        elif kind is Kind.VIEW:
            self.view(value, text, where)
        elif kind is Kind.VARIABLE:
            if self.kinds.of(held := self.entry(ContextSlot(value, "value", text), where)) in CONTAINERS:
                self.structure(held, f"{text}.get()", where)
        elif kind is Kind.CACHE:
            self.caches[id(value)] = (value, where, text)
            for part in (value.__wrapped__, *results_in(value)):
                self.note(part, text, where)
        elif kind is Kind.CLASS:
            self.order(value, where)
            if isinstance(value, abc.ABCMeta):
                self.registries[id(value)] = (value, where)
        elif kind is Kind.ITERATOR:
            self._strictly("comes upon an iterator that existed before the call", where)
            self.drawn[id(value)] = Drawn(value, position(value), where, text)
        elif kind is Kind.RANDOM:
            self.random(value, text, where)
        else:
            self._parts(kind, value, text, where)

    def _parts(self, kind: Kind, value: Any, text: str, where: Location) -> None:
        """What an object leads to at once."""
        if kind is Kind.REFERENCE:
            self.behind(value, text, where)
        for inner in called_by(self.kinds, value):
            self.note(inner, text, where)
        if kind is Kind.METHOD and is_own(self.kinds, value.__self__):
            note_settings(self, value.__self__, f"{text}.__self__", where)
        for inner, name in parts_of(kind, value, text):
            self.note(inner, name, where)
            if kind is not Kind.TUPLE:
                self.draws_from(inner, where)
        if isinstance(value, _WRAPPED):
            inside = value.maps if isinstance(value, ChainMap) else value.data
            self.structure(inside, f"{text}.{'maps' if isinstance(value, ChainMap) else 'data'}", where)
        if kind is Kind.PARTIAL:
            for name in ("func", "args", "keywords"):
                self.answer(functools.partial(getattr, value, name), value, name, f"{text}.{name}", where)
            self.structure(value.keywords, f"{text}.keywords", where)
            for key in value.keywords:
                self.entry(ItemSlot(value.keywords, key, f"{text}.keywords[{key!r}]"), where)
            for item in (value.func, *value.args, *value.keywords.values()):
                self.draws_from(item, where)
                if self.kinds.of(item) is Kind.BUILTIN:
                    self.refused = refusal(builtin_deed(item), where) or self.refused

    def array(self, value: Any, text: str, where: Location) -> None:
        """A NumPy array: its content, and what objects in it and an array of a subclass hold besides."""
        if value.nbytes <= _ARRAY_LIMIT:
            self.arrays[id(value)] = ArrayContent(value, value.copy(), where, text)
        else:
            self._strictly("comes upon a large NumPy array, whose content is not compared", where)
        if value.dtype.hasobject:
            for i, item in enumerate(value.ravel().tolist()):
                self.note(item, f"{text}[{i}]", where)
                if self.kinds.of(item) in CONTAINERS:
                    self.structure(item, f"{text}[{i}]", where)
        for name in list(instance_dict(value)):
            self.entry(AttributeSlot(value, name, f"{text}.{name}"), where)

    def opaque(self, value: Any, text: str, where: Location) -> None:
        """An object written in C: what it holds, and what that holds."""
        content = self.opaques[id(value)] = OpaqueContent(value, content_of(value), where, text)
        if content.before is MISSING:
            self._strictly(f"comes upon a {type(value).__name__}, of which nobody can tell when it changes", where)
        pending = [content.before]
        while pending:
            each = pending.pop()
            if type(each) in (tuple, list, dict):
                pending.extend(each.values() if type(each) is dict else each)
            elif self.kinds.of(each) is Kind.OPAQUE:
                self.note(each, text, where)

    def _strictly(self, deed: str, where: Location) -> None:
        """Raises SideEffectError, unless such things are looked at behind the call."""
        if self.is_strict:
            self._refuse(deed, PASS_IN, where)

    def draws_from(self, value: Any, where: Location) -> None:
        """Code that this leads to may take from an iterator."""
        if self.kinds.of(value) is Kind.ITERATOR and id(value) in self.drawn:
            self.drawn[id(value)].used = True
            self.refuse_to_take(where)
        elif self.kinds.of(value) is Kind.INSTANCE and module_of(type(value)) == "numpy" and self.is_known(value):
            note_settings(self, value, type(value).__name__, where)

    def refuse_to_take(self, where: Location) -> None:
        """Code is about to take from an iterator. In a hook or rule it is refused before: a program calls that instead,
        and what the capture had taken would be missing there. Raises SideEffectError."""
        if in_user_call():
            self._refuse("draws from an iterator that existed before the call", PASS_ITEM, where)

    def _refuse(self, deed: str, remedy: str, where: Location) -> NoReturn:
        self.refused = SideEffectError(where, deed, remedy)
        raise self.refused

    def answer(
        self, ask: Callable[[], Any], holder: object, name: str, text: str, where: Location,
        quick: Callable[[], Any] | None = None,
    ) -> Any:
        """What Python says now, in answer to a question that is asked again at every call; MISSING for none."""
        key = (id(holder), name)
        if key not in self.answers:
            try:
                begun = self.settings_before.get(ask, MISSING)
                guard = AnswerGuard(ask, holder, where, text, self.kinds.equal, quick, begun)
            except Exception:  # there is nothing under that name
                return MISSING
            self.answers[key] = guard
        before = self.answers[key].before
        if not self.answers[key].is_steady:  # another object each time: what is asked of it is asked of the next one
            before = self.answers[key].before = ask()
            self.passing[id(before)] = ask
        self.note(before, text, where)
        return before

    def told(self, obj: Any, name: str, path: str, where: Location) -> Any:
        """An attribute that code in C gives."""
        if name in _NOT_SAID or isinstance(class_lookup(type(obj), name)[1], (FunctionType, property)):
            return MISSING
        source = self.passing.get(id(obj))
        ask = functools.partial(getattr, obj, name) if source is None else lambda: getattr(source(), name)
        value = self.answer(ask, obj, name, path, where)
        return MISSING if isinstance(value, types.BuiltinMethodType | types.MethodWrapperType) else value

    def ambient(self, value: Any, where: Location) -> None:
        """A value belongs to a module that computes by settings of this thread."""
        is_named = issubclass(type(value), (type, types.ModuleType, types.BuiltinFunctionType))
        module = module_of(value if is_named else type(value))
        for text, ask, quick in AMBIENT.get(module, ()):
            self.answer(ask, ask, "()", text, where, quick)

    def view(self, view: Any, text: str, where: Location) -> None:
        """The container behind a view, which Python names nowhere."""
        for inner in gc.get_referents(view):
            if self.kinds.of(inner) in CONTAINERS:
                self.note(inner, text, where)
                self.structure(inner, text, where)

    def behind(self, reference: Any, text: str, where: Location) -> None:
        """A weak reference: whether what it refers to still lives.
        Nothing that it leads to is kept alive by a guard."""
        referent = reference()
        self.references[id(reference)] = (reference, referent is not None, where, text)
        if isinstance(reference, weakref.WeakMethod) and referent is not None:
            self.note(referent.__func__, text, where)
            referent = referent.__self__
            reference = weakref.ref(referent)
        if referent is not None and id(referent) not in self.known:
            self.weak[id(referent)] = reference

    def random(self, generator: Any, text: str, where: Location) -> None:
        """Remember where a random generator stands."""
        state = self.randoms.get(id(generator))
        if state is None:
            self.randoms[id(generator)] = RandomState(generator, state_of(generator), where, text)
        elif state.is_everybodys:  # now it is known who draws
            state.where, state.text, state.is_everybodys = where, text, False

    def asked_state(self, generator: Any, name: str, path: str, where: Location) -> None:
        """A name of a random generator: of some, code asks where it stands, and goes by that without a draw."""
        if name in _STATES:
            self.answer(functools.partial(said_state, generator), generator, "state", path, where)

    def everybodys_generators(self, where: Location) -> None:
        """Remember where the generators stand that functions of `random` and `numpy.random` draw from: they are reached
        without a name."""
        if "random" in sys.modules:
            self._everybodys(sys.modules["random"]._inst, "random", where)
        if "numpy.random" in sys.modules:
            self._everybodys(np.random.mtrand._rand, "numpy.random", where)

    def _everybodys(self, generator: Any, text: str, where: Location) -> None:
        if id(generator) not in self.randoms:
            self.random(generator, text, where)
            self.randoms[id(generator)].is_everybodys = True

    def function(self, function: FunctionType, where: Location) -> None:
        """Guard a user's function; of a wrapper that is not the user's, the functions it closes over."""
        if self.kinds.origins.of_file(function.__code__.co_filename) != USER:
            for cell in function.__closure__ or ():
                inner = content_of_cell(cell)
                if callable(inner) and self.kinds.of(inner) in CALLED:
                    if is_own(self.kinds, inner):  # a setting that decorates
                        note_settings(self, inner, type(inner).__name__, where)
                    self.note(inner, getattr(inner, "__qualname__", "function"), where)
                if self.kinds.of(inner) is Kind.DICT and function.__qualname__ == "singledispatch.<locals>.dispatch":
                    self.structure(inner, "what singledispatch registers", where)
            return
        self.functions[id(function)] = FunctionGuard(function, where)
        self.by_code.setdefault(id(original(function.__code__)), []).append(function)
        for value in (*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()):
            self.note(value, f"default argument of {function.__qualname__}", where)

    def module(self, module: Any, text: str, where: Location) -> None:
        """Guard a Module: class, mode, structure, forward, and of weft's own modules every plain setting;
        then its submodules."""
        self.types[id(module)] = TypeGuard(module, where, text, self.kinds)
        for name in ("training", "forward"):
            self.attribute(module, name, text, where)
        for name in ("__call__", "__getattr__"):
            self.class_value(type(module), name, class_lookup(type(module), name)[1], where)
        internal = self.kinds.origins.of_module(type(module).__module__) == INTERNAL
        for name, value in list(instance_dict(module).items()):
            if self.kinds.of(value) is Kind.DICT and self.kinds.is_structure(name):
                self.entry(AttributeSlot(module, name, f"{text}.{name}"), where)
                self.structure(value, f"{text}.{name}", where, module, text)
            elif internal and self.kinds.of(value) in (Kind.SCALAR, Kind.TUPLE, Kind.SYMBOL):
                self.entry(AttributeSlot(module, name, f"{text}.{name}"), where)
            elif internal and self.kinds.of(value) in (*HOLDING, Kind.LEAF) and not name.startswith("_"):
                note_attribute(self, module, name, text, where, set())

    def structure(
        self, container: Any, text: str, where: Location, module: Any = None, names: str = "", deeply: bool = True
    ) -> None:
        """Guard a container's keys and items; `deeply`: and what those hold. `module`: the Module whose dict it is."""
        if type(container) is dict and "__builtins__" in container and "__name__" in container:
            self.scope(container, where)
            return
        if issubclass(type(container), defaultdict):
            self.attribute(container, "default_factory", text, where)
        is_new, contents = id(container) not in self.containers, self.grown(container, text, where)
        if is_new or not (contents.guarded or id(container) in self.exempt):
            if isinstance(container, (list, deque)) and len(container) == len(contents.before):
                count_from_the_start(self.entries, container)
            contents.guarded, contents.owner = id(container) not in self.exempt, module
        elif not deeply or contents.deeply:
            return
        contents.deeply, before = deeply, contents.before
        for key, item in before.items() if isinstance(before, dict) else enumerate(before):
            name = f"{names}.{key}" if names else f"{text}[{key_text(key)}]"
            self.note(item, name, where)
            if deeply and self.kinds.of(item) in CONTAINERS:
                self.structure(item, name, where)

    def scope(self, scope: dict[str, Any], where: Location) -> None:
        """All globals of a module: which there are, and what each is."""
        names = f"the names of globals of {scope['__name__']}"
        self.answer(functools.partial(list, scope), scope, "names", names, where)
        for name in list(scope):
            if not name.startswith("__"):
                self.entry(GlobalSlot(scope, name, f"global {name}"), where)

    def grown(self, container: Any, text: str, where: Location) -> Contents:
        """Watch a container to which something is about to be added. What it holds is not guarded,
        as long as nothing more is known."""
        contents = self.containers.get(id(container))
        if contents is None:
            contents = self.containers[id(container)] = Contents(container, copied(container), where, text, False)
            for entry in self.items.get(id(container), ()):  # what the call has put there is nothing from before it
                entry.put_before(contents.before)
        return contents

    def unchanged(self) -> list[Entry | Contents]:
        """What the call has left alone so far."""
        seen: list[Entry | Contents] = [*self.entries.values(), *self.containers.values()]
        return [each for each in seen if not each.changed()]

    def take_up(self, same: list[Entry | Contents]) -> None:
        """What others have changed of these since: that counts as what was there before the call."""
        for each in same:
            if each.changed():
                each.take_up()

    # slots
    def entry(
        self, slot: Slot, where: Location, read: bool = True, store: Location | None = None, sure: bool = True
    ) -> Any:
        """Record a slot; its value now."""
        value = slot.get()
        if id(slot.holder) in self.fresh:
            self.own(value)
            return value
        self.ambient(value, where)
        slot = self._counted(slot)
        key = slot.key
        entry = self.entries.get(key)
        if entry is None:
            entry = self.entries[key] = Entry(slot, self._before(slot, value), where, sure)
            if type(slot) is ItemSlot:
                self.items.setdefault(id(slot.holder), []).append(entry)
            if key in self.lifted:
                entry.lifted, entry.real = True, self.lifted[key]
        is_own = entry.is_other(value)  # the call has put it there: no later call depends on what was before
        entry.read = entry.read or (read and not is_own)
        entry.sure = entry.sure or sure
        if store is not None and store not in entry.stores:
            entry.stores.append(store)
        if is_own:
            self.own(value)
        elif value is not MISSING:
            self.note(value, slot.stem, where, sure)
        return value

    def _counted(self, slot: Slot) -> Slot:
        """An item of a list whose length is guarded is always counted from the start: two names are no two places."""
        from_start, contents = counted(slot), self.containers.get(id(slot.holder))
        is_fixed = contents is not None and contents.guarded and slot.key not in self.entries
        return from_start if is_fixed or from_start.key in self.lifted else slot

    def _before(self, slot: Slot, value: Any) -> Any:
        """What was in a slot before the call, of which `value` is what it holds now."""
        names = self.keys.get(id(slot.holder))
        if type(slot) is AttributeSlot and names is not None and slot.name in instance_dict(slot.holder):
            return value if slot.name in names.keys else MISSING  # (made since, by code that makes names at run time)
        contents = self.containers.get(id(slot.holder)) if type(slot) is ItemSlot else None
        if contents is None or isinstance(contents.before, set):
            return value
        try:
            return contents.before[slot.name]
        except GONE:
            return MISSING

    def attribute(
        self, obj: Any, name: str, text: str, where: Location, read: bool = True, store: Location | None = None,
        sure: bool = True,
    ) -> Any:
        """The value of `obj.name` as far as it can be told without running user code, else MISSING;
        what it depends on is recorded."""
        kind, path = self.kinds.of(obj), f"{text}.{name}"
        if store is not None and name in HiddenSlot.NAMES and kind not in BORING:
            return self.entry(HiddenSlot(obj, name, path), where, False, store, sure)
        if kind is Kind.NAMESPACE:
            return self.of_module(obj, name, path, where, read, store)
        if kind is Kind.CLASS:
            return self.class_attribute(obj, name, path, where, read, store)
        if kind is Kind.METHOD:
            if name in ("__self__", "__func__"):
                return getattr(obj, name)
            return self.attribute(obj.__func__, name, text, where) if name in _SAID_BY_FUNCTIONS else MISSING
        if name == "__class__" and class_lookup(type(obj), name)[0] is object and kind not in BORING and store is None:
            if sure and id(obj) not in self.fresh and id(obj) not in self.weak and is_changeable(type(obj)):
                self.types.setdefault(id(obj), TypeGuard(obj, where, text, self.kinds))
            return type(obj)
        if kind is Kind.OPTIMIZER:
            return self.of_optimizer(obj, name, path, where, read, store, sure)
        if kind is Kind.TUPLE and name in getattr(type(obj), "_fields", ()):
            return obj[type(obj)._fields.index(name)]
        if kind is Kind.FUNCTION and name not in instance_dict(obj) and store is None:
            return self.told(obj, name, path, where) if name in _SAID_BY_FUNCTIONS and sure else MISSING
        if kind is Kind.LEAF:
            if store is not None:
                return self.stored_on_leaf(obj, name, path, where, store, sure)
            return self.of_leaf(obj, name, path, where)
        if kind in BORING:
            return MISSING
        if kind in _CLOSED and not (is_changeable(type(obj)) or name in instance_dict(obj)):
            if kind is Kind.ITERATOR:
                self.draws_from(obj, where)
            elif kind is Kind.RANDOM:
                self.asked_state(obj, name, path, where)
            return self.told(obj, name, path, where) if store is None and sure else MISSING
        return self.instance_attribute(obj, name, path, where, read, store, sure)

    def instance_attribute(
        self, obj: Any, name: str, path: str, where: Location, read: bool, store: Location | None, sure: bool
    ) -> Any:
        """Python's attribute lookup, by hand."""
        cls = type(obj)
        owner, raw = class_lookup(cls, name)
        slot = AttributeSlot(obj, name, path)
        if is_slot(cls, name) or (name in instance_dict(obj) and not overrides_instances(raw)):
            if raw is MISSING and read:
                self.lacks_over_instances(cls, name, where)
            return self.entry(slot, where, read, store, sure)
        if isinstance(raw, _IN_C) and owner is not None and not is_changeable(owner):
            return self.told(obj, name, path, where) if store is None and sure else MISSING
        if overrides_instances(raw):
            if sure and id(obj) not in self.fresh and is_own(self.kinds, obj):
                note_settings(self, obj, path.rpartition(".")[0], where)
            return self.descriptor(obj, name, raw, path, where, sure and store is None and id(obj) not in self.fresh)
        if raw is MISSING and self._is_weft(cls) and id(obj) not in self.fresh:
            getattr(obj, name, None)  # a table of operators has them once they have been asked for
        if raw is MISSING and (module := self.submodule(obj, name)) is not MISSING:
            if store is not None:
                self.stored_in_module(obj, name, store)
            return module
        if is_changeable(cls) or hasattr(obj, "__dict__"):
            self.entry(slot, where, read, where if isinstance(raw, functools.cached_property) else store, sure)
        if (
            raw is not MISSING and is_changeable(cls) and sure and id(obj) not in self.weak
            and id(obj) not in self.fresh and id(obj) not in self.types and class_lookup(cls, "__class__")[0] is object
        ):
            self.types[id(obj)] = TypeGuard(obj, where, path.rpartition(".")[0], self.kinds)
        if raw is MISSING:
            self.lacks(cls, name, where)
            getattr_owner, fallback = class_lookup(cls, "__getattr__")
            self.lacks(cls, "__getattr__", where, getattr_owner)
            if fallback is not MISSING:
                self.class_value(cls, "__getattr__", fallback, where)
            return MISSING
        if isinstance(raw, DESCRIPTORS) or hasattr(type(raw), "__get__"):
            if sure and self._is_weft(cls) and id(obj) not in self.fresh:
                note_settings(self, obj, path.rpartition(".")[0], where)
            return self.class_value(cls, name, raw, where)
        self.lacks(cls, name, where, owner)
        return self.entry(ClassSlot(owner, name, path), where, read) if owner and is_changeable(owner) else raw

    def used(self, obj: Any, text: str, where: Location, sure: bool) -> None:
        """An object took part in an operator, a statement or a call: its class decides what that does."""
        cls = type(obj)
        self.special_methods(cls, where)
        if sure and id(obj) not in self.fresh and (module_of(cls) == "numpy" or is_own(self.kinds, obj)):
            note_settings(self, obj, text, where)
        if (
            sure and id(obj) not in self.weak and is_changeable(cls) and id(obj) not in self.fresh
            and id(obj) not in self.types and class_lookup(cls, "__class__")[0] is object
        ):
            self.types[id(obj)] = TypeGuard(obj, where, text, self.kinds)

    def submodule(self, obj: Any, name: str) -> Any:
        """A Module's parameter, buffer or submodule; the dicts that hold them are guarded with the Module."""
        if self.kinds.of(obj) is Kind.MODULE:
            held = instance_dict(obj)
            for group in ("_parameters", "_buffers", "_modules"):
                if name in held.get(group, ()):
                    return held[group][name]
        return MISSING

    def stored_in_module(self, module: Any, name: str, store: Location) -> None:
        """A line that rebinds a Module's parameter, buffer or submodule."""
        for group in ("_parameters", "_buffers", "_modules"):
            held = instance_dict(module).get(group, {})
            if name in held:
                self.mutations.setdefault(id(held), []).append(store)

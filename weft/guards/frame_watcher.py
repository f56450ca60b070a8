"""The profile hook: sees every Python frame and builtin call of the capturing thread while the function runs once."""

from __future__ import annotations

import contextlib
import functools
import gc
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from types import CodeType, FrameType, FunctionType
from typing import Any, Final

from weft.guards.analyse import ITEM_METHODS, library_plan, plan_of
from weft.guards.asides import StepAside, is_aside, users_aside
from weft.guards.asked import QUESTIONS, is_fixed, solid_class
from weft.guards.effects import (
    MACHINERY_DEEDS,
    MOVE_OUT,
    PASS_IN,
    PASS_ITEM,
    SUSPECTS,
    SideEffectError,
    builtin_deed,
    container_deed,
    stdlib_deed,
)
from weft.guards.kinds import BORING, CONTAINERS, Kind, Kinds
from weft.guards.origin import INTERNAL, MADE_BY_COLLECTIONS, STDLIB, USER
from weft.guards.plan import Plan
from weft.guards.reads import Reads
from weft.guards.rewrite import original
from weft.guards.slots import GlobalSlot, ItemSlot, Key, class_lookup, instance_dict
from weft.guards.values import MISSING
from weft.guards.visit import Visitor
from weft.support.births import Births
from weft.support.interrupts import to_the_end
from weft.support.locations import Location

Deed = tuple[Any, ...]  # what is done, and what to do instead; or ASKS, and a question
ASKS: Final = "asks"
_IN_C: Final = frozenset({Kind.OPAQUE, Kind.INSTANCE})
_OF_SCOPES: Final = frozenset({"globals", "_getframe"})
_TRANSPARENT: Final = frozenset({Kind.TUPLE, Kind.LIST, Kind.DICT})
_UNSEEN: Final = ("", "")
_IMPORT: Final = ("imports", "")
# get(), getenv() and `in` end at the first one
_ENVIRONMENT: Final = tuple([
    getattr(type(os.environ), name).__code__ for name in ("__getitem__", "__iter__", "__len__")
])
# what it stores is the attribute that the user's code reads
_CACHED_PROPERTY: Final = functools.cached_property.__get__.__code__


Hook = Callable[[FrameType, str, Any], None]


class FrameWatcher:
    """A context manager; while it is active, what the user's code of this thread reads goes to `reads`.

    A profile function of the user's sees all events, as without a watcher. A profiler written in C (cProfile before
    Python 3.12) cannot be called from Python: it misses the call that is recorded, and goes on behind it.

    `paused` switches it off around machinery that runs no user code, such as one operator. step_aside: what lets code
    run as if nothing were captured (asides.py).
    """

    def __init__(
        self, kinds: Kinds | None = None, lifted: Mapping[Key, Any] | None = None,
        step_aside: StepAside = contextlib.nullcontext, is_strict: bool = False,
    ) -> None:
        self.kinds = kinds or Kinds()
        self._step_aside = step_aside
        self._aside: tuple[FrameType, contextlib.ExitStack] | None = None
        self._open = contextlib.ExitStack()
        self.reads = Reads(self.kinds, lifted or {}, is_strict)
        self.visitor = Visitor(self.reads)
        self.refusal: SideEffectError | None = None
        self._table: dict[
            int, Plan | Deed | bool | None
        ] = {}  # by id(code); False for weft's own, None for harmless library code, True for reading os.environ
        self._codes: list[CodeType] = []  # keeps the ids in _table alive
        self._own: set[int] = set()
        self._importing: FrameType | None = None
        self._seen: set[Any] = set()
        self._stored: set[Any] = set()
        self._previous: Any = None
        self._collects = True
        self._filter: Any = None  # of events, in native code
        self._births = Births()

    def __enter__(self) -> FrameWatcher:
        self._previous, self._collects = sys.getprofile(), gc.isenabled()
        try:
            self._open.enter_context(users_aside(self.aside))
            gc.disable()  # a collection would call finalizers and gc.callbacks, whose frames are nobody's reads
            self._births.begin()
            if not _is_function(self._previous):
                self._previous.disable()
            sys.setprofile(self._make_hook())  # kept nowhere else: what was read must not live on in a cycle
        except BaseException:  # (an interrupt; nobody calls __exit__ then)
            to_the_end(self._end)
            raise
        return self

    def __exit__(self, *exc: object) -> None:
        to_the_end(self._end)

    def _end(self) -> None:
        sys.setprofile(self._beneath)
        self._open.close()
        if self._filter is not None:
            self._filter.close()
        if not _is_function(self._previous):
            self._previous.enable()
        self._births.end()
        if self._collects:  # only now: what waits to be collected may be collected at once
            gc.enable()

    @property
    def _beneath(self) -> Hook | None:
        """The profile function of the user's."""
        return self._previous if _is_function(self._previous) else None

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """Run something unseen."""
        hook = sys.getprofile()
        sys.setprofile(self._beneath)
        try:
            yield
        finally:
            sys.setprofile(hook)

    @contextlib.contextmanager
    def aside(self) -> Iterator[None]:
        """Run what is no part of the call, unseen and as if nothing were captured: what it changes was there before."""
        hook, same = sys.getprofile(), self.reads.unchanged()
        sys.setprofile(self._beneath)
        try:
            with self._step_aside():
                yield
        finally:
            self.reads.take_up(same)
            sys.setprofile(hook)

    def filter_events(self, hook: Any, make_filter: Callable[[Any], Any]) -> None:
        """Let a filter drop the events of the hook that are nobody's reads, before they come to Python."""
        if self._filter is not None or hook.beneath is not None:
            return
        self._filter = make_filter(hook)
        if self._filter is None:
            return
        for code in self._codes:
            if self._table[id(code)] is False:
                self._filter.leave_out(code)
        for kind in {*[c for c, kind in self.kinds.by_class.items() if kind in BORING], type(None)}:
            self._filter.leave_out(kind)
        self._tell_filter()
        hook.install = self._filter.install

    def _tell_filter(self) -> None:
        """Something that is no part of the call, or an import, begins or ends: till its end all events are wanted."""
        if self._filter is not None:
            self._filter.watches_all = self._aside is not None or self._importing is not None

    def _go_aside(self, frame: FrameType) -> None:
        """A frame begins that is no part of the call."""
        block = contextlib.ExitStack()
        block.callback(self.reads.take_up, self.reads.unchanged())
        block.enter_context(self._step_aside())
        self._aside = frame, block
        self._tell_filter()

    def start(self, fn: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        """Make the function and its arguments known; the code of `fn` counts as the user's wherever its file lies,
        unless it stands in a file of the machinery's (`Function.apply`, `checkpoint`)."""
        where = _place_of(fn)
        code = getattr(getattr(fn, "__func__", fn), "__code__", None)
        file = "<" if code is None else code.co_filename
        if not file.startswith("<") and self.kinds.origins.of_file(file) == INTERNAL:
            code = None
        if code is not None:
            self._own.add(id(original(code)))
        self.reads.note(fn, getattr(fn, "__qualname__", type(fn).__name__), where)
        self.reads.everybodys_generators(where)
        if code is not None:
            self.visitor.nested.add(id(original(code)))  # it is known which function runs
        self._take_in([*args, *kwargs.values()], "an argument", where)

    def exempt(self, stand_ins: Iterable[Any]) -> None:
        """Make stand-ins known: containers among them are the caller's to guard, like those of the arguments."""
        self._take_in(list(stand_ins), "an input", Location("<compiled function>", 0))

    def _take_in(self, values: list[Any], text: str, where: Location) -> None:
        for value in self._taken_apart(values):
            self.reads.note(value, text, where)
            if id(value) in self.reads.exempt and self.kinds.of(value) in CONTAINERS:
                self.reads.structure(value, text, where)

    def _taken_apart(self, pending: list[Any]) -> list[Any]:
        """The arguments and what their containers hold; the containers are exempt from guards, as the caller takes
        them apart itself."""
        parts: list[Any] = []
        while pending:
            value = pending.pop()
            kind = self.kinds.of(value)
            if kind in CONTAINERS:
                if id(value) in self.reads.exempt:
                    continue
                self.reads.exempt.add(id(value))
            if kind in CONTAINERS or kind is Kind.TUPLE:
                pending.extend(value.values() if kind is Kind.DICT else value)
            elif kind is Kind.ARRAY:
                self.reads.exempt.add(id(value))
            parts.append(value)
        return parts

    def _make_hook(self) -> Hook:
        """Ours, which calls the user's first; `beneath` is the user's alone, for code that need not be
        watched (watching.py)."""
        watch, beneath = self._watch(), self._beneath

        def both(frame: FrameType, event: str, arg: Any) -> None:
            with self._step_aside():
                beneath(frame, event, arg)  # type: ignore[misc]
            watch(frame, event, arg)

        hook: Any = watch if beneath is None else both
        hook.beneath, hook.watcher, hook.install = beneath, self, None
        return hook  # type: ignore[no-any-return]

    def _watch(self) -> Hook:
        boring_of, kind_of_class, codes = self.kinds.of, self.kinds.by_class.get, self._table.get

        def hook(frame: FrameType, event: str, arg: Any) -> None:
            if event == "c_return":
                return
            plan = codes(id(frame.f_code), _UNSEEN)
            is_machinery = plan is False and (event != "return" or kind_of_class(type(arg)) in BORING)
            if is_machinery and self._aside is None and self._importing is None:
                return  # as most events are
            if self._aside is not None:
                if event == "return" and frame is self._aside[0]:
                    block, self._aside = self._aside[1], None
                    self._tell_filter()
                    block.close()
            elif self._importing is not None:  # what an import runs is nobody's reads
                if event == "return" and frame is self._importing:
                    self._importing = None
                    self._imports(frame, False)
                    self._tell_filter()
                    self.reads.everybodys_generators(Location(frame.f_code.co_filename, frame.f_lineno))
            elif event == "return":
                if (
                    plan and isinstance(plan, Plan) and plan.store_names and not plan.is_library
                    and plan.code.co_name != "__init__"
                ):
                    self._stored_by(plan, frame.f_back)
                if arg is None or (back := frame.f_back) is None:
                    return
                caller = codes(id(back.f_code))
                if caller and isinstance(caller, Plan) and caller.names and boring_of(arg) not in BORING:
                    self._returned(arg, caller, frame.f_code)
            elif event == "call":
                if not plan:
                    return
                if plan is _UNSEEN:
                    plan = self._admit(frame)
                if is_aside(frame):
                    self._go_aside(frame)
                elif isinstance(plan, Plan):
                    if plan.is_library and not self._is_for_user(frame):
                        return
                    self._enter(frame, plan)
                elif plan is _IMPORT:
                    self._imports(frame, True)
                    self._importing = frame
                    self._tell_filter()
                elif isinstance(plan, tuple):
                    if plan[0] is ASKS:
                        owner, asked = frame.f_locals.get("self"), frame.f_globals.get(frame.f_code.co_name)
                        self._asked(frame.f_back, (asked or plan[1]) if owner is None else partial(plan[1], owner))
                    else:
                        self._called_stdlib(frame, plan)
                elif plan:
                    self._environment(frame)
            elif event == "c_call" and (arg.__name__ in SUSPECTS or boring_of(arg.__self__) in _IN_C):
                self._suspect(frame, arg)

        return hook

    # calls
    def _admit(self, frame: FrameType) -> Plan | Deed | bool | None:
        code = original(frame.f_code)
        self._codes.append(frame.f_code)
        plan: Plan | Deed | bool | None = None
        origin = self.kinds.origins.of_file(code.co_filename)
        if origin == USER and code.co_filename.startswith("<"):  # generated source belongs to the module it runs in
            origin = self.kinds.origins.of_scope(frame.f_globals)
        question = self.kinds.questions.get(key := (frame.f_globals.get("__name__") or "", code.co_name))
        question = question or (frame.f_globals.get(code.co_name) if key in QUESTIONS else None)
        if (code.co_name == "<module>" and origin != USER) or code is _CACHED_PROPERTY:
            plan = None
        elif question is not None:
            plan = (ASKS, question)
        elif origin == USER or id(code) in self._own:
            plan = plan_of(code)
            self._own.update(map(id, plan.nested) if id(code) in self._own else ())
            self._stored |= plan.store_names
        elif code.co_name == "_find_and_load" and "importlib" in code.co_filename:
            plan = _IMPORT
        elif origin == INTERNAL and key in MACHINERY_DEEDS:
            plan = MACHINERY_DEEDS[key]
        elif origin == INTERNAL:
            plan = False
            if (frame.f_globals.get("__name__") or "").startswith(self.kinds.open_packages):
                self._replaceable(frame)
        elif code in _ENVIRONMENT:
            plan = True
        elif origin == STDLIB:
            plan = stdlib_deed(frame.f_globals.get("__name__") or "", code.co_name)
            if plan is None and (not code.co_filename.startswith("<") or code.co_filename == "<frozen os>"):
                plan = library_plan(code)
            if key[0].startswith(MADE_BY_COLLECTIONS):
                self._constructor(frame)
        self._table[id(frame.f_code)] = plan
        if plan is False and self._filter is not None:
            self._filter.leave_out(frame.f_code)
        return plan

    def _constructor(self, frame: FrameType) -> None:
        """The constructor of a named tuple, which Python makes of a text: the fields of this class have defaults."""
        cls = frame.f_locals.get("_cls")
        if isinstance(cls, type):
            self.reads.constructors(cls, Location(frame.f_code.co_filename, frame.f_lineno))

    def _replaceable(self, frame: FrameType) -> None:
        """Code of weft's own that calls functions by names which users replace, as nn.Linear calls F.linear:
        they still are what they were."""
        code, scope = original(frame.f_code), frame.f_globals
        user = self._planned(frame)
        where = (
            Location(code.co_filename, code.co_firstlineno) if user is None
            else Location(user.f_code.co_filename, user.f_lineno)
        )
        for (root, name), link in plan_of(code).roots.items():
            value = scope.get(name) if root == "global" else None
            if self.kinds.of(value) is Kind.FUNCTION:
                self.reads.entry(GlobalSlot(scope, name, f"{scope['__name__']}.{name}"), where)
            elif value is not None and self.kinds.of(value) is Kind.NAMESPACE:
                for op, key in link.steps:
                    if op == "." and self.kinds.of(vars(value).get(key)) is Kind.FUNCTION:
                        self.reads.foreign(value, key, f"{value.__name__}.{key}", where)

    def _is_for_user(self, frame: FrameType) -> bool:
        """Whether a function of the standard library runs since the user's code called it:
        what it reads of its arguments the user's code has read."""
        caller = frame.f_back
        while caller is not None:
            plan = self._table.get(id(caller.f_code))
            if isinstance(plan, Plan) and not plan.is_library:
                return True
            if not isinstance(plan, Plan) and caller.f_code not in self.kinds.transparent:
                return False
            caller = caller.f_back
        return False

    def _enter(self, frame: FrameType, plan: Plan) -> None:
        """Visit a frame, unless one of the same function, with the same objects at its roots, was visited."""
        key: list[Any] = [id(plan), id(frame.f_globals)]
        values: Mapping[str, Any] = {}
        if plan.bound or plan.loose or plan.everything:
            values = frame.f_locals
            if plan.code.co_name == "__init__":
                self._made(values.get(plan.code.co_varnames[0]) if plan.code.co_argcount else None)
            for name in values if plan.loose or plan.everything else plan.bound:
                key.append(self._identity(values.get(name)))
        if plan.has_cells:  # functions of the same code have cells of their own
            key += map(id, self.visitor.running(plan, values))
        seen = tuple(key)
        if seen in self._seen and self._stored.isdisjoint(plan.path_names):
            return
        self._seen.add(seen)
        self._called_back(frame, plan)
        self.reads.asks_identity |= plan.asks_identity and not plan.is_library
        self.reads.asks_id |= plan.asks_id and not plan.is_library
        self.visitor.frame(frame, plan, values or frame.f_locals)

    def _called_back(self, frame: FrameType, plan: Plan) -> None:
        """Code of the user's that weft calls (a hook, a data set, what an average is taken by) may be a method of an
        object to which no chain led, or be called with one: it is state, unless the call has made it. (Where nobody can
        tell, its `__init__` has been seen then.)"""
        if not plan.code.co_argcount or frame.f_back is None:
            return
        if self.kinds.origins.of_file(frame.f_back.f_code.co_filename) != INTERNAL:
            return
        values, where = frame.f_locals, Location(plan.file, plan.code.co_firstlineno)
        for value in [values.get(name) for name in plan.code.co_varnames[: plan.code.co_argcount]]:
            cls = type(value)
            is_clear = id(value) in self.reads.known or id(value) in self.reads.fresh
            # (of what is written in C nobody could tell whether it changes)
            is_clear = is_clear or self.kinds.of(value) in BORING or not is_fixed(solid_class(cls))
            if is_clear or self.kinds.origins.of_class(cls) != USER:
                continue
            is_older = self._births.is_older(value)
            if is_older or (is_older is None and type(class_lookup(cls, "__init__")[1]) is FunctionType):
                self.reads.note(value, cls.__qualname__, where)

    def _made(self, obj: Any) -> None:
        """An object is being initialised: unless a chain of reads led to it, the call makes it."""
        if not self.reads.is_known(obj):
            self.reads.fresh[id(obj)] = obj

    def _identity(self, value: Any, depth: int = 0) -> Any:
        """What a visit depends on: nothing for plain values and tensors, what it holds for something small
        that the call made, else itself."""
        kind = self.kinds.of(value)
        if kind in BORING:
            return 0
        if depth < 3 and kind in _TRANSPARENT and id(value) not in self.reads.known and len(value) <= 16:
            return tuple([self._identity(v, depth + 1) for v in (value.values() if kind is Kind.DICT else value)])
        if depth < 3 and id(value) in self.reads.fresh and len(held := instance_dict(value)) <= 16:
            return (id(type(value)), *[self._identity(v, depth + 1) for v in held.values()])
        self.reads.meet(value)
        return id(value)

    def _returned(self, value: Any, caller: Plan, code: CodeType) -> None:
        """A call gave the user's code an object: cover the attributes that the code may read from it."""
        if self.reads.is_known(value):
            self.visitor.reach([(value, f"{code.co_name}()")], caller, caller.names)
        elif isinstance(value, (tuple, list)):
            for i, item in enumerate(value):
                if self.reads.is_known(item):
                    self.visitor.reach([(item, f"{code.co_name}()[{i}]")], caller, caller.names)

    def _stored_by(self, callee: Plan, frame: FrameType | None) -> None:
        """The callee rebound names: callers whose chains pass through one of them may find other objects there now."""
        while frame is not None:
            plan = self._table.get(id(frame.f_code))
            if isinstance(plan, Plan) and not plan.path_names.isdisjoint(callee.store_names):
                self.visitor.frame(frame, plan, frame.f_locals)
            frame = frame.f_back

    # refusals
    def _suspect(self, frame: FrameType, function: Any) -> None:
        user = self._user_frame(frame)
        if user is None:
            return
        if user is frame:
            owner = function.__self__
            what = container_deed(function)
            if what is not None and self.reads.is_known(owner):
                self._changes(user, function, what)
            if function.__name__ == "next" and (id(frame.f_code), frame.f_lineno) in self.visitor.drawing:
                self.refuse(user, "draws from an iterator that existed before the call", PASS_ITEM)
        deed = builtin_deed(function)
        if deed is not None:
            self.refuse(user, *deed)
        key = (function.__module__ or "", function.__name__)
        if key in QUESTIONS:
            self._asked(frame, QUESTIONS[key] or function)
        elif function.__name__ in _OF_SCOPES and (user is frame or frame.f_code.co_name == "currentframe"):
            self._whole_scope(user, function)
        elif function.__name__ == "cache_info" and self.kinds.of(function.__self__) is Kind.CACHE:
            self._asked(frame, function)
        elif function.__name__ == "__subclasses__":
            self._subclasses(user, function)
        elif user is frame and self.kinds.of(function.__self__) in _IN_C:
            self._of_opaque(user, function)

    def _asked(self, frame: FrameType | None, question: Any) -> None:
        """The user's code asks something that Python answers from hidden state."""
        user = self._planned(frame) if question in self.kinds.inner_questions else self._user_frame(frame)
        if user is not None:
            where, holder = Location(user.f_code.co_filename, user.f_lineno), question
            name = getattr(question, "__name__", "()")
            if isinstance(question, partial):
                holder, name = question.args[0], question.func.__name__
            with self.paused():
                self.reads.answer(question, holder, name, f"{name.strip('_')}()", where)

    def _whole_scope(self, frame: FrameType, function: Any) -> None:
        """The user's code asks for all globals, in a way that its plan does not show."""
        plan = self._table.get(id(frame.f_code))
        if function.__name__ == "globals" and isinstance(plan, Plan) and ("scope", "globals()") in plan.roots:
            return
        self.reads.known[id(frame.f_globals)] = frame.f_globals
        self.reads.scope(frame.f_globals, Location(frame.f_code.co_filename, frame.f_lineno))

    def _subclasses(self, user: FrameType, function: Any) -> None:
        """The user's code asks for the classes under a class, and goes on with them."""
        cls, plan = function.__self__, self._table.get(id(user.f_code))
        where, text = Location(user.f_code.co_filename, user.f_lineno), f"{cls.__name__}.__subclasses__()"
        below = self.reads.answer(function, cls, "__subclasses__", text, where)
        if isinstance(plan, Plan):
            self.visitor.reach([(each, each.__name__) for each in below], plan, plan.names)

    def _of_opaque(self, user: FrameType, function: Any) -> None:
        """The user's code calls a method of an object that is written in C: refused, unless it is known what that
        holds."""
        owner = function.__self__
        content = self.reads.opaques.get(id(owner))
        if content is None and self.kinds.of(owner) is Kind.INSTANCE and self.reads.is_known(owner):
            if is_fixed(solid_class(type(owner))) or class_lookup(type(owner), function.__name__)[0] in (None, object):
                return
            self.reads.opaque(owner, type(owner).__name__, Location(user.f_code.co_filename, user.f_lineno))
            content = self.reads.opaques[id(owner)]
        is_unknown = content is None and self.reads.is_strict and not is_fixed(solid_class(type(owner)))
        if is_unknown or (content is not None and content.before is MISSING):
            self.refuse(
                user, f"calls {function.__name__} of a {type(owner).__name__} that existed before the call, of which "
                "nobody can tell when it changes", PASS_IN,
            )

    def _changes(self, user: FrameType, function: Any, what: str) -> None:
        """A method is about to change a container that existed before the call."""
        owner, where = function.__self__, Location(user.f_code.co_filename, user.f_lineno)
        if self.kinds.of(owner) not in CONTAINERS:
            self.refuse(user, f"{what} that existed before the call", MOVE_OUT)
        held = self.reads.containers.get(id(owner))
        text = f"a {type(owner).__name__}" if held is None else held.text
        self.reads.mutations.setdefault(id(owner), []).append(where)
        if function.__name__ == "append":
            self.reads.grown(owner, text, where).appended += 1
        elif function.__name__ == "extend" and getattr(owner, "maxlen", None) is None:
            self.reads.grown(owner, text, where).is_extended = True
        elif held is None or not held.guarded or function.__name__ not in ITEM_METHODS:  # (chains go on)
            self.reads.structure(owner, text, where)

    def _called_stdlib(self, frame: FrameType, deed: Deed) -> None:
        user = self._user_frame(frame.f_back)
        if user is not None:
            self.refuse(user, *deed)

    def _imports(self, frame: FrameType, begins: bool) -> None:
        """An import begins or ends: what the user's code goes by is a module that was there (it asks importlib for it),
        or one that could not be had. A module that an import adds is no state of the user's."""
        name, back = frame.f_locals.get("name"), frame.f_back
        if not isinstance(name, str) or (name in sys.modules) is not begins:
            return
        while back is not None and "importlib" in back.f_code.co_filename:
            back = back.f_back
        user = self._user_frame(back)
        if user is not None:
            where = Location(user.f_code.co_filename, user.f_lineno)
            self.reads.entry(ItemSlot(sys.modules, name, f"sys.modules[{name!r}]"), where)

    def _environment(self, frame: FrameType) -> None:
        """A variable of the environment is read: guard it where the user's code asks."""
        user, name = self._user_frame(frame.f_back), frame.f_locals.get("key")
        if user is None:
            return
        where = Location(user.f_code.co_filename, user.f_lineno)
        if "key" not in frame.f_code.co_varnames:  # which there are
            variables = frame.f_locals["self"]._data
            self.reads.note(variables, "os.environ", where)
            self.reads.structure(variables, "os.environ", where)
        elif isinstance(name, (str, bytes)):
            self.reads.entry(ItemSlot(frame.f_locals["self"], name, f"os.environ[{name!r}]"), where)

    def refuse(self, frame: FrameType, deed: str, remedy: str) -> None:
        """Raise at the user's line; kept in case the user's code swallows it."""
        self.refusal = SideEffectError(Location(frame.f_code.co_filename, frame.f_lineno), deed, remedy)
        raise self.refusal

    def _planned(self, frame: FrameType | None) -> FrameType | None:
        """The nearest frame of the user's, whoever's frames stand between."""
        while frame is not None and not isinstance(self._table.get(id(frame.f_code)), Plan):
            frame = frame.f_back
        return frame

    def _user_frame(self, frame: FrameType | None) -> FrameType | None:
        """The nearest frame that is not the standard library's, if it is the user's and no import is under way."""
        while frame is not None:
            code = frame.f_code
            origin = USER if id(original(code)) in self._own else self.kinds.origins.of_file(code.co_filename)
            if origin == USER:
                return frame if isinstance(self._table.get(id(code)), Plan) else None
            if (origin == INTERNAL and code not in self.kinds.transparent) or "importlib" in code.co_filename:
                return None
            frame = frame.f_back
        return None


def _is_function(profile: Any) -> bool:
    """Whether what sys.getprofile() gave can be set again: a function, or nothing; not a profiler written in C,
    which starts and stops itself."""
    return profile is None or callable(profile)


def _place_of(fn: Any) -> Location:
    inner = getattr(fn, "__func__", fn)
    inner = inner if hasattr(inner, "__code__") else type(inner).__call__
    code = getattr(inner, "__code__", None)
    return Location(code.co_filename, code.co_firstlineno) if code is not None else Location("<compiled function>", 0)

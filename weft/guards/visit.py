"""One frame: its Plan is evaluated over the values it starts with, and what bytecode cannot tell is covered from
the objects in reach."""

from __future__ import annotations

import builtins
import importlib
import importlib.util
import operator
import sys
from collections import Counter, defaultdict
from collections.abc import Mapping
from types import CodeType, FrameType, FunctionType, MethodType
from typing import Any, Final

from weft.guards.analyse import ITEM_METHODS, MATCH_ARGS, OPENING
from weft.guards.effects import builtin_deed, called_deed, caller_deed, refusal
from weft.guards.held import note_settings_in
from weft.guards.kinds import BORING, CONTAINERS, Kind, is_changeable
from weft.guards.origin import INTERNAL, USER
from weft.guards.plan import ANY, Link, Plan
from weft.guards.reads import Reads
from weft.guards.rewrite import functions_running, note_functions, original
from weft.guards.slots import CellSlot, GlobalSlot, ItemSlot, adds_when_read, class_lookup, instance_dict
from weft.guards.values import MISSING, key_text
from weft.support.locations import Location

_EMPTY: Final = BORING - {Kind.LEAF}  # what nothing is read from
_NEW_LOCALS: Final = 2  # CO_NEWLOCALS: a function's code
_BUILTINS: Final = frozenset(vars(builtins))
_ADDING: Final = frozenset({"append", "extend"})  # what reads nothing of a list
_GETTERS: Final = (getattr, hasattr, vars, dir)
_MOST_SEARCHES: Final = 64  # for functions of one code, each through all that refers to it
Reached = tuple[Any, str]  # a value and how the source would say it


class Visitor:
    """Evaluates plans into a read-set."""

    def __init__(self, reads: Reads) -> None:
        self.reads, self.kinds = reads, reads.kinds
        self.nested: set[int] = set()  # code objects whose functions are made by code that was seen
        self._searches: Counter[int] = Counter()  # of functions that run a code object, by its id
        self.codes: dict[int, Plan] = {}
        self.drawing: set[tuple[int, int]] = set()  # (code, line) that draws from an older iterator
        self._resolved: set[tuple[int, int]] = set()
        self._reached: set[tuple[int, int]] = set()
        self._each: set[tuple[int, int, int]] = set()
        self._callees: dict[int, Any] = {}  # by the id of a chain, of the frame that is looked at: its value

    def frame(self, frame: FrameType, plan: Plan, values: Mapping[str, Any]) -> None:
        """Record what a frame that starts with these local and cell values can read."""
        if not plan.is_library:
            if id(plan.code) not in self.codes:
                self.of_leaf_classes(plan)
                if plan.asks_type:  # perhaps of a symbol: then other code runs in its place
                    note_functions(frame)
            self.codes[id(plan.code)] = plan
            self.nested.update(map(id, plan.nested))
            self.resolve(plan, values)
        for method, line in plan.called.items():
            self.refuse(called_deed(method), line, plan)
        pool: list[Reached] = []
        self._callees = {}
        for (kind, name), link in plan.roots.items():
            where = Location(plan.file, link.line)
            if kind == "global":
                value = self.global_value(frame, name, link, plan, where)
            elif kind == "scope":
                value = self.reads.known[id(frame.f_globals)] = frame.f_globals
            elif kind == "cell":
                value = self.cell(plan, name, link, values, where)
            elif kind == "import":
                value = self.imported(frame, name, where)
            else:
                value = values.get(name, MISSING)
            self.walk(link, value, name, plan, pool)
            if kind == "local" and name in plan.packs:
                self.packed(link, value, name, plan)
        if "__class__" in plan.code.co_freevars:
            self.through_super(plan, values)
        if plan.loose or plan.loose_stores or plan.everything:
            pool += [(v, n) for n, v in values.items() if self.kinds.of(v) not in BORING]
            self.reach(pool, plan, plan.loose)

    def packed(self, link: Link, value: Any, text: str, plan: Plan) -> None:
        """What *args or **kwargs hold of what the caller handed in: where they are used as a whole, no chain leads to
        it."""
        if value is MISSING:
            return
        if link.used or link.iterated or link.handed or any(op == "." or key is ANY for op, key in link.steps):
            for item, name in self.elements(value, self.kinds.of(value), text, plan):
                if self.kinds.of(item) in CONTAINERS and self.reads.meet(item):
                    self.structure(item, name, Location(plan.file, link.line))

    def of_leaf_classes(self, plan: Plan) -> None:
        """The methods that the code may call on tensors, wherever they come from, are those
        that their class has now."""
        for name, line in (*plan.names.items(), *plan.operators.items()):
            for cls in self.kinds.leaves:
                raw = class_lookup(cls, name)[1]
                if raw is not MISSING and name != "__annotations__":
                    self.reads.class_value(cls, name, raw, Location(plan.file, line))

    # roots
    def global_value(self, frame: FrameType, name: str, link: Link, plan: Plan, where: Location) -> Any:
        scope = frame.f_globals
        if not plan.code.co_flags & _NEW_LOCALS and frame.f_locals is not scope and plan.code.co_name == "<module>":
            if name in frame.f_locals:  # code that is run by eval or exec, with locals of its own
                return frame.f_locals[name]
            if link.stores and name not in scope:
                return MISSING
        if name in scope or link.stores:
            value = MISSING
            for line in link.stores or (0,):
                store = Location(plan.file, line) if line else None
                value = self.reads.entry(GlobalSlot(scope, name, f"global {name}"), where, link.read, store)
            return value
        self.reads.shadows.setdefault(id(scope), (scope, {}))[1].setdefault(name, where)
        if name in _BUILTINS or name not in vars(builtins):
            return MISSING
        return self.reads.entry(GlobalSlot(vars(builtins), name, f"builtins.{name}"), where, link.read)

    def imported(self, frame: FrameType, name: str, where: Location) -> Any:
        """The module that an import finds; one that is imported for the first time is not there yet."""
        if name.startswith("."):
            try:
                name = importlib.util.resolve_name(name, frame.f_globals.get("__package__"))
            except ImportError:
                return MISSING
        if name.startswith("numpy.random") and name not in sys.modules:  # what it draws is watched from the beginning
            importlib.import_module(name)
        if name not in sys.modules:
            return MISSING
        return self.reads.entry(ItemSlot(sys.modules, name, f"sys.modules[{name!r}]"), where)

    def running(self, plan: Plan, values: Mapping[str, Any]) -> list[FunctionType]:
        """The functions from outside of the call that a frame with these cell values may be one of: found among all
        where none of those that are known has them (the table that it was taken from is read by a name of run time)."""
        code = plan.code
        functions = [f for f in self.reads.by_code.get(id(code), ()) if _closes_over(f, values)]
        if not functions and id(code) not in self.nested and self._searches[id(code)] < _MOST_SEARCHES:
            self._searches[id(code)] += 1
            functions = [f for f in functions_running(code) if _closes_over(f, values)]
            for function in functions:
                self.reads.note(function, function.__qualname__, Location(code.co_filename, code.co_firstlineno))
        return functions

    def cell(self, plan: Plan, name: str, link: Link, values: Mapping[str, Any], where: Location) -> Any:
        value = values.get(name, MISSING)
        for function in self.reads.by_code.get(id(plan.code), ()):
            cell = (function.__closure__ or ())[plan.code.co_freevars.index(name)]
            slot = CellSlot(cell, name, f"closure cell {name!r}")
            if name != "__class__" and slot.get() is value:
                for line in link.stores or (0,):
                    self.reads.entry(slot, where, link.read, Location(plan.file, line) if line else None)
        return value

    def resolve(self, plan: Plan, values: Mapping[str, Any]) -> None:
        """Find the function that runs, by the class of its first argument or among all functions,
        so that it is guarded."""
        code = plan.code
        first = values.get(code.co_varnames[0]) if code.co_argcount else None
        cls = first if isinstance(first, type) else type(first)
        if (id(code), id(cls)) in self._resolved:
            return
        self._resolved.add((id(code), id(cls)))
        self.reads.known.setdefault(id(cls), cls)
        where = Location(code.co_filename, code.co_firstlineno)
        raw = class_lookup(cls, code.co_name)[1]
        if code.co_argcount and _runs(raw, code):
            self.reads.class_value(cls, code.co_name, raw, where)
        if not plan.has_cells and id(code) not in self.reads.by_code:
            self.running(plan, values)
            self.nested.add(id(code))  # searched for: once is enough

    def through_super(self, plan: Plan, values: Mapping[str, Any]) -> None:
        """What `super()` may find: every class behind the one that the code stands in."""
        first, inner = values.get(plan.code.co_varnames[0]) if plan.code.co_argcount else None, values.get("__class__")
        order = (first if isinstance(first, type) else type(first)).__mro__
        if inner not in order:
            return
        for base in order[order.index(inner) + 1 :]:
            for name, line in plan.loose.items():
                owner, raw = class_lookup(base, name)
                if owner is not None:
                    self.reads.class_value(base, name, raw, Location(plan.file, line))

    def behind_super(self, value: Any, plan: Plan) -> None:
        """What `super(cls, value)` may find."""
        for base in type(value).__mro__[1:]:
            for name, line in plan.loose.items():
                if name in base.__dict__ and is_changeable(base):
                    self.reads.class_value(base, name, base.__dict__[name], Location(plan.file, line))

    def refuse(self, deed: tuple[str, str] | None, line: int, plan: Plan) -> None:
        """Refuse the call for what code in C will do, unseen."""
        self.reads.refused = refusal(deed, Location(plan.file, line)) or self.reads.refused

    # chains
    def walk(self, link: Link, value: Any, text: str, plan: Plan, pool: list[Reached]) -> None:
        """Follow the chains that start at `link`, whose value is given."""
        kind = self.kinds.of(value)
        if kind is Kind.FUNCTION or kind is Kind.METHOD:
            self._callees[id(link)] = value
        if issubclass(type(value), (operator.attrgetter, operator.methodcaller)):
            plan.loose.update({name: link.line for name in self.reads.named(value)})
            self.refuse(caller_deed(value), link.line, plan)
        where = Location(plan.file, link.line)
        if kind is Kind.LEAF:
            self.walk_leaf(link, value, text, plan, pool)
        if kind in BORING or value is MISSING:
            return
        sure = self.reads.meet(value)
        asked = {key for op, key in link.steps if op == "."} if kind in CONTAINERS else set()
        is_used = bool(
            link.used or link.iterated or not all(map(self.has_plan, link.handed))
            or (link.is_extended and kind is not Kind.LIST) or asked - _ADDING - ITEM_METHODS
            or any(key in OPENING for _, key in link.steps)
        )
        opened = bool(
            is_used or asked & ITEM_METHODS or ("[", ANY) in link.steps
            # a read of an item may add it
            or (adds_when_read(value) and any(op == "[" for op, _ in link.steps))
        )
        if opened and kind in CONTAINERS:
            self.structure(value, text, where, is_used)
        elif kind is Kind.LIST and sure and (asked or link.is_extended):
            self.reads.grown(value, text, where).is_extended |= link.is_extended
        if link.mutations:
            self.reads.mutations.setdefault(id(value), []).extend(Location(plan.file, m) for m in link.mutations)
        if link.iterated and kind is Kind.ITERATOR and sure:
            taken_at = self.reads.drawn[id(value)].where = Location(plan.file, link.iterated)
            self.reads.refuse_to_take(taken_at)
            self.drawing.add((id(plan.code), link.iterated))
        if opened or kind is Kind.MODULE or kind is Kind.REFERENCE:
            pool.append((value, text))
        if opened and kind is Kind.INSTANCE:
            self.reads.used(value, text, where, sure)
        if opened and sure and (kind in CONTAINERS or kind is Kind.TUPLE):
            note_settings_in(self.reads, value, text, where)
        if opened and kind is Kind.CLASS:
            self.reads.constructors(value, where)
            if is_changeable(type(value)):
                self.reads.special_methods(type(value), where)
        if kind is Kind.ITERATOR and (opened or link.steps) and sure:
            self.reads.draws_from(value, where)
        if kind is Kind.BUILTIN and (link.passed or (".", "__call__") in link.steps):  # C code may call it, unseen
            self.refuse(builtin_deed(value), link.passed or link.line, plan)
        if kind is Kind.BUILTIN and value in _GETTERS and value.__name__ != text:  # by another name
            plan.everything = link.line
        for (op, key), inner in link.steps.items():
            if key is ANY:
                self.each(value, kind, inner, text, plan, pool)
                continue
            part = self.step(value, op, key, inner, text, plan, sure)
            if key == MATCH_ARGS and op == "." and isinstance(part, tuple):
                plan.loose.update(dict.fromkeys(part, inner.line))
                plan.optional.update(part)
            if part is not MISSING:
                self.walk(inner, part, f"{text}.{key}" if op == "." else f"{text}[{key_text(key)}]", plan, pool)

    def has_plan(self, callee: Link) -> bool:
        """Whether a chain leads to a function whose own plan says what it does with its arguments."""
        value = self._callees.get(id(callee))
        function = value.__func__ if isinstance(value, MethodType) else value
        if not isinstance(function, FunctionType) or callee.stores or callee.is_unsure:  # (perhaps another one)
            return False
        file, origins = original(function.__code__).co_filename, self.kinds.origins
        return (origins.of_scope(function.__globals__) if file.startswith("<") else origins.of_file(file)) == USER

    def each(self, value: Any, kind: Kind, link: Link, text: str, plan: Plan, pool: list[Reached]) -> None:
        """Follow the chains that start at some item of a container."""
        if kind is not Kind.TUPLE and kind not in CONTAINERS:
            return
        key = (id(link), id(value), len(value))
        if key not in self._each:
            if self.reads.meet(value):
                self._each.add(key)
            for item, name in self.elements(value, kind, text, plan):
                self.walk(link, item, name, plan, pool)

    def walk_leaf(self, link: Link, leaf: Any, text: str, plan: Plan, pool: list[Reached]) -> None:
        """What hangs on a tensor by attributes that the user gave it."""
        for (op, name), inner in link.steps.items():
            for line in inner.stores if op == "." else ():
                where = Location(plan.file, line)
                self.reads.attribute(leaf, name, text, where, False, where, self.reads.is_known(leaf))
            if op == "." and not inner.stores:
                path = f"{text}.{name}"
                self.walk(
                    inner, self.reads.of_leaf(leaf, name, path, Location(plan.file, inner.line)), path, plan, pool
                )
        if link.used or link.handed or link.is_extended:
            for name in plan.loose.keys() & set(self.kinds.said_by_leaves):
                self.reads.of_leaf(leaf, name, f"{text}.{name}", Location(plan.file, plan.loose[name]))

    def step(self, value: Any, op: str, key: Any, link: Link, text: str, plan: Plan, sure: bool) -> Any:
        part = MISSING
        for line in link.stores or (0,):
            where, store = Location(plan.file, link.line), Location(plan.file, line) if line else None
            if op == ".":
                part = self.reads.attribute(value, key, text, where, link.read, store, sure)
            else:
                part = self.item(value, key, text, where, link.read, store, sure)
        return part

    def item(
        self, value: Any, key: Any, text: str, where: Location, read: bool, store: Location | None, sure: bool
    ) -> Any:
        kind = self.kinds.of(value)
        if kind is Kind.TUPLE or id(value) in self.reads.exempt or (kind is Kind.ARRAY and value.dtype.hasobject):
            try:
                return dict.get(value, key, MISSING) if adds_when_read(value) else value[key]
            except (IndexError, KeyError, TypeError):
                return MISSING
        if kind is Kind.DICT or (kind is Kind.LIST and isinstance(key, int)):
            element = self.reads.entry(ItemSlot(value, key, f"{text}[{key_text(key)}]"), where, read, store, sure)
            if element is MISSING and issubclass(type(value), defaultdict):
                self.reads.attribute(value, "default_factory", text, where, sure=sure)
            return element
        return MISSING

    def structure(self, container: Any, text: str, where: Location, deeply: bool = True) -> None:
        if self.reads.is_known(container):
            self.reads.structure(container, text, where, deeply=deeply)

    # what bytecode cannot tell
    def reach(self, pool: list[Reached], plan: Plan, names: Mapping[str, int], seen: set[int] | None = None) -> None:
        """Record the attributes of these names on every object that can be reached from the pool through containers
        and such attributes."""
        done: set[int] = set() if seen is None else seen
        said = self.kinds.said_by_leaves
        asked = [name for name in names if name in said or not any(hasattr(leaf, name) for leaf in self.kinds.leaves)]
        while pool:
            value, text = pool.pop()
            kind = self.kinds.of(value)
            if kind is Kind.LEAF and asked:
                pool += self.given_to_leaf(value, text, plan, asked)
            self.refuse(caller_deed(value), plan.code.co_firstlineno, plan)
            if kind in BORING or id(value) in done or (id(plan), id(value)) in self._reached:
                continue
            done.add(id(value))
            if self.reads.meet(value):
                self._reached.add((id(plan), id(value)))
            pool += self.inside(value, kind, text, plan, names)

    def given_to_leaf(self, leaf: Any, text: str, plan: Plan, names: list[str]) -> list[Reached]:
        """The attributes of these names that a tensor has, or would be asked for in vain."""
        held = instance_dict(leaf)
        wanted = [n for n in names if n in held or n in plan.optional or hasattr(type(leaf), n)]
        lines = [(n, Location(plan.file, plan.names.get(n) or plan.loose.get(n) or 0)) for n in wanted]
        return [(self.reads.of_leaf(leaf, n, f"{text}.{n}", where), f"{text}.{n}") for n, where in lines]

    def inside(self, value: Any, kind: Kind, text: str, plan: Plan, names: Mapping[str, int]) -> list[Reached]:
        if kind is Kind.TUPLE or kind in CONTAINERS:
            reached = self.elements(value, kind, text, plan)
            return reached if not instance_dict(value) else reached + self.attributes(value, text, plan, names)
        reached = self.attributes(value, text, plan, names)
        if kind is Kind.MODULE:
            for group in ("_modules", "_parameters", "_buffers"):
                reached += [(m, f"{text}.{n}") for n, m in instance_dict(value).get(group, {}).items()]
        if kind is Kind.INSTANCE:
            self.reads.used(value, text, Location(plan.file, plan.code.co_firstlineno), self.reads.is_known(value))
            if "super" in plan.global_names:
                self.behind_super(value, plan)
        if kind is Kind.ITERATOR:
            self.reads.draws_from(value, Location(plan.file, plan.code.co_firstlineno))
        if kind is Kind.METHOD:
            reached.append((value.__self__, text))
        if kind is Kind.REFERENCE:
            reached.append((value(), f"{text}()"))
        return reached

    def elements(self, value: Any, kind: Kind, text: str, plan: Plan) -> list[Reached]:
        items = list(value.items() if kind is Kind.DICT else enumerate(value))
        if kind is not Kind.TUPLE and self.reads.is_changed(value):
            for _, item in items:
                self.reads.own(item)
        return [(v, f"{text}[{key_text(k)}]") for k, v in items if self.kinds.of(v) not in _EMPTY]

    def attributes(self, value: Any, text: str, plan: Plan, names: Mapping[str, int]) -> list[Reached]:
        sure, held, cls = self.reads.is_known(value), instance_dict(value), type(value)
        is_plain = self.kinds.of(value) in (Kind.NAMESPACE, Kind.CLASS)
        reached: list[Reached] = []
        wanted = dict(names)
        if plan.everything:
            wanted |= dict.fromkeys(
                self.reads.whole(value, text, Location(plan.file, plan.everything)), plan.everything
            )
        for name, line in wanted.items():
            there = (
                name in held
                or name in plan.optional
                or class_lookup(value if is_plain and isinstance(value, type) else cls, name)[0]
                or (isinstance(value, type) and hasattr(type(value), name))
            )
            if not there and self.reads.submodule(value, name) is MISSING:
                continue
            where = Location(plan.file, line)
            inner = self.reads.attribute(value, name, text, where, True, None, sure)
            if inner is not MISSING and self.kinds.of(inner) not in _EMPTY and not self._is_machinery(value, inner):
                reached.append((inner, f"{text}.{name}"))
                if self.kinds.of(inner) in CONTAINERS:
                    self.structure(inner, f"{text}.{name}", where)
        if not is_plain:
            for name, line in plan.loose_stores.items():
                self.reads.attribute(
                    value, name, text, Location(plan.file, line), False, Location(plan.file, line), sure
                )
        return reached

    def _is_machinery(self, module: Any, value: Any) -> bool:
        """Whether a value that a module of weft's or NumPy's holds is of theirs too: an operator, whose tables are no
        state of the user's."""
        of_module = self.kinds.origins.of_module
        return (
            self.kinds.of(module) is Kind.NAMESPACE and self.kinds.of(value) in (Kind.INSTANCE, Kind.FUNCTION)
            and of_module(module.__name__) == INTERNAL == of_module(getattr(value, "__module__", None))
        )


def _runs(raw: Any, code: CodeType) -> bool:
    function = raw.fget if isinstance(raw, property) else getattr(raw, "__func__", raw)
    return isinstance(function, FunctionType) and original(function.__code__) is code


def _closes_over(function: FunctionType, values: Mapping[str, Any]) -> bool:
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        slot = CellSlot(cell, "cell_contents", name)
        if slot.get() is not values.get(name, MISSING):
            return False
    return True

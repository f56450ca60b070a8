"""Reading a code object once: its bytecode is walked with a symbolic stack, which yields the Plan of what it can read
and write."""

from __future__ import annotations

import dis
import re
from collections.abc import Iterable
from dataclasses import replace
from types import CodeType
from typing import Any, Final

from weft.guards.assigned import STORE_CELL, argument_names, names_in, nested_codes, stored_locals
from weft.guards.operators import operator_methods
from weft.guards.plan import ANY, Link, Plan
from weft.guards.stack import IGNORED, NULL, OWN, Const, Item, Joins, Own, Stack, instructions_with_lines

_CACHE_LIMIT: Final = 20_000
_PLANS: dict[
    int, Plan
] = {}  # by id(code): equal code objects of different files must not share; Plan.code keeps the id alive
_LIBRARY_PLANS: dict[int, Plan] = {}
MATCH_ARGS: Final = "__match_args__"
# what they give holds every attribute
OPENING: Final = frozenset({"__getattribute__", "__dict__", "__reduce_ex__", "__reduce__", "__getstate__"})
_GETTERS: Final = frozenset({"attrgetter", "methodcaller"})
_SETTERS: Final = frozenset({"__setattr__", "__delattr__"})
_DYNAMIC: Final = frozenset({"vars", "dir", "setattr", "delattr"})
_BY_NAME: Final = ("getattr", "hasattr")
_PLAIN_FORMAT: Final = re.compile(r"(?:[^{]|\{\{|\{\w*[:!}])*")  # whose fields name no attributes
# methods of a dict that give one of its items
ITEM_METHODS: Final = frozenset({"get", "setdefault"})
_DRAWING: Final = frozenset(str.split("next list tuple zip enumerate map filter sum set dict sorted min max any all"))


def plan_of(code: CodeType) -> Plan:
    """The Plan of a code object, worked out once."""
    plan = _PLANS.get(id(code))
    if plan is None:
        if len(_PLANS) >= _CACHE_LIMIT:
            _PLANS.clear()
        plan = _PLANS[id(code)] = _Walk(code).run()
    return plan


def library_plan(code: CodeType) -> Plan:
    """The Plan of a function of the standard library: what it reads of its arguments, on behalf of the user's
    code that passed them."""
    plan = _LIBRARY_PLANS.get(id(code))
    if plan is None:
        walked = _Walk(code).run()
        roots = {key: _without_stores(link) for key, link in walked.roots.items() if key[0] == "local"}
        plan = _LIBRARY_PLANS[id(code)] = replace(
            walked, roots=roots, loose_stores={}, mutations=[], nested=(), is_library=True, store_names=frozenset()
        )
        plan.bound, plan.has_cells = tuple(name for _, name in roots), False
    return plan


def _without_stores(link: Link) -> Link:
    link.stores, link.mutations, link.used = [], [], link.used or link.is_extended
    for step in link.steps.values():
        _without_stores(step)
    return link


class _Walk:
    """One pass over one code object."""

    def __init__(self, code: CodeType) -> None:
        self.code, self.plan, self.stack = code, Plan(code), Stack()
        self.stored = stored_locals(code)
        self.arguments = argument_names(code) - set(self.stored)
        self.rebound = argument_names(code) & set(self.stored)
        self.aliases: dict[str, Link | Own] = {}  # locals assigned once, from a chain or with a new container
        self.line = code.co_firstlineno

    def run(self) -> Plan:
        instructions = list(instructions_with_lines(self.code))
        joins = Joins([ins for ins, _ in instructions])
        for ins, line in instructions:
            self.line = line
            if ins.is_jump_target:
                joins.arrive(ins, self.stack)
            for name in operator_methods(ins):
                self.plan.operators.setdefault(name, line)
            if ins.opname not in IGNORED:
                rule = _RULES.get(ins.opname)
                if rule is None:
                    self.stack.other(ins)
                else:
                    rule(self, ins)
            joins.leave(ins, self.stack)
        self.stack.clear()
        return self.finish()

    def finish(self) -> Plan:
        plan = self.plan
        plan.nested = nested_codes(self.code)
        plan.asks_id = not plan.global_names.isdisjoint({"id", "hash"})
        plan.asks_identity |= plan.asks_id
        for inner in map(plan_of, plan.nested):  # a comprehension reads loop variables of ours
            plan.loose |= inner.loose
            plan.optional |= inner.optional
            plan.loose_stores |= inner.loose_stores
            plan.names |= inner.names
            plan.operators |= inner.operators
            plan.everything = plan.everything or inner.everything
            plan.asks_type |= inner.asks_type
        plan.bound = tuple(name for kind, name in plan.roots if kind in ("local", "cell"))
        plan.has_cells = any(kind == "cell" and name != "__class__" for kind, name in plan.roots)
        stores: set[str] = set(plan.loose_stores)
        passed: set[str] = set()
        for (_, name), link in plan.roots.items():
            passed.update([name] if link.steps else ())
            stores.update([name] if link.stores else ())
            _collect(link, passed, stores)
        plan.path_names, plan.store_names = frozenset(passed), frozenset(stores)
        if passed & stores:  # what a chain finds at the start is not what it finds later
            after = _read_after(plan.roots.values(), passed & stores)
            plan.loose |= {name: line for name, line in plan.names.items() if name in after}
        return plan

    # roots
    def root(self, kind: str, name: str) -> Link:
        link = self.plan.roots.get((kind, name))
        if link is None:
            link = self.plan.roots[kind, name] = Link(self.line, name)
        return link

    def load_global(self, ins: dis.Instruction) -> None:
        link = self.root("global", ins.argval)
        link.read = True
        below = ins.argrepr.startswith("NULL")  # where CPython 3.11 and 3.12 put it; later ones put it on top
        for item in (NULL, link) if below else (link, NULL) if ins.argrepr.endswith("+ NULL") else (link,):
            self.stack.push(item)
        if ins.argval in _DYNAMIC:
            self.plan.everything = self.line

    def store_name(self, ins: dis.Instruction) -> None:
        if self.code.co_name == "<module>":  # that exec runs
            self.store_global(ins)
        else:
            self.stack.other(ins)

    def load_local(self, ins: dis.Instruction) -> None:
        for name in names_in(ins.argval):
            self.stack.push(self.local(name))

    def local(self, name: str) -> Item:
        if name in self.code.co_freevars:
            link: Link | Own | None = self.root("cell", name)
        elif name in self.arguments:
            link = self.root("local", name)
        else:
            link = self.aliases.get(name)
            if name in self.rebound:  # until then it is what the caller handed in
                self.root("local", name).used = True
        if isinstance(link, Link):
            link.read = True
        return link

    def store_local(self, ins: dis.Instruction) -> None:
        for name in names_in(ins.argval):
            self.assign(name)

    def assign(self, name: str) -> None:
        value = self.stack.take()
        if not isinstance(value, (Link, Own)):
            return
        if self.stored[name] == 1 and name not in self.code.co_varnames[: self.code.co_argcount]:
            self.aliases[name] = value
        elif isinstance(value, Link):
            value.used = True

    def store_then_load(self, ins: dis.Instruction) -> None:
        stored, loaded = ins.argval
        self.assign(stored)
        self.stack.push(self.local(loaded))

    def store_global(self, ins: dis.Instruction) -> None:
        self.stack.use(ins.opname.startswith("STORE"))
        self.root("global", ins.argval).stores.append(self.line)

    def store_cell(self, ins: dis.Instruction) -> None:
        if ins.argval in self.code.co_freevars:
            self.stack.use(ins.opname.startswith("STORE"))
            self.root("cell", ins.argval).stores.append(self.line)
        elif ins.opname.startswith("STORE"):
            self.assign(ins.argval)

    def import_name(self, ins: dis.Instruction) -> None:
        level, names = (i.value if isinstance(i, Const) else None for i in self.stack.use(2))
        if not isinstance(level, int):
            self.stack.push(None)
            return
        name = "." * level + ins.argval
        link = self.root("import", name if names or level else name.partition(".")[0])
        self.stack.push(link)

    def import_from(self, ins: dis.Instruction) -> None:
        self.stack.push(self.read_step(self.stack.peek(1), ins.argval))

    # attributes and items
    def read_step(self, base: Item, name: str, optional: bool = False) -> Item:
        self.plan.names.setdefault(name, self.line)
        if name in OPENING:
            self.plan.everything = self.line
        if isinstance(base, Link):
            link = base.step((".", name), self.line)
            link.read = True
            if link.is_unsure:
                self.plan.loose.setdefault(name, self.line)
            return link
        self.plan.loose.setdefault(name, self.line)
        if optional:
            self.plan.optional.add(name)
        return None

    def load_attr(self, ins: dis.Instruction) -> None:
        base = self.stack.take()
        if (
            ins.argval in ("format", "format_map")
            and not (isinstance(base, Const) and _PLAIN_FORMAT.fullmatch(str(base.value)))
        ):
            self.plan.everything = self.line
        self.stack.push(self.read_step(base, ins.argval))
        if dis.stack_effect(ins.opcode, ins.arg) == 1:
            self.stack.push(NULL)

    def load_super(self, ins: dis.Instruction) -> None:
        self.stack.use(3)
        self.stack.push(self.read_step(None, ins.argval))
        if dis.stack_effect(ins.opcode, ins.arg) == -1:
            self.stack.push(NULL)

    def store_attr(self, ins: dis.Instruction) -> None:
        base = self.stack.take()
        self.stack.use(ins.opname.startswith("STORE"))
        self.plan.names.setdefault(ins.argval, self.line)
        if isinstance(base, Link):
            base.step((".", ins.argval), self.line).stores.append(self.line)
        else:
            self.plan.loose_stores.setdefault(ins.argval, self.line)

    def subscript(self, ins: dis.Instruction) -> None:
        base, key = self.stack.peek(2), self.stack.peek(1)
        if not isinstance(base, Link):
            self.stack.use(2)
            self.stack.push(None)
            return
        self.stack.use()
        self.stack.take()
        self.stack.push(self.item(base, key))

    def item(self, base: Link, key: Item, is_sure: bool = True) -> Link:
        is_named = isinstance(key, Const) and isinstance(key.value, (int, str))
        link = base.step(("[", key.value if isinstance(key, Const) and is_named else ANY), self.line)
        link.read = True
        link.is_unsure = link.is_unsure or not (is_named and is_sure)
        return link

    def store_subscript(self, ins: dis.Instruction) -> None:
        key = self.stack.take()
        base = self.stack.take()
        if ins.opname == "STORE_SUBSCR":
            self.stack.use()
        self.mutated(base)
        if isinstance(key, Link):
            key.used = True
        if isinstance(base, Link):
            if ins.opname == "STORE_SUBSCR" and isinstance(key, Const) and isinstance(key.value, (int, str)):
                base.step(("[", key.value), self.line).stores.append(self.line)
            else:
                base.used = True

    def store_slice(self, ins: dis.Instruction) -> None:
        self.stack.use(2)
        self.mutated(self.stack.peek(1))
        self.stack.use(2)

    def mutated(self, base: Item) -> None:
        if isinstance(base, Link):
            base.mutations.append(self.line)
        elif base is not OWN:
            self.plan.mutations.append(self.line)

    def in_place(self, ins: dis.Instruction) -> None:
        target = self.stack.peek(2)
        self.mutated(target)
        self.stack.use()
        if isinstance(target, Link) and (ins.argrepr == "+=" or ins.opname == "INPLACE_ADD"):
            self.stack.take()
            target.is_extended = True
        else:
            self.stack.use()
        self.stack.push(None)

    def binary(self, ins: dis.Instruction) -> None:
        if ins.argrepr == "[]":
            self.subscript(ins)
        elif ins.argrepr.endswith("="):
            self.in_place(ins)
        else:
            self.stack.use(2)
            self.stack.push(None)

    def match_class(self, ins: dis.Instruction) -> None:
        keywords, cls, subject = self.stack.peek(1), self.stack.peek(2), self.stack.peek(3)
        if isinstance(keywords, Const):
            for name in keywords.value:
                self.read_step(subject, name, True)
        if ins.arg and isinstance(cls, Link):  # which attributes these are the class says
            cls.step((".", MATCH_ARGS), self.line).read = True
        self.stack.use(3)
        self.stack.push(None)

    # calls and the stack itself
    def call(self, ins: dis.Instruction) -> None:
        effect = dis.stack_effect(ins.opcode, ins.arg)
        popped = (ins.arg or 0) + 2 if "PRECALL" in dis.opmap and ins.opname == "CALL" else 1 - effect
        if ins.opname == "CALL_FUNCTION_EX":
            items = [i for i in self.stack.use(popped) if i is not NULL]
        else:
            items = [i for i in [self.stack.take() for _ in range(popped)][::-1] if i is not NULL]
            self.hand(items)
        self.stack.push(self.called(items[0], items[1:]) if items else None)

    def hand(self, items: list[Item]) -> None:
        """A callee is used, and so are its arguments, unless it turns out to be a function with a plan."""
        callee = items[0] if items else None
        for item in items:
            if not isinstance(item, Link):
                continue
            if item is not callee and isinstance(callee, Link):
                item.handed.append(callee)
            else:
                item.used = True

    def called(self, callee: Item, arguments: list[Item]) -> Item:
        name = next((n for n in ("getattr", "hasattr") if callee is self.plan.roots.get(("global", n), self)), None)
        if name and len(arguments) >= 2:
            wanted = arguments[1]
            if isinstance(wanted, Const) and isinstance(wanted.value, str):
                value = self.read_step(arguments[0], wanted.value, True)
                return value if name == "getattr" else None
            self.plan.everything = self.line
        if any(item is self.plan.roots.get(("global", n), self) for item in arguments for n in _BY_NAME):
            self.plan.everything = self.line
        if callee is self.plan.roots.get(("global", "globals"), self) and not arguments:
            return self.root("scope", "globals()")
        if callee is self.plan.roots.get(("global", "type"), self) and len(arguments) == 1:
            self.plan.asks_type |= arguments[0] is None or arguments[0] is not self.plan.roots.get(("local", "self"))
            return self.read_step(arguments[0], "__class__")
        if isinstance(callee, Link) and callee.name in _SETTERS:
            self.set_by_name(arguments)
        if isinstance(callee, Link) and callee.name in _GETTERS:
            self.named(arguments)
            if callee.name == "methodcaller" and arguments and isinstance(arguments[0], Const):
                self.plan.called[arguments[0].value] = self.line
        for item in arguments:
            if isinstance(item, Link):
                item.passed = self.line
        if isinstance(callee, Link) and callee.name in ITEM_METHODS and callee.owner is not None and arguments:
            return self.item(callee.owner, arguments[0], False)
        if isinstance(callee, Link) and any(callee is self.plan.roots.get(("global", n)) for n in _DRAWING):
            for item in arguments:
                if isinstance(item, Link):
                    item.iterated = self.line
        return None

    def set_by_name(self, arguments: list[Item]) -> None:
        """`object.__setattr__(base, name, value)`: as the statement that assigns."""
        base, name = [*arguments[:2], None, None][:2]
        if not isinstance(name, Const) or not isinstance(name.value, str):
            self.plan.everything = self.line
        elif isinstance(base, Link):
            base.step((".", name.value), self.line).stores.append(self.line)
        else:
            self.plan.loose_stores.setdefault(name.value, self.line)

    def named(self, arguments: list[Item]) -> None:
        """The attributes that an operator.attrgetter made here will read, wherever it is called."""
        for item in arguments:
            if isinstance(item, Const) and isinstance(item.value, str):
                for part in item.value.split("."):
                    self.read_step(None, part)
            else:
                self.plan.everything = self.line

    def compare_identity(self, ins: dis.Instruction) -> None:
        if any(isinstance(self.stack.peek(i), Const) for i in (1, 2)):  # `is None`: nothing is asked of the value
            self.stack.take()
            self.stack.take()
        else:
            self.stack.use(2)
            self.plan.asks_identity = True
        self.stack.push(None)

    def iterate(self, ins: dis.Instruction) -> None:
        (item,) = self.stack.use()
        if isinstance(item, Link):
            item.iterated = self.line
        self.stack.push(None)

    def constant(self, ins: dis.Instruction) -> None:
        self.stack.push(Const(ins.argval))

    def build(self, ins: dis.Instruction) -> None:
        for item in self.stack.use(1 - dis.stack_effect(ins.opcode, ins.arg)):
            if isinstance(item, Link):
                item.passed = self.line
        self.stack.push(OWN)

    def push_null(self, ins: dis.Instruction) -> None:
        self.stack.push(NULL)

    def pop_top(self, ins: dis.Instruction) -> None:
        self.stack.take()

    def copy(self, ins: dis.Instruction) -> None:
        self.stack.push(self.stack.peek(ins.arg or 1))

    def copy_two(self, ins: dis.Instruction) -> None:
        self.stack.push(self.stack.peek(2))
        self.stack.push(self.stack.peek(2))

    def swap(self, ins: dis.Instruction) -> None:
        self.stack.swap(ins.arg or 2)

    def rotate(self, ins: dis.Instruction) -> None:
        self.stack.rotate({"ROT_TWO": 2, "ROT_THREE": 3, "ROT_FOUR": 4}.get(ins.opname, ins.arg or 2))


def _collect(link: Link, passed: set[str], stores: set[str]) -> None:
    for (_, key), inner in link.steps.items():
        if inner.steps:
            passed.add(key)
        if inner.stores:
            stores.add(key)
        _collect(inner, passed, stores)


def _read_after(links: Iterable[Link], stored: set[Any], is_after: bool = False) -> set[Any]:
    """The names that chains read after one of those that are assigned."""
    names: set[Any] = set()
    for link in links:
        follows = is_after or link.name in stored
        names.update([key for _, key in link.steps] if follows else ())
        names |= _read_after(link.steps.values(), stored, follows)
    return names


_RULES: Final[dict[str, Any]] = {
    **dict.fromkeys(("LOAD_GLOBAL", "LOAD_NAME"), _Walk.load_global),
    **dict.fromkeys(
        ("LOAD_DEREF", "LOAD_CLASSDEREF", "LOAD_CLOSURE", "LOAD_FAST", "LOAD_FAST_CHECK"), _Walk.load_local
    ),
    **dict.fromkeys(("LOAD_FAST_BORROW", "LOAD_FAST_LOAD_FAST", "LOAD_FAST_BORROW_LOAD_FAST_BORROW"), _Walk.load_local),
    **dict.fromkeys(("STORE_FAST", "STORE_FAST_STORE_FAST"), _Walk.store_local),
    "STORE_FAST_LOAD_FAST": _Walk.store_then_load,
    **dict.fromkeys(("STORE_GLOBAL", "DELETE_GLOBAL"), _Walk.store_global),
    **dict.fromkeys(("STORE_NAME", "DELETE_NAME"), _Walk.store_name),
    "IS_OP": _Walk.compare_identity,
    **{name: _Walk.pop_top for name in dis.opmap if name.endswith(("IF_NONE", "IF_NOT_NONE"))},
    **dict.fromkeys(STORE_CELL, _Walk.store_cell),
    "IMPORT_NAME": _Walk.import_name,
    "IMPORT_FROM": _Walk.import_from,
    **dict.fromkeys(("LOAD_ATTR", "LOAD_METHOD"), _Walk.load_attr),
    "LOAD_SUPER_ATTR": _Walk.load_super,
    "MATCH_CLASS": _Walk.match_class,
    **dict.fromkeys(("STORE_ATTR", "DELETE_ATTR"), _Walk.store_attr),
    "BINARY_SUBSCR": _Walk.subscript,
    **dict.fromkeys(("STORE_SUBSCR", "DELETE_SUBSCR"), _Walk.store_subscript),
    "STORE_SLICE": _Walk.store_slice,
    "BINARY_OP": _Walk.binary,
    **{name: _Walk.in_place for name in dis.opmap if name.startswith("INPLACE_")},
    **dict.fromkeys(
        ("CALL", "CALL_KW", "CALL_FUNCTION", "CALL_METHOD", "CALL_FUNCTION_KW", "CALL_FUNCTION_EX"), _Walk.call
    ),
    "GET_ITER": _Walk.iterate,
    **dict.fromkeys(("LOAD_CONST", "LOAD_SMALL_INT"), _Walk.constant),
    **dict.fromkeys(("BUILD_LIST", "BUILD_MAP", "BUILD_SET", "BUILD_CONST_KEY_MAP"), _Walk.build),
    "PUSH_NULL": _Walk.push_null,
    "POP_TOP": _Walk.pop_top,
    "COPY": _Walk.copy,
    "DUP_TOP": _Walk.copy,
    "DUP_TOP_TWO": _Walk.copy_two,
    "SWAP": _Walk.swap,
    **dict.fromkeys(("ROT_TWO", "ROT_THREE", "ROT_FOUR", "ROT_N"), _Walk.rotate),
}

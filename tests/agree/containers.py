"""Random steps of an object that keeps tensors in containers of every kind, written and read by its methods,
properties, hooks, nested functions and other objects; the source, and what can be seen of the objects."""

from __future__ import annotations

import dataclasses
import linecache
import threading
from collections import deque
from dataclasses import dataclass
from typing import Any

import numpy as np

import weft

PRELUDE = '''
import collections, dataclasses, threading, weft
Pair = collections.namedtuple("Pair", "first second")
kept = []

@dataclasses.dataclass
class Record:
    value: object
    count: int
    parts: list

@dataclasses.dataclass(frozen=True)
class Frozen:
    value: object
    def put(self, v): object.__setattr__(self, "value", v)

class Store:
    def __init__(self): self.rows, self.last, self.count = [], None, 0
    def put(self, v):
        self.rows.append(v); self.last = v; self.count += 1
    def note(self, held, v): log(held, v); self.count += 1
    def newest(self, v): return v if self.last is None else self.last + len(self.rows)
    @property
    def first(self): return self.rows[0] if self.rows else 1.0

def log(held, v): held.append(v)
def log_all(groups, **values):
    for name, v in values.items(): groups[name].append(v)
def latest(held, other): return held[-1] if held else other
def size_or(held=None):
    held = held or [0]
    return len(held)
def sizes_of(*several, **named): return sum(len(each) for each in (*several, *named.values()))
sizes = {"b": len, "a": lambda held: 3}
def count_of(groups, *names): return sum(len(groups[name]) for name in names)

def make_cell(start):
    last, many = start, [start]
    def put(v):
        nonlocal last, many
        last = v
        many = [*many[-1:], v]
    def get(): return last + sum(many)
    return put, get

class Base:
    shared = []
    def __init__(self, w):
        one = weft.ones(3)
        self.w, self.layer = w, weft.nn.Linear(3, 3)
        with weft.no_grad():
            self.layer.weight.fill_(0.25); self.layer.bias.fill_(0.5)
        self.items, self.table, self.names = [one * 2], {"a": one, "n": 1}, {"x"}
        self.recent = collections.deque([one], 2)
        self.record, self.pair = Record(one, 0, [one]), Pair(one, one * 3)
        self.other = self.record
        self.ordered, self.groups = collections.OrderedDict(k=one), collections.defaultdict(list)
        self.nested, self.store, self.flag, self.n, self.cur = {"rows": [[one]]}, Store(), False, 0, one
        self.size = 1
        self.alias, self.cell, self.stores = self.items, make_cell(one), [Store(), Store()]
        self.cells = {"a": make_cell(one * 2), "b": make_cell(one * 3)}
        self.frozen, self.mine, self.tagged = Frozen(one), threading.local(), one * 4
        self.mine.last = self.tagged.tag = one
        self.before, self.both = self.pair, (self.pair, self.items)
        Model.shared = []
        self.layer.register_forward_hook(self.hook)
    def settle(self):
        free = lambda t: t.detach() if isinstance(t, weft.Tensor) else t
        for held in (self.items, self.store.rows, *self.groups.values(), *self.nested["rows"], Model.shared, kept):
            held[:] = [free(v) for v in held]
        for held in (self.table, self.ordered):
            for key in held: held[key] = free(held[key])
        for i in range(len(self.recent)): self.recent[i] = free(self.recent[i])
        for store in (self.store, *self.stores):
            store.last = free(store.last)
            store.rows[:] = [free(v) for v in store.rows]
        for record in (self.record, self.other):
            record.value, record.parts = free(record.value), [free(v) for v in record.parts]
        self.pair, self.cur = Pair(free(self.pair.first), free(self.pair.second)), free(self.cur)
        for put, get in (self.cell, *self.cells.values()):
            put(free(get()) * 0.125)
            put(free(get()) * 0.125)
        self.frozen.put(free(self.frozen.value))
        self.mine.last, self.tagged.tag = free(self.mine.last), free(self.tagged.tag)
        self.alias = self.items
        self.before, self.both = self.pair, (self.pair, self.items)
        for name in [name for name in vars(self) if name.startswith("new")]:
            setattr(self, name, free(getattr(self, name)))
'''
WRITES = (
    "self.items.append({v})", "self.items = [{v}]", "self.items.insert(0, {v})", "self.items.extend([{v}, {v} * 2])",
    "self.items[-2:] = [{v}]", "self.items += [{v}]", "del self.items[:-2]", "self.items.clear()",
    "self.items.reverse()",
    "self.items and self.items.pop()", "self.alias.append({v})", "self.items[:] = [t * 0.5 for t in self.items]",
    "self.table['a'] = {v}", "self.table.update(b={v})", "self.table.pop('a', None)", "self.table.setdefault('c', {v})",
    "self.table = {{'a': {v}, 'n': len(self.table)}}", "self.table |= {{'d': {v}}}",
    "self.table.setdefault('n', 0); self.table['n'] += 1",
    "self.recent.append({v})", "self.recent.appendleft({v})", "self.recent.rotate(1)",
    "self.recent and self.recent.popleft()", "self.names.add('y')", "self.names.discard('x')",
    "self.names ^= {{'x', 'z'}}", "self.names.update('pqrs')",
    "self.record.value = {v}", "self.record.count += 1", "self.record.parts.append({v})",
    "self.record = Record({v}, self.record.count + 1, [])", "self.record = dataclasses.replace(self.record, value={v})",
    "self.pair = Pair({v}, self.pair.first)", "self.pair = self.pair._replace(second={v})", "self.ordered['k'] = {v}",
    "self.ordered['j'] = {v}; self.ordered.move_to_end('j', last=False)", "self.ordered and self.ordered.popitem()",
    "self.groups['g'].append({v})", "self.groups['h'] = [{v}]", "del self.groups['g'][:-1]",
    "self.nested['rows'].append([{v}])", "self.nested['rows'][-1].append({v})", "self.nested = {{'rows': [[{v}]]}}",
    "Model.shared = [{v}]", "Model.shared.append({v})", "kept.append({v})", "put_kept({v})", "self.store.put({v})",
    "self.stores[self.n % 2].put({v})", "self.store.rows = [{v}]; self.store.last = {v}", "self.cell[0]({v})",
    "self.flag = not self.flag", "self.n += 1", "self.cur = {v}", "self.cur = self.items[0] if self.items else {v}",
    "setattr(self, 'cur', {v})", "self.__dict__['cur'] = {v}",
    "self.frozen.put({v})", "self.mine.last = {v}", "self.tagged.tag = {v}",
    "self.items.sort(key=id) if len(self.items) < 2 else None",
    # one new container in two places
    "self.items = self.alias = [{v}]", "self.record.parts = self.items = [{v}]",
    "self.nested = {{'rows': [[{v}]] * 2}}",
    "self.stores[0].rows = self.stores[1].rows = [{v}]", "self.groups['g'] = self.groups['h'] = [{v}]",
    "self.record = self.other = Record({v}, self.n, [])",
    # sizes and numbers that change as keys
    "self.table[self.size] = {v}", "self.ordered[self.n] = {v}", "self.groups[(self.size, 'g')] = [{v}]",
    "self.table = {{self.size: {v}}}",
    # tuples that were there, and one new one in two places
    "self.before = self.pair", "self.before, self.pair = self.pair, self.before", "self.both = (self.pair, self.items)",
    "self.pair, self.before = self.both[0], self.pair", "self.before = self.pair = Pair({v}, {v} * 2)",
    "self.both = (self.before, self.both)",
    # other tuples of the same
    "self.before = Pair(*self.pair)", "self.pair = Pair(*self.pair)", "self.both = (*self.both,)",
    "self.before = Pair(*self.before); self.both = (self.before, self.items)",
    # names that are made at run time, or not there yet
    "setattr(self, 'new', {v})", "setattr(self, f'new{{len(self.items) % 3}}', {v})", "self.newest = {v}",
    "setattr(self, 'couple' + 'd' * self.flag, ({v}, 1))", "vars(self)['new_' + str(self.size)] = {v}",
    "hasattr(self, 'new') and delattr(self, 'new')", "setattr(self.store, 'new', {v})",
    "setattr(Model, 'newer', self.n)",
    # by functions that are given the container, and under keys that the line does not name
    "log(self.items, {v})", "log(self.groups['g'], {v})", "log(self.nested['rows'][-1], {v})", "log(kept, {v})",
    "self.store.note(self.items, {v})", "log_all(self.groups, g={v}, h={v} * 2)", "log_all(self.groups, i={v})",
    "self.groups.setdefault('i', []).append({v})", "self.groups['gh'[self.n % 2]].append({v})",
    "self.nested.get('rows')[-1].append({v})", "self.nested['rows'][self.n % 2 - 1].extend([{v}])",
    # by functions of the same code
    "self.cells['a'][0]({v})", "self.cells['ab'[self.n % 2]][0]({v})", "[put({v}) for put, _ in self.cells.values()]",
)
READS = (
    "(self.items[-1] if self.items else {v})", "sum(self.items, {v})", "self.table.get('a', {v})",
    "{v} * len(self.alias)",
    "sum(self.table.values()) * 0.5", "(self.recent[0] if self.recent else {v})", "sum(self.recent, {v})",
    "({v} if 'x' in self.names else {v} * 2)", "(self.record.value + self.record.count)",
    "(self.record.parts[-1] if self.record.parts else {v})", "self.pair.second", "self.pair[0]",
    "([*self.ordered.values()][0] if self.ordered else {v})", "sum(self.groups['g'], {v})",
    "self.nested['rows'][-1][-1]", "sum([sum(r) for r in self.nested['rows']])",
    "(Model.shared[0] if Model.shared else {v})",
    "(kept[-1] if kept else {v})", "self.store.newest({v})", "({v} * self.store.first)",
    "self.stores[self.n % 2].newest({v})",
    "self.cell[1]()", "({v} if self.flag else {v} * 3)", "({v} * (self.n + 1))", "self.cur", "getattr(self, 'cur')",
    "self.layer({v})", "self.frozen.value", "self.mine.last", "({v} * self.tagged.tag)",
    # which of them are one object
    "({v} if self.items is self.alias else {v} * 2)", "({v} * (2 if self.record is self.other else 3))",
    "({v} if self.stores[0].rows is self.stores[1].rows else {v} * 4)",
    "({v} if self.record.parts is self.items else {v} * 5)",
    "({v} * sum(r is self.items for r in (self.alias, *self.nested['rows'])))",
    "({v} if id(self.items) == id(self.alias) else {v} * 6)",
    "({v} if self.before is self.pair else {v} * 7)", "(self.before.first * (2 if self.both[0] is self.pair else 3))",
    "getattr(self, 'new', {v})", "sum([t for n, t in vars(self).items() if n in ('new', 'new1', 'newest')], {v})",
    "(self.newest if hasattr(self, 'newest') else {v} * 8)",
    "({v} * len([n for n in vars(self) if n.startswith('new')]))",
    "getattr(self.store, 'new', {v} * 9)",
    # what functions read that are given the container, and under keys that the line does not name
    "latest(self.items, {v})", "latest(self.groups.get('h', ()), {v})",
    "latest(self.nested['rows'][self.n % 2 - 1], {v})", "latest(self.groups['gh'[self.n % 2]], {v})",
    "({v} * count_of(self.groups, 'g', 'i'))", "({v} * size_or(self.items))", "({v} * size_or(self.groups.get('h')))",
    "({v} * sizes_of(self.items, g=self.groups['g']))", "({v} * sizes['ab'[self.n % 2]](self.items))",
    "({v} * sum(map(len, self.groups.values())))", "self.nested.get('rows')[-1][-1]",
    "(self.cells['a'][1]() - self.cells['b'][1]())", "sum([get() for _, get in self.cells.values()], self.cell[1]())",
)

GIVEN = (  # what a call is given besides: nothing, a list of its own, or one that the object keeps
    "()", "()", "()", "[self.w.detach()]", "self.items", "self.alias", "self.store.rows", "self.groups['g']",
)
BETWEEN = (  # what the caller does between two calls: others take the places of what the object keeps
    "self.items = []", "self.items = self.items[:]", "self.items = self.alias", "self.alias = self.items",
    "self.alias = []", "self.items = list(self.recent)", "self.items.clear()", "del self.items[1:]",
    "self.recent = collections.deque([], 3)", "self.recent = collections.deque(self.recent)",
    "self.groups['g'] = []", "self.groups['h'] = self.groups['g']", "self.groups['g'] = self.items",
    "self.groups['i'] = [*self.groups['h']]", "self.groups.clear()",
    "self.nested['rows'] = [[self.w.detach()]]", "self.nested['rows'][-1] = self.nested['rows'][-1][:]",
    "self.nested['rows'].append(self.items)", "self.nested = {'rows': self.nested['rows']}",
    "self.store.rows = []", "self.store.rows = self.items", "self.stores[0].rows = self.stores[1].rows",
    "self.stores[1].rows = []", "self.stores.reverse()", "self.store = Store()",
    "self.record.parts = []", "self.record.parts = self.items", "self.record = self.other",
    "kept = []", "kept = self.items", "kept = [*kept]", "Model.shared = []", "Model.shared = self.items",
    "self.table = dict(self.table)", "self.ordered = collections.OrderedDict(self.ordered)", "self.names = {'x'}",
    "self.flag = not self.flag",
    "self.cells['b'][0](self.w.detach() * 0.5)", "self.cells['a'], self.cells['b'] = self.cells['b'], self.cells['a']",
    "self.cells['a'] = self.cells['b']", "self.cells['b'] = make_cell(self.w.detach())",
)


@dataclass
class Keeping:
    """The source of a class with `step(x, flag, fail)`, under a file name of its own."""

    source: str
    name: str
    wants_grad: bool

    def make(self) -> tuple[Any, dict[str, Any]]:
        """A fresh object, and the names that its class knows."""
        linecache.cache[self.name] = (len(self.source), None, self.source.splitlines(True), self.name)
        names: dict[str, Any] = {"__name__": __name__}
        exec(compile(self.source, self.name, "exec"), names)
        return names["Model"](weft.full((3,), 0.5, requires_grad=self.wants_grad)), names


def change_between(model: Any, names: dict[str, Any], statement: str) -> Any:
    """Run one of these statements, as the caller of the object does; the value of an expression."""
    exec("def change(self):\n    global kept\n    " + statement, names)
    return names.pop("change")(model)


def draw_keeping(rng: np.random.Generator) -> Keeping:
    """A class with a few methods, each of which writes and reads."""
    writes, reads = rng.choice(WRITES, size=rng.integers(3, 9)), rng.choice(READS, size=6)
    wants_grad = bool(rng.random() < 0.5)
    lines = [PRELUDE, "def put_kept(v):", "    global kept", "    kept = [*kept[-1:], v]", "class Model(Base):"]
    methods = []
    for i in range(3):
        own = [str(w).format(v=f"(v * {i + 1})") for w in writes[i::3]] or ["pass"]
        body = [_placed(rng, w) for w in own]
        give = str(reads[i]).format(v="v")
        if rng.random() < 0.3:
            lines += ["    @property", f"    def p{i}(self): return self.r{i}(self.cur)"]
            lines += [f"    @p{i}.setter", f"    def p{i}(self, v): self.m{i}(v)"]
            methods.append(f"self.p{i} = v; out = out + self.p{i}")
        else:
            methods.append(f"self.m{i}(v); out = out + self.r{i}(v)")
        lines += [f"    def m{i}(self, v):", *("        " + part for b in body for part in b)]
        lines += [f"    def r{i}(self, v): return {give}"]
    hook = str(rng.choice(WRITES)).format(v="out")
    lines += ["    def hook(self, module, args, out):", f"        {hook}"]
    lines += ["    def step(self, x, flag, fail, given=()):", "        v = (x * self.w).mean(0)", "        out = v"]
    lines += ["        self.size = x.shape[0]"] if rng.random() < 0.5 else []
    order = [methods[i] for i in rng.integers(0, 3, size=rng.integers(2, 5))]
    for i, line in enumerate(order):
        if i == len(order) // 2:
            lines += ["        if fail: raise fail('stopped')"]
        lines += [f"        if flag: {line}" if rng.random() < 0.2 else f"        {line}"]
    lines += ["        out = out + sum(given, v * 0)"]
    lines += ["        " + str(reads[4]).format(v="v") if rng.random() < 0.3 else "        pass"]
    if wants_grad:
        lines += ["        self.w.grad = None", "        out.sum().backward()", "        out = out.detach()"]
        lines += ["        self.settle()"]
    lines += ["        return out", ""]
    return Keeping("\n".join(lines), f"<keeping {rng.integers(10**9)}>", wants_grad)


def _placed(rng: np.random.Generator, statement: str) -> list[str]:
    """A statement, within a condition, a loop or a nested function now and then."""
    place = rng.random()
    if place < 0.1:
        return ["if self.flag:", *("    " + s for s in statement.split("; "))]
    if place < 0.2:
        return ["for _ in range(2):", *("    " + s for s in statement.split("; "))]
    if place < 0.3:
        return ["def inner(v):", *("    " + s for s in statement.split("; ")), "inner(v)"]
    return statement.split("; ")


def state_of(model: Any, names: dict[str, Any]) -> list[Any]:
    """All that can be seen of the object and its class: kinds, values, and which things are one."""
    first: dict[int, int] = {}
    attributes = {name: value for name, value in vars(model).items() if name != "_weft_compiled"}
    return [_seen(value, first) for value in (attributes, vars(names["Model"]).get("shared"), names["kept"])]


def _seen(value: Any, first: dict[int, int]) -> Any:
    if isinstance(value, weft.Tensor):
        at = first.setdefault(id(value), len(first))
        return ("tensor", at, value.detach().tolist(), value.requires_grad, _seen(vars(value), first))
    if isinstance(value, weft.nn.Module):
        return [_seen(p, first) for p in value.parameters()]
    if isinstance(value, (list, tuple, deque)):
        at = None if value == () else first.setdefault(id(value), len(first))  # (empty tuples are Python's own)
        return (type(value).__name__, at, [_seen(v, first) for v in value])
    if isinstance(value, dict):
        at = first.setdefault(id(value), len(first))
        return (type(value).__name__, at, [(_key(k), _seen(v, first)) for k, v in value.items()])
    if isinstance(value, set):
        return sorted(value)
    if hasattr(value, "__closure__"):
        return [_seen(c.cell_contents, first) for c in value.__closure__ or ()]
    if dataclasses.is_dataclass(value) or type(value).__name__ == "Store" or isinstance(value, threading.local):
        at = first.setdefault(id(value), len(first))
        return (type(value).__name__, at, [(k, _seen(v, first)) for k, v in vars(value).items()])
    return value


def _key(key: Any) -> Any:
    """A key with its type: a symbol that was left is equal to its number."""
    return tuple(map(_key, key)) if isinstance(key, tuple) else (type(key).__name__, key)

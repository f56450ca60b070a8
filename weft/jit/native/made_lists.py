"""Lists that machine code makes: written out, repeated, joined, copied, parts of others; and looking for elements.

A record that the code has made knows the one made before it; the frame knows the last one, and how many there are.
Whoever calls the code turns those that it gives back into Python's lists, and frees all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from weft.codegen.emit import F64, I64, NULL, PTR, VOID, Module, Signature, const
from weft.codegen.emit import Value as Number
from weft.jit.native.elements import ListOperations, NativeList, grow, list_in, store_words
from weft.jit.native.kinds import Unfit, scalars
from weft.jit.native.lists import COUNT, DATA, LENGTH, LIST, MADE, OWNED, ROOM, WORDS, WRITTEN
from weft.types.tensor_type import BOOL, FLOAT, INT, ListType, Type

NEW, RESERVE, FREE_MADE = "weft_new", "weft_reserve", "weft_free_made"
SOFT, HARD = 1 << 18, 1 << 21  # lists: where a loop comes back to Python, where it leaves even within a step


class MadeLists(ListOperations):
    """Operations that make lists. Who derives from it has a frame. wanted: the type of what a node results in."""

    frame: Number
    wanted: Type | None = None
    note_made: Callable[[], None]

    def new_list(self, elements: Sequence[Any]) -> NativeList:
        """A list that is written out."""
        if not isinstance(self.wanted, ListType) or not isinstance(elements, tuple):
            raise Unfit("a list of what has no form")
        kind = self.wanted.element
        words = [n for e in elements for n in self.flat(e, kind)]
        new = self._made(const(I64, len(elements)), kind)
        store_words(self.f, words, self._start(new))
        return new

    def repeated(self, items: Any, times: Any) -> NativeList:
        """The elements so many times."""
        f, native = self.f, list_in(items)
        count, length = self._wide(times), self.length(native)
        count = f.select(f.icmp("slt", count, 0), const(I64, 0), count)
        repeated = self._made(f.mul(count, length), native.element)
        target, source = self._start(repeated), self._start(native)
        words = f.mul(length, len(scalars(native.element)))
        with f.while_loop([(const(I64, 0), "i")]) as loop:
            (i,) = loop.carried
            loop.test(f.icmp("slt", i, count))
            f.memcpy(f.gep(I64, target, f.mul(i, words)), source, f.mul(words, 8))
            loop.next(f.add(i, 1))
        return repeated

    def joined(self, first: Any, second: Any) -> NativeList:
        """The elements of the one, then of the other."""
        a, b = list_in(first), list_in(second)
        if a.element is not b.element:
            raise Unfit("lists of two types")
        before, after = self.length(a), self.length(b)
        joined = self._made(self.f.add(before, after), a.element)
        self._copy(joined, const(I64, 0), a, const(I64, 0), before)
        self._copy(joined, before, b, const(I64, 0), after)
        return joined

    def part(self, items: Any, start: Any, stop: Any, step: Any) -> NativeList:
        """The elements from one place to another. Raises Unfit for steps."""
        if step is not None and getattr(step, "const", step) != 1:
            raise Unfit("a slice with steps")
        native = list_in(items)
        length = self.length(native)
        first = self._bound(start, const(I64, 0), length)
        count = self.f.sub(self._bound(stop, length, length), first)
        count = self.f.select(self.f.icmp("slt", count, 0), const(I64, 0), count)
        part = self._made(count, native.element)
        self._copy(part, const(I64, 0), native, first, count)
        return part

    def _bound(self, place: Any, default: Number, length: Number) -> Number:
        """A bound of a slice, within the list."""
        if place is None:
            return default
        f, at = self.f, self._wide(place)
        at = f.select(f.icmp("slt", at, 0), f.add(at, length), at)
        at = f.select(f.icmp("slt", at, 0), const(I64, 0), at)
        return f.select(f.icmp("sgt", at, length), length, at)

    # ---- looking for elements
    def has_element(self, items: Any, item: Any) -> Number:
        """Whether there is such an element."""
        native = list_in(items)
        length = self.length(native)
        return self.f.icmp("slt", self._place_of(native, item, length), length)

    def place_of(self, items: Any, item: Any, start: Any, stop: Any) -> Number:
        """Where the first such element is. It leaves where there is none."""
        if start is not None or stop is not None:
            raise Unfit("a part of a list that is looked through")
        native = list_in(items)
        length = self.length(native)
        at = self._place_of(native, item, length)
        self.leave_if(self.f.icmp("eq", at, length))
        return at

    def _place_of(self, items: NativeList, item: Any, length: Number) -> Number:
        f = self.f
        if items.element not in (INT, FLOAT, BOOL):
            raise Unfit("elements that are no single numbers")
        wanted = self._number(item)
        if wanted.type is F64:
            self.leave_if(f.fcmp("uno", wanted, wanted))  # Python finds the same object, which is not equal
        with f.while_loop([(const(I64, 0), "i"), (length, "found")]) as loop:
            i, place = loop.carried
            loop.test(f.icmp("slt", i, place))  # (up to the one that was found)
            same = self.compare("eq", self._loaded(items, self._place(items, i)), wanted)
            loop.next(f.add(i, 1), f.select(same, i, place))
        return loop.results[1]

    # ---- writing
    def extend(self, items: Any, others: Any) -> None:
        """Put elements at the end. It leaves where there is no memory."""
        f, target, source = self.f, list_in(items), list_in(others)
        if target.element is not source.element:
            raise Unfit("lists of two types")
        length, count = self.length(target), self.length(source)
        total = f.add(length, count)
        size = const(I64, 8 * len(scalars(target.element)))
        self.leave_if(f.icmp("ne", f.call(_reserve(f.module), [target.record, size, total], "failed"), 0))
        self._copy(target, length, source, const(I64, 0), count)
        f.store(total, self._word(target, LENGTH))
        f.store(const(I64, 1), self._word(target, WRITTEN))

    def clear(self, items: Any) -> None:
        """No element is left."""
        native = list_in(items)
        self.f.store(const(I64, 0), self._word(native, LENGTH))
        self.f.store(const(I64, 1), self._word(native, WRITTEN))

    # ---- memory
    def _start(self, items: NativeList) -> Number:
        return self.f.load(PTR, self._word(items, DATA), align=8, name="elements")

    def _copy(self, target: NativeList, at: Number, source: NativeList, first: Number, count: Number) -> None:
        width = len(scalars(source.element))
        self.f.memcpy(self._place(target, at), self._place(source, first), self.f.mul(count, 8 * width))

    def _made(self, count: Number, element: Type) -> NativeList:
        """A list of so many elements, which are yet to be written. It leaves where there is no memory."""
        self.note_made()
        record = self.f.call(_new(self.f.module), [self.frame, count, const(I64, 8 * len(scalars(element)))], "list")
        self.leave_if(self.f.icmp("eq", record, NULL))
        return NativeList(record, element)


def _new(module: Module) -> Signature:
    """A function of the frame, a number of elements and their bytes: a new record, or NULL."""
    existing = module.functions.get(NEW)
    if existing is not None:
        return existing.signature
    f = module.function(NEW, PTR, [(PTR, "frame"), (I64, "count"), (I64, "bytes")], internal=True)
    frame, count, size = f.params
    counted, last = f.gep(I64, frame, COUNT), f.gep(I64, frame, MADE)
    number = f.load(I64, counted)
    with f.if_(f.icmp("sge", number, HARD), "many"):
        f.ret(NULL)
    malloc = module.declare("malloc", PTR, [I64])
    record = f.call(malloc, [const(I64, 8 * (WORDS + 1))], "record")
    with f.if_(f.icmp("eq", record, NULL), "none"):
        f.ret(NULL)
    memory = f.call(malloc, [f.add(f.mul(count, size), 8)], "memory")
    with f.if_(f.icmp("eq", memory, NULL), "none"):
        f.call(module.declare("free", VOID, [PTR]), [record])
        f.ret(NULL)
    for word, value in ((LENGTH, count), (ROOM, count), (WRITTEN, const(I64, 1)), (OWNED, const(I64, 1))):
        f.store(value, f.gep(I64, record, word))
    f.store(memory, f.gep(I64, record, DATA), align=8)
    f.store(f.load(PTR, last, align=8), f.gep(I64, record, LIST), align=8)
    f.store(record, last, align=8)
    f.store(f.add(number, 1), counted)
    f.ret(record)
    return f.signature


def _reserve(module: Module) -> Signature:
    """A function of a record, the bytes of an element and a number of elements: room for them. It gives 1 where there
    is none.
    """
    existing = module.functions.get(RESERVE)
    if existing is not None:
        return existing.signature
    f = module.function(RESERVE, I64, [(PTR, "record"), (I64, "bytes"), (I64, "count")], internal=True)
    record, size, count = f.params
    with f.while_loop() as loop:
        loop.test(f.icmp("slt", f.load(I64, f.gep(I64, record, ROOM)), count))
        with f.if_(f.icmp("ne", f.call(grow(module), [record, size], "failed"), 0), "none"):
            f.ret(const(I64, 1))
        loop.next()
    f.ret(const(I64, 0))
    return f.signature


def emit_free_made(module: Module) -> str:
    """The name of a function that frees a record that the code has made, and those made before it."""
    f = module.function(FREE_MADE, I64, [(PTR, "record")])
    free = module.declare("free", VOID, [PTR])
    with f.while_loop([(f.params[0], "record")]) as loop:
        (record,) = loop.carried
        loop.test(f.icmp("ne", record, NULL))
        before = f.load(PTR, f.gep(I64, record, LIST), align=8)
        f.call(free, [f.load(PTR, f.gep(I64, record, DATA), align=8)])
        f.call(free, [record])
        loop.next(before)
    f.ret(const(I64, 0))
    return f.name

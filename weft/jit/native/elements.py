"""What is done with a list of numbers, in machine code: reading, writing, putting at the end, taking away."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from weft.codegen.emit import I1, I64, NULL, PTR, VOID, Function, Module, Signature, const
from weft.codegen.emit import Value as Number
from weft.jit.native.arithmetic import PythonNumbers
from weft.jit.native.kinds import Unfit, llvm_type, scalars
from weft.jit.native.lists import DATA, LENGTH, OWNED, ROOM, WRITTEN
from weft.types.tensor_type import Type

GROW, FREE = "weft_grow", "weft_free"
LEAST = 16  # elements that a list has room for when it grows


@dataclass(frozen=True)
class NativeList:
    """A list in machine code: the address of its record, and the type of its elements."""

    record: Number
    element: Type


class ListOperations(PythonNumbers):
    """The operations of catalogue/language/native.py, those on lists too. Who derives from it reads and builds values.
    """

    def flat(self, value: Any, kind: Type) -> Iterator[Number]:
        """The numbers of a value."""
        raise NotImplementedError

    def built(self, numbers: Iterator[Number], kind: Type) -> Any:
        """A value of numbers."""
        raise NotImplementedError

    def _word(self, items: NativeList, word: int) -> Number:
        return self.f.gep(I64, items.record, word)

    def _read(self, items: NativeList, word: int, name: str) -> Number:
        return self.f.load(I64, self._word(items, word), name=name)

    def length(self, items: Any) -> Number:
        """How many elements there are."""
        return self._read(list_in(items), LENGTH, "length")

    def _address(self, items: NativeList, index: Any, length: Number) -> Number:
        """The address of an element. It leaves where there is none."""
        f = self.f
        at = self._wide(index)
        if at.const is None:
            at = f.select(f.icmp("slt", at, 0), f.add(at, length), at)
        elif at.const < 0:
            at = f.add(length, at)
        self.leave_if(f.icmp("uge", at, length))
        return self._place(items, at)

    def _place(self, items: NativeList, at: Number) -> Number:
        start = self.f.load(PTR, self._word(items, DATA), align=8, name="elements")
        return self.f.gep(I64, start, self.f.mul(at, len(scalars(items.element))))

    def element(self, items: Any, index: Any) -> Any:
        """An element, counted from the end where the index is negative."""
        native = list_in(items)
        return self._loaded(native, self._address(native, index, self.length(native)))

    def _loaded(self, items: NativeList, place: Number) -> Any:
        return self.built(iter(load_words(self.f, scalars(items.element), place)), items.element)

    def set_element(self, items: Any, index: Any, item: Any) -> None:
        """Put an element in place."""
        native = list_in(items)
        numbers = list(self.flat(item, native.element))
        self._put(native, self._address(native, index, self.length(native)), numbers)

    def _put(self, items: NativeList, place: Number, numbers: list[Number]) -> None:
        store_words(self.f, numbers, place)
        self.f.store(const(I64, 1), self._word(items, WRITTEN))

    def append(self, items: Any, item: Any) -> None:
        """Put an element at the end. It leaves where there is no memory."""
        f, native = self.f, list_in(items)
        numbers, length = list(self.flat(item, native.element)), self.length(native)
        is_full = f.icmp("uge", length, self._read(native, ROOM, "room"))
        with f.if_else(is_full) as branches:
            with branches.then:
                branches.give(f.call(grow(f.module), [native.record, const(I64, 8 * len(numbers))], "failed"))
            with branches.otherwise:
                branches.give(const(I64, 0))
        self.leave_if(f.icmp("ne", branches.results[0], 0))
        self._put(native, self._place(native, length), numbers)
        f.store(f.add(length, 1), self._word(native, LENGTH))

    def take_last(self, items: Any, at: Any) -> Any:
        """The last element, which goes. Raises Unfit for another."""
        if at is not None and getattr(at, "const", at) != -1:
            raise Unfit("an element in the middle that goes")
        native = list_in(items)
        length = self.length(native)
        self.leave_if(self.f.icmp("eq", length, 0))
        last = self.f.sub(length, 1)
        taken = self._loaded(native, self._place(native, last))
        self.f.store(last, self._word(native, LENGTH))
        self.f.store(const(I64, 1), self._word(native, WRITTEN))
        return taken


def list_in(items: Any) -> NativeList:
    """The list that a value is. Raises Unfit for what is none."""
    if not isinstance(items, NativeList):
        raise Unfit("an element of what is no list")
    return items


def load_words(f: Function, kinds: Sequence[Type], base: Number, first: int = 0) -> list[Number]:
    """Numbers of these types from consecutive words."""
    numbers = []
    for i, kind in enumerate(kinds, first):
        at, wanted = f.gep(I64, base, i), llvm_type(kind)
        number = f.load(I64 if wanted is I1 else wanted, at)
        numbers.append(f.icmp("ne", number, 0) if wanted is I1 else number)
    return numbers


def store_words(f: Function, numbers: Sequence[Number], base: Number, first: int = 0) -> None:
    """Numbers into consecutive words."""
    for i, number in enumerate(numbers, first):
        f.store(f.zext(number, I64) if number.type is I1 else number, f.gep(I64, base, i))


# ---- memory
def emit_free(module: Module) -> str:
    """The name of a function that frees memory."""
    f = module.function(FREE, I64, [(PTR, "memory")])
    f.call(module.declare("free", VOID, [PTR]), f.params)
    f.ret(const(I64, 0))
    return f.name


def grow(module: Module) -> Signature:
    """A function of a record and the bytes of an element: room for twice as many. It gives 1 where there is none."""
    existing = module.functions.get(GROW)
    if existing is not None:
        return existing.signature
    f = module.function(GROW, I64, [(PTR, "record"), (I64, "bytes")], internal=True)
    words = [f.gep(I64, f.params[0], i) for i in (DATA, LENGTH, ROOM, OWNED)]
    room = f.add(f.mul(f.load(I64, words[2]), 2), LEAST)
    memory = f.call(module.declare("malloc", PTR, [I64]), [f.mul(room, f.params[1])], "made")
    with f.if_(f.icmp("eq", memory, NULL), "none"):
        f.ret(const(I64, 1))
    old = f.load(PTR, words[0], align=8, name="old")
    f.memcpy(memory, old, f.mul(f.load(I64, words[1]), f.params[1]))
    with f.if_(f.icmp("ne", f.load(I64, words[3]), 0), "owned"):
        f.call(module.declare("free", VOID, [PTR]), [old])
    f.store(memory, words[0], align=8)
    f.store(room, words[2])
    f.store(const(I64, 1), words[3])
    f.ret(const(I64, 0))
    return f.signature

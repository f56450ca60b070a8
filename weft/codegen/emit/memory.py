"""Instructions that read and write memory: plain, masked, scattered and atomic."""

from __future__ import annotations

from .types import I1, I8, I32, I64, PTR, VOID, EmitError, LType, Value, const, like, poison, vec
from .vector import VectorOps

_RMW = frozenset(
    ["xchg", "add", "sub", "and", "nand", "or", "xor", "max", "min", "umax", "umin", "fadd", "fsub", "fmax", "fmin"]
)
_ORDERINGS = frozenset(["unordered", "monotonic", "acquire", "release", "acq_rel", "seq_cst"])


class MemoryOps(VectorOps):
    """Addresses, loads, stores, atomics. `align` is in bytes and defaults to one lane's size (vectors need no more)."""

    def gep(self, elem: LType, pointer: Value, index: Value | int, name: str = "", inbounds: bool = True) -> Value:
        """The address `index` elements of type `elem` after `pointer` (or a vector of addresses from
        a vector of indices)."""
        i = index if isinstance(index, Value) else const(I64, index)
        if pointer.type.kind != "ptr" or i.type.kind != "int":
            raise EmitError(f"gep: needs a pointer and an integer, got {pointer.type} and {i.type}")
        if i.const == 0 and not i.type.lanes:
            return pointer
        lanes = pointer.type.lanes or i.type.lanes
        text = (
            f"getelementptr {'inbounds ' if inbounds else ''}{elem.text}, {pointer.type.text} {pointer.text}, "
            f"{i.type.text} {i.text}"
        )
        return self._emit(vec(PTR, lanes) if lanes else PTR, text, name or "p")

    def alloca(self, elem: LType, count: int = 1, align: int = 0, name: str = "slot") -> Value:
        """Stack space for `count` elements, taken once on entry to the function wherever this is called."""
        register = "%" + self._fresh(name)
        self._allocas.append(f"  {register} = alloca {elem.text}, i64 {count}, align {align or elem.bytes}")
        return Value(PTR, register)

    def load(
        self, type: LType, pointer: Value, align: int = 0, name: str = "", volatile: bool = False, meta: str = ""
    ) -> Value:
        """A value of `type` read from memory; `meta` is metadata text such as "!noalias !2"."""
        _need_pointer("load", pointer)
        text = (
            f"load {'volatile ' if volatile else ''}{type.text}, ptr {pointer.text}, align {align or type.elem.bytes}"
        )
        return self._emit(type, f"{text}, {meta}" if meta else text, name or "load")

    def store(self, value: Value, pointer: Value, align: int = 0, volatile: bool = False, meta: str = "") -> None:
        """Write a value to memory."""
        _need_pointer("store", pointer)
        text = f"store {'volatile ' if volatile else ''}{value.type.text} {value.text}, ptr {pointer.text}, "
        self._do(f"{text}align {align or value.type.elem.bytes}{', ' + meta if meta else ''}")

    def masked_load(self, type: LType, pointer: Value, mask: Value) -> Value:
        """Lanes read where `mask` is true, zero elsewhere; memory under false lanes is not touched."""
        _need_mask("masked_load", type, mask)
        if mask.const:
            return self.load(type, pointer)
        args = (pointer, const(I32, type.elem.bytes), mask, const(type, 0))
        return self.intrinsic("masked.load", *args, result=type, overloads=[type, PTR], hint="load")

    def masked_store(self, value: Value, pointer: Value, mask: Value) -> None:
        """Lanes written where `mask` is true."""
        type = value.type
        _need_mask("masked_store", type, mask)
        if mask.const:
            self.store(value, pointer)
            return
        args = (value, pointer, const(I32, type.elem.bytes), mask)
        self.intrinsic("masked.store", *args, result=VOID, overloads=[type, PTR])

    def gather(
        self, type: LType, pointers: Value, mask: Value | None = None, other: Value | None = None, name: str = "gather"
    ) -> Value:
        """One lane from each address of a vector of pointers."""
        _need_pointers("gather", type, pointers)
        mask = const(like(I1, type), 1) if mask is None else mask
        _need_mask("gather", type, mask)
        rest = poison(type) if other is None else other
        args = (pointers, const(I32, type.elem.bytes), mask, rest)
        return self.intrinsic("masked.gather", *args, result=type, overloads=[type, pointers.type], hint=name)

    def scatter(self, value: Value, pointers: Value, mask: Value | None = None) -> None:
        """One lane to each address of a vector of pointers, lowest lane first."""
        type = value.type
        _need_pointers("scatter", type, pointers)
        mask = const(like(I1, type), 1) if mask is None else mask
        _need_mask("scatter", type, mask)
        args = (value, pointers, const(I32, type.elem.bytes), mask)
        self.intrinsic("masked.scatter", *args, result=VOID, overloads=[type, pointers.type])

    def atomicrmw(self, op: str, pointer: Value, value: Value, ordering: str = "seq_cst", name: str = "old") -> Value:
        """Combine memory with `value` in one step; gives what was there before. op: xchg, add, sub, and, or,
        xor, max, umax, ..."""
        _need_pointer("atomicrmw", pointer)
        _need_ordering("atomicrmw", ordering)
        if op not in _RMW or value.type.lanes:
            raise EmitError(f"atomicrmw {op}: no such operation on {value.type}")
        text = f"atomicrmw {op} ptr {pointer.text}, {value.type.text} {value.text} {ordering}, align {value.type.bytes}"
        return self._emit(value.type, text, name)

    def memcpy(self, target: Value, source: Value, size: Value) -> None:
        """Copy `size` (i64) bytes between places that do not overlap."""
        self._block_copy("memcpy", target, source, size)

    def _block_copy(self, op: str, target: Value, source: Value, size: Value) -> None:
        args = (target, source, size, const(I1, 0))
        self.intrinsic(op, *args, result=VOID, overloads=[PTR, PTR, I64])

    def memset(self, target: Value, byte: Value | int, size: Value) -> None:
        """Set `size` (i64) bytes."""
        value = byte if isinstance(byte, Value) else const(I8, byte)
        self.intrinsic("memset", target, value, size, const(I1, 0), result=VOID, overloads=[PTR, I64])

    def prefetch(self, pointer: Value, write: bool = False, level: int = 1) -> None:
        """Ask for the cache line at `pointer`, to be kept in the caches from a level on."""
        args = (pointer, const(I32, write), const(I32, 4 - level), const(I32, 1))
        self.intrinsic("prefetch", *args, result=VOID, overloads=[PTR])


def _need_pointer(op: str, pointer: Value) -> None:
    if pointer.type is not PTR:
        raise EmitError(f"{op}: the address must be {PTR}, got {pointer.type} ({pointer.text})")


def _need_pointers(op: str, type: LType, pointers: Value) -> None:
    if not type.lanes or pointers.type is not vec(PTR, type.lanes):
        raise EmitError(f"{op}: lanes of type {type} need as many addresses, got {pointers.type}")


def _need_mask(op: str, type: LType, mask: Value) -> None:
    if not type.lanes or mask.type is not vec(I1, type.lanes):
        raise EmitError(f"{op}: a mask for {type} cannot have type {mask.type}")


def _need_ordering(op: str, ordering: str) -> None:
    if ordering not in _ORDERINGS:
        raise EmitError(f"{op}: no memory ordering is called {ordering!r}")

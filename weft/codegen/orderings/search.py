"""Places of values in sorted sequences, by halving."""

from __future__ import annotations

from weft.codegen.emit import I32, I64, PTR, Function, const
from weft.codegen.emit import Value as Scalar
from weft.codegen.orderings.keys import Keys

BLOCK = 1024  # values of a part


def emit_search(f: Function, keys: Keys, is_right: bool, is_short: bool) -> None:
    """Buffers: sequences [rows, length], values [rows, count]; places [rows, count]. Integers: length, count, values in
    all. is_right: behind equal elements, not before them. is_short: places are int32."""
    bufs, table, _, _, begin, end = f.params
    length, count, size = (f.load(I64, f.gep(I64, table, i), name="size") for i in range(3))
    sequences, values, places = (f.load(PTR, f.gep(PTR, bufs, i)) for i in range(3))
    out = I32 if is_short else I64
    high = f.smin(f.mul(end, BLOCK), size)
    with f.loop(f.mul(begin, BLOCK), high, name="value") as loop:
        key = keys.of(f.load(keys.elem, f.gep(keys.elem, values, loop.index)))
        row = f.udiv(loop.index, count)
        place = _place(f, keys, f.gep(keys.elem, sequences, f.mul(row, length)), length, key, is_right)
        f.store(f.trunc(place, out) if is_short else place, f.gep(out, places, loop.index))
    f.ret(const(I64, 0))


def _place(f: Function, keys: Keys, sequence: Scalar, length: Scalar, key: Scalar, is_right: bool) -> Scalar:
    """How many elements come before a key: of what is left, the half is passed where its last element does."""
    with f.while_loop([(const(I64, 0), "start"), (length, "left")], "halve") as loop:
        start, left = loop.carried
        loop.test(f.icmp("sgt", left, 0))
        half = f.lshr(left, 1)
        middle = f.add(start, half)
        element = keys.of(f.load(keys.elem, f.gep(keys.elem, sequence, middle)))
        passes = f.icmp("sle" if is_right else "slt", element, key)
        loop.next(f.select(passes, f.add(middle, 1), start), f.select(passes, f.sub(f.sub(left, half), 1), half))
    return loop.results[0]

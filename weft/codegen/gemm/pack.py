"""Packing for the matrix product: a few rows (or columns) of an operand, any strides, rewritten as [k][i]
with i contiguous.

One function serves panels of B and strips of A. Lanes beyond `count` repeat the last one that exists:
what they produce is never stored.
"""

from __future__ import annotations

from weft.codegen.emit import I8, I64, PTR, VOID, Function, Module, Signature, Value, vec

from .tiles import CACHE_LINE, GemmPlan

AHEAD_ROWS = 5  # rows that are on their way while one is copied: all of them may lie in one set of the cache


def emit_pack(module: Module, plan: GemmPlan) -> Signature:
    """A function (source, across, along, count, depth, target, apart):
    target[k * apart + i] = source[i * across + k * along].

    `across`, `along` and `apart` are in bytes; i < count, k < depth. Whole vectors are written, so `apart` is at least
    `count` rounded up to the vector width.
    """
    name = f"{plan.prefix}_pack_{plan.suffix}"
    params = [
        (PTR, "source"),
        (I64, "across"),
        (I64, "along"),
        (I64, "count"),
        (I64, "depth"),
        (PTR, "target"),
        (I64, "apart"),
    ]
    f = module.function(name, VOID, params, internal=True)
    size = plan.elem.bytes
    _, across, along, _, depth, _, _ = f.params
    transposes = f.and_(f.icmp("eq", along, size), f.icmp("sge", depth, 16 // size))
    with f.if_(transposes, "transpose"):
        _pack_by_transposing(f, plan)
        f.ret()
    with f.if_(f.icmp("eq", across, size), "copy"):
        _pack_by_copying(f, plan)
        f.ret()
    _pack_one_by_one(f, plan)
    f.ret()
    return f.signature


def _pack_by_copying(f: Function, plan: GemmPlan) -> None:
    source, _, along, count, depth, target, apart = f.params
    with f.if_(f.icmp("eq", count, plan.panel), "panel"):
        _copy_panel(f, plan)
        f.ret()
    with f.loop(0, count, plan.lanes, "group") as group:
        mask = f.first_lanes(f.sub(count, group.index), plan.lanes)
        start = f.gep(plan.elem, source, group.index), f.gep(plan.elem, target, group.index)
        whole = f.icmp("sle", f.add(group.index, plan.lanes), count)
        with f.if_else(whole, "group") as arms:
            for arm, is_whole in ((arms.then, True), (arms.otherwise, False)):
                with arm, f.loop(0, depth, 1, "k", [(start[0], "from"), (start[1], "to")]) as k:
                    at, to = k.carried
                    v = f.load(plan.vector, at) if is_whole else f.masked_load(plan.vector, at, mask)
                    f.store(v, to)
                    k.next(f.gep(I8, at, along), f.gep(I8, to, apart))


def _copy_panel(f: Function, plan: GemmPlan) -> None:
    """A whole panel, row by row: where rows lie far apart each is a line of its own on a page of its own, which is
    asked for early and read once."""
    source, _, along, _, depth, target, row_bytes = f.params
    ahead = f.mul(along, AHEAD_ROWS)
    with f.loop(0, depth, 1, "k", [(source, "from"), (target, "to")]) as k:
        at, to = k.carried
        for byte in range(0, plan.panel * plan.elem.bytes, CACHE_LINE):
            f.prefetch(f.gep(I8, f.gep(I8, at, ahead, inbounds=False), byte, inbounds=False))
        for vector in range(plan.vectors):
            row = f.load(plan.vector, f.gep(plan.elem, at, vector * plan.lanes))
            f.store(row, f.gep(plan.elem, to, vector * plan.lanes))
        k.next(f.gep(I8, at, along), f.gep(I8, to, row_bytes))


def _pack_one_by_one(f: Function, plan: GemmPlan) -> None:
    source, across, along, count, depth, target, apart = f.params
    with f.loop(0, depth, 1, "k", [(source, "from"), (target, "to")]) as k:
        with f.loop(0, count, 1, "i", [(k.carried[0], "at")]) as i:
            f.store(f.load(plan.elem, i.carried[0]), f.gep(plan.elem, k.carried[1], i.index))
            i.next(f.gep(I8, i.carried[0], across))
        k.next(f.gep(I8, k.carried[0], along), f.gep(I8, k.carried[1], apart))


def _pack_by_transposing(f: Function, plan: GemmPlan) -> None:
    """Blocks of `lanes` rows and 16 bytes of k; the last block overlaps the one before it where k does not divide."""
    source, across, _, count, depth, target, apart = f.params
    chunk = 16 // plan.elem.bytes
    with f.loop(0, count, plan.lanes, "group") as group:
        last = f.sub(f.sub(count, group.index), 1)
        first = f.gep(I8, source, f.mul(group.index, across))
        rows = [f.gep(I8, first, f.mul(f.smin(last, i), across)) for i in range(plan.lanes)]
        to = f.gep(plan.elem, target, group.index)
        with f.loop(0, depth, chunk, "k") as k:
            at = f.smin(k.index, f.sub(depth, chunk))
            place = f.gep(I8, to, f.mul(at, apart))
            for column in transpose_block(
                f, plan, [f.load(vec(plan.elem, chunk), f.gep(plan.elem, row, at)) for row in rows]
            ):
                f.store(column, place)
                place = f.gep(I8, place, apart)


def transpose_block(f: Function, plan: GemmPlan, rows: list[Value]) -> list[Value]:
    """`lanes` rows of 16 bytes -> the columns, as whole vectors.

    Rows q, q + chunk, q + 2 * chunk, ... are joined into one vector, so that only transposes inside 128-bit parts
    remain: the joins come with the loads, and those transposes are the cheap shuffles of every vector unit.
    """
    chunk = 16 // plan.elem.bytes
    joined = [join(f, rows[q::chunk]) for q in range(chunk)]
    if chunk == 2:
        return [_interleave(f, joined[0], joined[1], 1, high) for high in (False, True)]
    halves = [_interleave(f, joined[pair], joined[pair + 1], 1, high) for pair in (0, 2) for high in (False, True)]
    return [_interleave(f, halves[low], halves[low + 2], 2, high) for low in (0, 1) for high in (False, True)]


def join(f: Function, parts: list[Value]) -> Value:
    """Vectors of one type, one after another in a longer one."""
    while len(parts) > 1:
        wide = 2 * parts[0].type.lanes
        parts = [f.shufflevector(a, b, range(wide), "join") for a, b in zip(parts[::2], parts[1::2], strict=True)]
    return parts[0]


def _interleave(f: Function, a: Value, b: Value, unit: int, high: bool) -> Value:
    """Units of `unit` lanes alternately from a and b, from the low or the high half of each 16 bytes."""
    lanes, part = a.type.lanes, 16 // a.type.bytes
    picks = []
    for base in range(0, lanes, part):
        for at in range(base + (part // 2 if high else 0), base + part // (1 if high else 2), unit):
            picks += [at + u for u in range(unit)] + [lanes + at + u for u in range(unit)]
    return f.shufflevector(a, b, picks, "mix")

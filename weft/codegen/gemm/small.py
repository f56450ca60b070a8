"""Matrix products that are no thicker than a few vectors: A or B has one to four rows or columns,
and memory is the limit.

wide   few rows of A, B[k, j] contiguous in j: rows of B stream by once. Narrow rows meet accumulators in registers;
       wide ones pass several at a time, from end to end, over sums in C
dots   A and B both contiguous in k: vectors along k, one sum of lanes for each element
"""

from __future__ import annotations

from weft.codegen.emit import I1, I8, I64, PTR, VOID, Function, Module, Signature, Value, const

from .kernel import multiply_add
from .tiles import GemmPlan

FEW_ROWS = 4
STREAMS = 4  # rows of B that are read at the same time
DOT_COLUMNS = 4


def emit_wide(module: Module, plan: GemmPlan, rows: int) -> Signature:
    """A function (A, rsA, csA, B, rsB, C, rsC, N, K, adds) for `rows` rows; strides in bytes.
    The order of the sums is the big driver's."""
    names = ["A", "rsA", "csA", "B", "rsB", "C", "rsC", "N", "K", "adds"]
    types = (PTR, I64, I64, PTR, I64, PTR, I64, I64, I64, I1)
    name = f"{plan.prefix}_wide_{rows}_{plan.suffix}"
    f = module.function(name, VOID, list(zip(types, names, strict=True)), internal=True)
    columns, adds = f.params[7], f.params[9]
    begin: Value = const(I64, 0)
    widths = (min(8, (plan.registers - 4) // rows), 2)
    with f.if_(f.and_(f.icmp("sgt", columns, widths[0] * plan.lanes), f.not_(adds)), "stream"):
        _stream(f, plan, rows)
        f.ret()
    for vectors in widths:
        span = vectors * plan.lanes
        end = f.add(begin, f.mul(f.udiv(f.sub(columns, begin), span), span))
        with f.loop(begin, end, span, "j") as loop:
            _wide_tile(f, plan, rows, vectors, loop.index, None)
        begin = end
    with f.loop(begin, columns, plan.lanes, "j") as loop:
        _wide_tile(f, plan, rows, 1, loop.index, f.first_lanes(f.sub(columns, loop.index), plan.lanes))
    f.ret()
    return f.signature


def _stream(f: Function, plan: GemmPlan, rows: int) -> None:
    """C = A B for rows of B that are wide: STREAMS of them at a time are read from end to end, as memory likes it, and
    C holds the sums so far. Their order is that of `_wide_tile`."""
    depth = f.params[8]
    whole = f.and_(depth, -STREAMS)
    with f.if_(f.icmp("eq", depth, 0), "empty"):
        _stream_rows(f, plan, rows, const(I64, 0), 0, const(I1, 1))
    with f.loop(0, whole, STREAMS, "k") as loop:
        _stream_rows(f, plan, rows, loop.index, STREAMS, f.icmp("eq", loop.index, 0))
    with f.loop(whole, depth, 1, "k") as loop:
        _stream_rows(f, plan, rows, loop.index, 1, f.icmp("eq", loop.index, 0))


def _stream_rows(f: Function, plan: GemmPlan, rows: int, k: Value, count: int, begins: Value) -> None:
    """Add what `count` rows of B, from row k on, give to all sums, which begin at zero."""
    a, across, along, b, b_step, c, c_step, columns, _, _ = f.params
    start = f.gep(I8, a, f.mul(along, k))
    factors = [
        [f.splat(f.load(plan.elem, f.gep(I8, f.gep(I8, start, f.mul(along, u)), f.mul(across, i))), plan.lanes)
         for u in range(count)]
        for i in range(rows)
    ]
    sources = [f.gep(I8, b, f.mul(b_step, f.add(k, u))) for u in range(count)]
    targets = [f.gep(I8, c, f.mul(c_step, i)) for i in range(rows)]
    whole, ahead = f.and_(columns, -plan.lanes), f.mul(b_step, count)

    def step(column: Value, mask: Value | None, is_first: bool) -> None:
        row = [_load(f, plan, f.gep(plan.elem, source, column), mask) for source in sources]
        # The rows that come next begin on other pages, which no machine foresees. The first level has no room for them
        # where rows lie a multiple of its sets apart.
        for source in sources:
            f.prefetch(f.gep(plan.elem, f.gep(I8, source, ahead, inbounds=False), column, inbounds=False), level=2)
        for target, factor in zip(targets, factors, strict=True):
            at = f.gep(plan.elem, target, column)
            total = const(plan.vector, 0.0) if is_first else _load(f, plan, at, mask)
            for x, y in zip(factor, row, strict=True):
                total = multiply_add(f, plan, x, y, total)
            if mask is None:
                f.store(total, at)
            else:
                f.masked_store(total, at, mask)

    with f.if_else(begins, "begins") as how:
        for arm, is_first in ((how.then, True), (how.otherwise, False)):
            with arm:
                with f.loop(0, whole, plan.lanes, "j") as loop:
                    step(loop.index, None, is_first)
                with f.if_(f.icmp("slt", whole, columns), "rest"):
                    step(whole, f.first_lanes(f.sub(columns, whole), plan.lanes), is_first)


def _wide_tile(f: Function, plan: GemmPlan, rows: int, vectors: int, column: Value, mask: Value | None) -> None:
    a, across, along, b, b_step, c, c_step, _, depth, adds = f.params
    carried = [(a, "a_at"), (f.gep(plan.elem, b, column), "b_at")] + [(const(plan.vector, 0.0), "sum")] * (
        rows * vectors
    )
    with f.loop(0, depth, 1, "k", carried) as loop:
        at, row, *sums = loop.carried
        elements = [
            f.splat(f.load(plan.elem, f.gep(I8, at, f.mul(across, i)), name="a"), plan.lanes) for i in range(rows)
        ]
        for j in range(vectors):
            v = _load(f, plan, f.gep(plan.elem, row, j * plan.lanes), mask)
            for i in range(rows):
                sums[i * vectors + j] = multiply_add(f, plan, elements[i], v, sums[i * vectors + j])
        loop.next(f.gep(I8, at, along), f.gep(I8, row, b_step), *sums)
    for i in range(rows):
        place = f.gep(plan.elem, f.gep(I8, c, f.mul(c_step, i)), column)
        for j in range(vectors):
            at = f.gep(plan.elem, place, j * plan.lanes)
            _put(f, plan, loop.results[2 + i * vectors + j], at, mask, adds)


def _load(f: Function, plan: GemmPlan, at: Value, mask: Value | None) -> Value:
    return f.load(plan.vector, at) if mask is None else f.masked_load(plan.vector, at, mask)


def _put(f: Function, plan: GemmPlan, total: Value, at: Value, mask: Value | None, adds: Value) -> None:
    with f.if_else(adds, "adds") as how:
        with how.then:
            how.give(f.fadd(_load(f, plan, at, mask), total))
        with how.otherwise:
            how.give(total)
    if mask is None:
        f.store(how.results[0], at)
    else:
        f.masked_store(how.results[0], at, mask)


def emit_dots(module: Module, plan: GemmPlan, rows: int) -> Signature:
    """A function (A, rsA, B, csB, C, rsC, N, K, adds) for `rows` rows; A and B have unit stride along k;
    strides in bytes."""
    names = ["A", "rsA", "B", "csB", "C", "rsC", "N", "K", "adds"]
    types = (PTR, I64, PTR, I64, PTR, I64, I64, I64, I1)
    name = f"{plan.prefix}_dots_{rows}_{plan.suffix}"
    f = module.function(name, VOID, list(zip(types, names, strict=True)), internal=True)
    columns = f.params[6]
    whole = f.and_(columns, -DOT_COLUMNS)
    with f.loop(0, whole, DOT_COLUMNS, "j") as loop:
        _dot_tile(f, plan, rows, DOT_COLUMNS, loop.index)
    with f.loop(whole, columns, 1, "j") as loop:
        _dot_tile(f, plan, rows, 1, loop.index)
    f.ret()
    return f.signature


def _dot_tile(f: Function, plan: GemmPlan, rows: int, columns: int, column: Value) -> None:
    a, a_step, b, b_step, c, c_step, _, depth, adds = f.params
    first = f.gep(I8, b, f.mul(column, b_step))
    a_rows = [f.gep(I8, a, f.mul(a_step, i)) for i in range(rows)]
    b_rows = [f.gep(I8, first, f.mul(b_step, j)) for j in range(columns)]
    whole = f.and_(depth, -plan.lanes)
    zeros = [(const(plan.vector, 0.0), "sum")] * (rows * columns)
    with f.loop(0, whole, plan.lanes, "k", zeros) as loop:
        loop.next(*_dot_step(f, plan, a_rows, b_rows, loop.index, None, list(loop.carried)))
    # One more, masked: lanes that do not exist add 0 * 0. It is left out where k divides, so that its order
    # stays one of k alone.
    with f.if_else(f.icmp("slt", whole, depth), "tail") as tail:
        with tail.then:
            mask = f.first_lanes(f.sub(depth, whole), plan.lanes)
            tail.give(*_dot_step(f, plan, a_rows, b_rows, whole, mask, list(loop.results)))
        with tail.otherwise:
            tail.give(*loop.results)
    for i in range(rows):
        place = f.gep(plan.elem, f.gep(I8, c, f.mul(c_step, i)), column)
        for j in range(columns):
            total = f.fold_lanes(tail.results[i * columns + j], f.fadd)
            at = f.gep(plan.elem, place, j)
            with f.if_else(adds, "adds") as how:
                with how.then:
                    how.give(f.fadd(f.load(plan.elem, at), total))
                with how.otherwise:
                    how.give(total)
            f.store(how.results[0], at)


def _dot_step(
    f: Function,
    plan: GemmPlan,
    a_rows: list[Value],
    b_rows: list[Value],
    k: Value,
    mask: Value | None,
    sums: list[Value],
) -> list[Value]:
    left = [_load(f, plan, f.gep(plan.elem, row, k), mask) for row in a_rows]
    right = [_load(f, plan, f.gep(plan.elem, row, k), mask) for row in b_rows]
    pairs = [(x, y) for x in left for y in right]
    return [multiply_add(f, plan, x, y, total) for (x, y), total in zip(pairs, sums, strict=True)]

"""Attention in one kernel: a few rows of scores at a time, in private memory, between two matrix products.

    forward    for rows of queries, ROWS at a time:   S = Q K^T;  P = softmax(S * scale + mask);  O = P V
    backward   the same rows:   S and P anew;  dP = dO V^T;  dS = P * (dP - sum(P * dP)) * scale
               dQ = dS K;  dK += dS^T Q;  dV += P^T dO

Scores never exist as a whole. Where they are causal, what lies behind the last query of the rows is neither computed
nor read. A part of the backward is one matrix of the batch, so that sums over queries have one order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from weft.codegen.emit import F64, I8, I32, I64, PTR, Function, Module, const, vec
from weft.codegen.emit import Value as Scalar
from weft.codegen.gemm import declare_gemm
from weft.codegen.gemm.tiles import GemmPlan, plan_gemm
from weft.codegen.math.core import FloatMath
from weft.codegen.math.exponential import exp
from weft.codegen.target import Target

ROWS = 48  # rows of scores at a time: as many as the product reads its second operand in place for
VECTOR_BYTES = 64  # of the vectors of a row, on every machine: their sums have one order
# the table of integers: sizes, then what an operand's place is
SIZES = (
    "queries", "keys", "width", "value_width", "inner", "row_ranges", "score_stride", "workspace", "packed_keys",
    "packed_values",
)
STRIDES = ("offset", "outer", "inner", "rows", "columns")


class Variant(NamedTuple):
    """What the code of a kernel hangs on. mask: "", "bool" or "float"; buffers: the place of each operand among the
    buffers (one may be several of them)."""

    dtype: str
    is_causal: bool
    mask: str
    buffers: tuple[int, ...]


@dataclass(frozen=True)
class Operand:
    """A matrix of the batch: its first element, and the elements from row to row and from column to column."""

    base: Scalar
    rows: Scalar
    columns: Scalar


class Attention:
    """Writes a kernel into a function (loops/kernel.py says what it is given). operands: names, in the order of their
    strides; results, which are row-major, come last among the buffers."""

    def __init__(
        self, function: Function, module: Module, target: Target, variant: Variant, operands: Sequence[str]
    ) -> None:
        self.f = f = function
        self.variant = variant
        self.plan: GemmPlan = plan_gemm(variant.dtype, target)
        self.elem, self.lanes = self.plan.elem, VECTOR_BYTES // self.plan.elem.bytes
        self.vector = vec(self.elem, self.lanes)
        self.math = FloatMath(f, target.has_fma, target.has_scale)
        self.library = declare_gemm(module, variant.dtype, target)
        bufs, table, numbers, memory, self.begin, self.end = f.params
        self.size = {name: f.load(I64, f.gep(I64, table, i), name=name) for i, name in enumerate(SIZES)}
        self._strides = {
            name: {
                word: f.load(I64, f.gep(I64, table, len(SIZES) + len(STRIDES) * at + i), name=word)
                for i, word in enumerate(STRIDES)
            }
            for at, name in enumerate(operands)
        }
        self._buffers = {
            name: f.load(PTR, f.gep(PTR, bufs, at)) for name, at in zip(operands, variant.buffers, strict=True)}
        read = max(variant.buffers) + 1
        self.results = [f.load(PTR, f.gep(PTR, bufs, read + i)) for i in range(3 if "grad" in operands else 1)]
        from_double = f.load(F64, numbers, name="scale")
        self.scale = from_double if self.elem.bytes == 8 else f.fptrunc(from_double, self.elem)
        self.workspace = memory
        self.packed_keys = f.gep(I8, memory, self.size["workspace"])
        self.packed_values = f.gep(I8, self.packed_keys, self.size["packed_keys"])
        self.scores = f.gep(I8, self.packed_values, self.size["packed_values"])
        self.of_scores = f.gep(self.elem, self.scores, f.mul(self.size["score_stride"], ROWS))

    # ---- where things lie
    def operand(self, name: str, batch: Scalar) -> Operand:
        """An operand's matrix of the batch, which has two dims."""
        f, stride = self.f, self._strides[name]
        outer, inner = f.udiv(batch, self.size["inner"]), f.urem(batch, self.size["inner"])
        place = f.add(stride["offset"], f.add(f.mul(outer, stride["outer"]), f.mul(inner, stride["inner"])))
        is_bytes = name == "mask" and self.variant.mask == "bool"
        base = f.gep(I8 if is_bytes else self.elem, self._buffers[name], place)
        return Operand(base, stride["rows"], stride["columns"])

    def result(self, number: int, batch: Scalar, rows: str, columns: str) -> Operand:
        """The matrix of a result that belongs to one of the batch."""
        f, size = self.f, self.size
        place = f.mul(batch, f.mul(size[rows], size[columns]))
        return Operand(f.gep(self.elem, self.results[number], place), size[columns], const(I64, 1))

    def row(self, a: Operand, i: Scalar) -> Operand:
        """What begins at a row."""
        return Operand(self.f.gep(self.elem, a.base, self.f.mul(i, a.rows), inbounds=False), a.rows, a.columns)

    def held(self, room: Scalar, first: Scalar) -> Operand:
        """Rows of scores in private memory, numbered as the queries from `first` on are."""
        stride = self.size["score_stride"]
        start = self.f.gep(self.elem, room, self.f.sub(0, self.f.mul(first, stride)), inbounds=False)
        return Operand(start, stride, const(I64, 1))

    # ---- products
    def pack(self, a: Operand, width: str, to: Scalar) -> None:
        """The transposed operand, packed as second one of products."""
        f, keys = self.f, self.size["keys"]
        panels = f.udiv(f.add(keys, self.plan.panel - 1), self.plan.panel)
        f.call(
            self.library.pack_b, [a.base, keys, self.size[width], a.columns, a.rows, to, const(I64, 0), panels])

    def by_packed(
        self, a: Operand, packed: Scalar, width: str, to: Operand, first: Scalar, last: Scalar, columns: Scalar
    ) -> None:
        """Rows [first, last) of a times what was packed, so many columns of it."""
        size = self.size
        self.f.call(self.library.packed, [
            a.base, packed, to.base, size["queries"], size["keys"], size[width], a.rows, a.columns, to.rows,
            const(I32, 0), self.workspace, first, last, const(I64, 0), columns,
        ])

    def multiply(
        self, a: Operand, b: Operand, to: Operand, m: Scalar, n: Scalar, k: Scalar, first: Scalar, last: Scalar,
        adds: bool = False,
    ) -> None:
        """Rows [first, last) of a [m, k] b [k, n], or added to what is there."""
        self.f.call(self.library.gemm, [
            a.base, b.base, to.base, m, n, k, a.rows, a.columns, b.rows, b.columns, to.rows, const(I32, adds),
            self.workspace, first, last, const(I64, 0), n,
        ])

    # ---- rows
    def over(
        self, count: Scalar, carried: Sequence[Scalar], body: Callable[..., Sequence[Scalar]]
    ) -> tuple[Scalar, ...]:
        """Vectors of a row with so many columns: body(column, mask, *carried) -> what is carried on; the mask, of lanes
        that exist, is None where all do."""
        f = self.f
        whole = f.and_(count, -self.lanes)
        with f.loop(0, whole, self.lanes, "column", [(v, "carried") for v in carried]) as loop:
            loop.next(*body(loop.index, None, *loop.carried))
        with f.if_else(f.icmp("slt", whole, count), "rest") as rest:
            with rest.then:
                rest.give(*body(whole, f.first_lanes(f.sub(count, whole), self.lanes), *loop.results))
            with rest.otherwise:
                rest.give(*loop.results)
        return rest.results

    def load(self, row: Scalar, column: Scalar) -> Scalar:
        """A vector of a row of scores; its memory has whole vectors."""
        return self.f.load(self.vector, self.f.gep(self.elem, row, column))

    def store(self, x: Scalar, row: Scalar, column: Scalar) -> None:
        """Write a vector of a row of scores."""
        self.f.store(x, self.f.gep(self.elem, row, column))

    def of(self, number: float) -> Scalar:
        """A number in every lane."""
        return const(self.vector, number)

    def where(self, mask: Scalar | None, x: Scalar, otherwise: Scalar) -> Scalar:
        """x in lanes that exist."""
        return x if mask is None else self.f.select(mask, x, otherwise)

    def visible(self, mask: Operand, i: Scalar, column: Scalar, lanes: Scalar | None) -> Scalar:
        """The lanes of a bool mask that are True."""
        f, type = self.f, vec(I8, self.lanes)
        place = f.gep(I8, mask.base, f.add(f.mul(i, mask.rows), column))
        flags = f.load(type, place, align=1) if lanes is None else f.masked_load(type, place, lanes)
        return f.icmp("ne", flags, const(type, 0))

    def masked(self, x: Scalar, mask: Operand, i: Scalar, column: Scalar, lanes: Scalar | None) -> Scalar:
        """Scores under the mask, whose columns follow each other."""
        f = self.f
        if self.variant.mask == "bool":
            return f.select(self.visible(mask, i, column, lanes), x, self.of(float("-inf")))
        place = f.gep(self.elem, mask.base, f.add(f.mul(i, mask.rows), column))
        added = f.load(self.vector, place) if lanes is None else f.masked_load(self.vector, place, lanes)
        return f.fadd(x, added)

    def joined(self, v: Scalar, combine: Callable[[Scalar, Scalar], Scalar]) -> Scalar:
        """The lanes combined, in every lane."""
        return self.f.splat(self.f.fold_lanes(v, combine), self.lanes)

    def greater(self, a: Scalar, b: Scalar) -> Scalar:
        """The greater one; b where a is NaN."""
        return self.f.select(self.f.fcmp("ogt", a, b), a, b)

    def softmax(self, row: Scalar, i: Scalar, mask: Operand | None, count: Scalar, columns: Scalar) -> None:
        """A row of products becomes weights: of `count` columns that may be seen, zeros up to `columns`."""
        f = self.f
        scale = f.splat(self.scale, self.lanes)

        def scaled(column: Scalar, lanes: Scalar | None, greatest: Scalar) -> list[Scalar]:
            x = f.fmul(self.load(row, column), scale)
            x = x if mask is None else self.masked(x, mask, i, column, lanes)
            self.store(x, row, column)
            return [self.greater(self.where(lanes, x, self.of(float("-inf"))), greatest)]

        greatest = self.joined(self.over(count, [self.of(float("-inf"))], scaled)[0], self.greater)
        is_hidden = f.fcmp("oeq", f.extractelement(greatest, 0), const(self.elem, float("-inf")))
        if mask is not None:  # where all is hidden the exponents would be NaN, and are zeros
            greatest = f.select(f.splat(is_hidden, self.lanes), self.of(0.0), greatest)

        def raised(column: Scalar, lanes: Scalar | None, total: Scalar) -> list[Scalar]:
            x = self.where(lanes, exp(self.math, f.fsub(self.load(row, column), greatest)), self.of(0.0))
            self.store(x, row, column)
            return [f.fadd(total, x)]

        total = self.joined(self.over(count, [self.of(0.0)], raised)[0], f.fadd)
        if mask is not None:
            total = f.select(f.splat(is_hidden, self.lanes), self.of(1.0), total)

        def divided(column: Scalar, lanes: Scalar | None) -> list[Scalar]:
            self.store(f.fdiv(self.load(row, column), total), row, column)
            return []

        self.over(count, [], divided)
        self.clear(row, count, columns)

    def clear(self, row: Scalar, count: Scalar, columns: Scalar) -> None:
        """Zeros from column `count` on."""
        f = self.f
        size = f.mul(f.sub(columns, count), self.elem.bytes)
        f.memset(f.gep(self.elem, row, count), 0, size)

    def softmax_backward(
        self, row: Scalar, back: Scalar, i: Scalar, mask: Operand | None, count: Scalar, columns: Scalar
    ) -> None:
        """A row of gradients of weights becomes one of scores."""
        f = self.f

        def weighted(column: Scalar, lanes: Scalar | None, total: Scalar) -> list[Scalar]:
            x = f.fmul(self.load(row, column), self.load(back, column))
            return [f.fadd(total, self.where(lanes, x, self.of(0.0)))]

        total = self.joined(self.over(count, [self.of(0.0)], weighted)[0], f.fadd)
        scale = f.splat(self.scale, self.lanes)

        def through(column: Scalar, lanes: Scalar | None) -> list[Scalar]:
            weight = self.load(row, column)
            x = f.fsub(f.fmul(weight, self.load(back, column)), f.fmul(weight, total))
            if mask is not None and self.variant.mask == "bool":
                x = f.select(self.visible(mask, i, column, lanes), x, self.of(0.0))
            self.store(f.fmul(x, scale), back, column)
            return []

        self.over(count, [], through)
        self.clear(back, count, columns)

    # ---- the whole
    def each_block(
        self, first: Scalar, last: Scalar, body: Callable[[Scalar, Scalar, Scalar], None]
    ) -> None:
        """body(from, to, columns) for ROWS queries at a time, and the columns that one of them may see."""
        f, keys = self.f, self.size["keys"]
        with f.loop(first, last, ROWS, "block") as loop:
            end = f.smin(f.add(loop.index, ROWS), last)
            body(loop.index, end, f.smin(keys, end) if self.variant.is_causal else keys)

    def each_row(self, first: Scalar, last: Scalar, columns: Scalar, body: Callable[[Scalar, Scalar], None]) -> None:
        """body(query, columns that it may see)."""
        f = self.f
        with f.loop(first, last, 1, "query") as loop:
            body(loop.index, f.smin(columns, f.add(loop.index, 1)) if self.variant.is_causal else columns)

    def emit_forward(self) -> None:
        """The function: a part is a range of the queries of one of the batch."""
        f, size = self.f, self.size
        with f.loop(self.begin, self.end, 1, "part") as part:
            batch, number = (op(part.index, size["row_ranges"]) for op in (f.udiv, f.urem))
            each = f.udiv(f.add(size["queries"], f.sub(size["row_ranges"], 1)), size["row_ranges"])
            first, last = (f.smin(f.mul(at, each), size["queries"]) for at in (number, f.add(number, 1)))
            query, key, value = (self.operand(name, batch) for name in ("query", "key", "value"))
            mask = self.operand("mask", batch) if self.variant.mask else None
            out = self.result(0, batch, "queries", "value_width")
            self.pack(key, "width", self.packed_keys)

            def block(begin: Scalar, end: Scalar, columns: Scalar) -> None:
                scores = self.weights(query, mask, begin, end, columns)
                self.multiply(scores, value, out, size["queries"], size["value_width"], columns, begin, end)

            self.each_block(first, last, block)
        f.ret(const(I64, 0))

    def weights(
        self, query: Operand, mask: Operand | None, begin: Scalar, end: Scalar, columns: Scalar
    ) -> Operand:
        """The weights of some queries, in private memory."""
        scores = self.held(self.scores, begin)
        self.by_packed(query, self.packed_keys, "width", scores, begin, end, columns)
        self.each_row(
            begin, end, columns,
            lambda i, count: self.softmax(self.row(scores, i).base, i, mask, count, columns),
        )
        return scores

    def emit_backward(self) -> None:
        """The function: a part is one of the batch."""
        f, size = self.f, self.size
        with f.loop(self.begin, self.end, 1, "batch") as part:
            batch = part.index
            grad, query, key, value = (self.operand(name, batch) for name in ("grad", "query", "key", "value"))
            mask = self.operand("mask", batch) if self.variant.mask else None
            of_query = self.result(0, batch, "queries", "width")
            of_key = self.result(1, batch, "keys", "width")
            of_value = self.result(2, batch, "keys", "value_width")
            for result, width in ((of_key, "width"), (of_value, "value_width")):
                f.memset(result.base, 0, f.mul(f.mul(size["keys"], size[width]), self.elem.bytes))
            self.pack(key, "width", self.packed_keys)
            self.pack(value, "value_width", self.packed_values)

            def block(begin: Scalar, end: Scalar, columns: Scalar) -> None:
                weights = self.weights(query, mask, begin, end, columns)
                back = self.held(self.of_scores, begin)
                self.by_packed(grad, self.packed_values, "value_width", back, begin, end, columns)
                self.each_row(begin, end, columns, lambda i, count: self.softmax_backward(
                    self.row(weights, i).base, self.row(back, i).base, i, mask, count, columns))
                self.multiply(back, key, of_query, size["queries"], size["width"], columns, begin, end)
                count, none = f.sub(end, begin), const(I64, 0)
                for room, other, result, width in (
                    (self.of_scores, query, of_key, "width"), (self.scores, grad, of_value, "value_width")
                ):
                    turned = Operand(room, const(I64, 1), size["score_stride"])
                    rows, keys = self.row(other, begin), size["keys"]
                    self.multiply(turned, rows, result, keys, size[width], count, none, columns, adds=True)

            self.each_block(const(I64, 0), size["queries"], block)
        f.ret(const(I64, 0))

"""Sums over the alignments of a target with time steps (ctc_loss), one example of the batch after another. Source:
Graves et al., "Connectionist temporal classification" (2006), section 4.

    alpha[t, s]   log of the sum over all paths that are in state s at step t:
                  logsumexp(alpha[t-1, s], alpha[t-1, s-1], alpha[t-1, s-2] where s may be reached so) + emitted[t, s]
    beta[t, s]    the same from the end, its own emission included
    gradient      (exp(log_probs[t, c]) - sum over the states s of label c of exp(alpha + beta - emitted - total)) * g

States are the target's labels with blanks around them. Everything is computed in double precision, in vectors over the
states: rows have room for a vector of -inf before their first state and after their last one.
"""

from __future__ import annotations

import math

from weft.codegen.emit import F64, I64, PTR, Function, LType, const, vec
from weft.codegen.emit import Value as Scalar
from weft.codegen.math.core import FloatMath
from weft.codegen.math.exponential import exp
from weft.codegen.math.logarithm import log
from weft.codegen.scalar.element import memory_type
from weft.codegen.target import Target
from weft.types.dtype import DType

SIZES = ("steps", "batch", "classes")  # the table of integers
ROWS = 5  # rows of states that a kernel needs beside those of alpha: labels, skips, emitted, and two of beta
FORWARD_ROWS = 2  # of alpha, where only the loss is wanted


class Alignments:
    """Writes a kernel into a function (loops/kernel.py says what it is given). Buffers: log_probs [steps, batch,
    classes], labels one after another, the lengths of each example's steps and of its target and the place of its
    first label [3, batch], the gradient of the losses [batch] if there is one; all row-major; then the result."""

    def __init__(
        self, function: Function, target: Target, dtype: DType, label: DType, blank: int, zero_infinity: bool
    ) -> None:
        self.f = f = function
        self.lanes = target.lanes(F64.bytes)
        self.vector = vec(F64, self.lanes)
        self.math = FloatMath(f, target.has_fma, target.has_scale)
        self.elem, self.label = memory_type(dtype, 1), memory_type(label, 1)
        self.blank, self.zero_infinity = blank, zero_infinity
        buffers, table, _, self.memory, self.begin, self.end = f.params
        self.steps, self.batch, self.classes = (
            f.load(I64, f.gep(I64, table, i), name=name) for i, name in enumerate(SIZES)
        )
        self._buffers = buffers

    # ---- the two kernels
    def emit_loss(self) -> None:
        """Minus the logarithm of the probability of each target."""
        f = self.f
        result = self._buffer(3)
        with f.loop(self.begin, self.end, name="example") as part:
            example = _Example(self, part.index)
            total = example.alpha(FORWARD_ROWS)
            loss = f.fneg(total)
            if self.zero_infinity:
                loss = f.select(self._is_infinite(total), 0.0, loss)
            f.store(self._narrow(loss, self.elem), f.gep(self.elem, result, part.index))
        f.ret(const(I64, 0))

    def emit_gradient(self) -> None:
        """The gradient by log_probs that are a log_softmax."""
        f = self.f
        grad, result = self._buffer(3), self._buffer(4)
        with f.loop(self.begin, self.end, name="example") as part:
            example = _Example(self, part.index)
            total = example.alpha(None)
            weight = self._wide(f.load(self.elem, f.gep(self.elem, grad, part.index)), F64)
            with f.loop(example.steps, self.steps, name="later") as later:
                self._clear(result, later.index, part.index)
            last = f.sub(example.steps, 1)
            with f.loop(last, const(I64, -1), -1, "step") as step:
                example.emissions(step.index)
                example.beta(step.index, last)
                example.shares(step.index, total)
                self._give(result, step.index, part.index, weight, example.share, total)
        f.ret(const(I64, 0))

    # ---- log_probs and what lies as they do
    def _buffer(self, number: int) -> Scalar:
        return self.f.load(PTR, self.f.gep(PTR, self._buffers, number))

    def row_of(self, buffer: Scalar, step: Scalar, example: Scalar) -> Scalar:
        """The address of the classes of a step of an example."""
        f = self.f
        return f.gep(self.elem, buffer, f.mul(f.add(f.mul(step, self.batch), example), self.classes))

    def _clear(self, result: Scalar, step: Scalar, example: Scalar) -> None:
        f, row = self.f, self.row_of(result, step, example)
        f.memset(row, 0, f.mul(self.classes, self.elem.bytes))

    def _give(
        self, result: Scalar, step: Scalar, example: Scalar, weight: Scalar, share: Scalar, total: Scalar
    ) -> None:
        """One row of the gradient."""
        f, narrow = self.f, vec(self.elem, self.lanes)
        source, out = (self.row_of(b, step, example) for b in (self._buffer(0), result))
        factor = f.splat(weight, self.lanes)
        nothing = f.splat(self._is_infinite(total), self.lanes) if self.zero_infinity else None
        with f.loop(0, self.classes, self.lanes, "class") as c:
            mask = f.first_lanes(f.sub(self.classes, c.index), self.lanes)
            logs = self._wide(f.masked_load(narrow, f.gep(self.elem, source, c.index), mask), self.vector)
            slope = f.fmul(f.fsub(exp(self.math, logs), f.load(self.vector, f.gep(F64, share, c.index))), factor)
            if nothing is not None:
                slope = f.select(nothing, 0.0, slope)
            f.masked_store(self._narrow(slope, narrow), f.gep(self.elem, out, c.index), mask)

    def _wide(self, x: Scalar, to: LType) -> Scalar:
        return x if x.type is to else self.f.fpext(x, to)

    def _narrow(self, x: Scalar, to: LType) -> Scalar:
        return x if x.type is to else self.f.fptrunc(x, to)

    def _is_infinite(self, x: Scalar) -> Scalar:
        return self.math.equal(self.math.abs(x), math.inf)

    # ---- sums of logarithms
    def log_sum(self, *terms: Scalar) -> Scalar:
        """The logarithm of the sum of what these are logarithms of."""
        f, m = self.f, self.math
        most = terms[0]
        for term in terms[1:]:
            most = f.select(f.fcmp("ogt", term, most), term, most)
        most = f.select(m.equal(most, -math.inf), 0.0, most)  # (-inf less itself would be NaN)
        total = exp(m, f.fsub(terms[0], most))
        for term in terms[1:]:
            total = f.fadd(total, exp(m, f.fsub(term, most)))
        return f.fadd(most, log(m, total))


class _Example:
    """One example: its states, and rows of them in private memory."""

    def __init__(self, kernel: Alignments, index: Scalar) -> None:
        self.kernel, self.index = kernel, index
        f = self.f = kernel.f
        lengths = kernel._buffer(2)
        self.steps, self.labels, first = (
            f.load(I64, f.gep(I64, lengths, f.add(f.mul(kernel.batch, i), index))) for i in range(3)
        )
        # more labels than steps have no path, however many they are
        self.labels = f.smin(self.labels, f.add(self.steps, 1))
        self.states = f.add(f.mul(self.labels, 2), 1)
        self.whole = f.and_(f.add(self.states, kernel.lanes - 1), -kernel.lanes)  # whole vectors of states
        self.stride = f.add(self.whole, 2 * kernel.lanes)
        self.of_state, self.skip, self.emitted, self.betas, self.alphas = (
            f.gep(F64, kernel.memory, f.add(f.mul(self.stride, row), kernel.lanes)) for row in (0, 1, 2, 3, ROWS)
        )
        self.share = kernel.memory  # where the rows of alpha end: `alpha` sets it
        self._write_states(first)

    def _write_states(self, first: Scalar) -> None:
        """The label of each state, and 0 where a path may skip the state before, else -inf."""
        f, kernel = self.f, self.kernel
        self._fill(self.skip, const(I64, 0), f.add(self.whole, kernel.lanes))
        with f.loop(0, self.states, name="state") as s:
            f.store(const(I64, kernel.blank), f.gep(I64, self.of_state, s.index))
        source = f.gep(kernel.label, kernel._buffer(1), first)
        with f.loop(0, self.labels, name="label", carried=[(const(I64, kernel.blank), "before")]) as k:
            label = f.load(kernel.label, f.gep(kernel.label, source, k.index))
            label = f.sext(label, I64) if kernel.label.bytes < I64.bytes else label
            state = f.add(f.mul(k.index, 2), 1)
            f.store(label, f.gep(I64, self.of_state, state))
            is_free = f.and_(f.icmp("ne", label, k.carried[0]), f.icmp("ne", label, kernel.blank))
            is_free = f.and_(is_free, f.icmp("sgt", k.index, 0))
            f.store(f.select(is_free, const(F64, 0.0), -math.inf), f.gep(F64, self.skip, state))
            k.next(label)

    def _fill(self, row: Scalar, low: Scalar, high: Scalar) -> None:
        """-inf in whole vectors of a row."""
        f, kernel = self.f, self.kernel
        with f.loop(low, high, kernel.lanes, "column") as column:
            f.store(const(kernel.vector, -math.inf), f.gep(F64, row, column.index))

    def emissions(self, step: Scalar) -> None:
        """What each state emits at a step."""
        f, kernel = self.f, self.kernel
        end = f.sub(self.whole, kernel.lanes)
        f.store(const(kernel.vector, -math.inf), f.gep(F64, self.emitted, end))
        row = kernel.row_of(kernel._buffer(0), step, self.index)
        with f.loop(0, self.states, name="state", trip_at_least_one=True) as s:
            label = f.load(I64, f.gep(I64, self.of_state, s.index))
            value = kernel._wide(f.load(kernel.elem, f.gep(kernel.elem, row, label)), F64)
            f.store(value, f.gep(F64, self.emitted, s.index))

    def _row(self, rows: Scalar, number: Scalar) -> Scalar:
        return self.f.gep(F64, rows, self.f.mul(number, self.stride))

    def alpha(self, kept: int | None) -> Scalar:
        """All rows of alpha (or the latest ones, `kept` in turn); the logarithm of the target's probability."""
        f, kernel = self.f, self.kernel
        rows = kernel.steps if kept is None else const(I64, kept)
        self.share = self._after(rows)

        def number(step: Scalar) -> Scalar:
            return step if kept is None else f.and_(step, kept - 1)

        with f.loop(0, self.steps, name="step") as step:
            self.emissions(step.index)
            row = self._row(self.alphas, number(step.index))
            self._fill(row, const(I64, -kernel.lanes), const(I64, 0))
            with f.if_else(f.icmp("eq", step.index, 0), "begins") as at:
                with at.then:
                    self._fill(row, const(I64, 0), self.whole)
                    self._emit(row, const(I64, 0))
                    with f.if_(f.icmp("sgt", self.labels, 0), "speaks"):
                        self._emit(row, const(I64, 1))
                    at.give()
                with at.otherwise:
                    before = self._row(self.alphas, number(f.sub(step.index, 1)))
                    self._recur(row, before, -1, self.skip)
                    at.give()
        with f.if_else(f.icmp("sgt", self.steps, 0), "has_steps") as has:
            with has.then:
                row = self._row(self.alphas, number(f.sub(self.steps, 1)))
                last = f.mul(self.labels, 2)
                blank = f.load(F64, f.gep(F64, row, last))
                label = f.load(F64, f.gep(F64, row, f.sub(last, 1)))  # (before the first state is -inf)
                has.give(kernel.log_sum(blank, label))
            with has.otherwise:
                has.give(f.select(f.icmp("eq", self.labels, 0), const(F64, 0.0), -math.inf))
        return has.results[0]

    def _after(self, rows: Scalar) -> Scalar:
        """Where so many rows of alpha end."""
        f = self.f
        return f.gep(F64, self.alphas, f.sub(f.mul(rows, self.stride), self.kernel.lanes))

    def beta(self, step: Scalar, last: Scalar) -> None:
        """The row of beta at a step, from that of the step after it."""
        f, kernel = self.f, self.kernel
        row = self._row(self.betas, f.and_(step, 1))
        self._fill(row, self.whole, f.add(self.whole, kernel.lanes))
        with f.if_else(f.icmp("eq", step, last), "ends") as at:
            with at.then:
                self._fill(row, const(I64, 0), self.whole)
                self._emit(row, f.mul(self.labels, 2))
                with f.if_(f.icmp("sgt", self.labels, 0), "speaks"):
                    self._emit(row, f.sub(f.mul(self.labels, 2), 1))
                at.give()
            with at.otherwise:
                after = self._row(self.betas, f.and_(f.add(step, 1), 1))
                self._recur(row, after, 1, f.gep(F64, self.skip, 2))
                at.give()

    def _emit(self, row: Scalar, state: Scalar) -> None:
        f = self.f
        f.store(f.load(F64, f.gep(F64, self.emitted, state)), f.gep(F64, row, state))

    def _recur(self, row: Scalar, other: Scalar, towards: int, skip: Scalar) -> None:
        """A row from the one beside it: each state is reached from itself, its neighbour and, where `skip` has 0, the
        next one. towards: 1 for later states, -1 for earlier ones."""
        f, kernel = self.f, self.kernel
        with f.loop(0, self.whole, kernel.lanes, "states", trip_at_least_one=True) as s:
            stay, move, jump = (
                f.load(kernel.vector, f.gep(F64, other, f.add(s.index, by))) for by in (0, towards, 2 * towards)
            )
            allowed = f.load(kernel.vector, f.gep(F64, skip, s.index))
            total = kernel.log_sum(stay, move, f.fadd(jump, allowed))
            f.store(
                f.fadd(total, f.load(kernel.vector, f.gep(F64, self.emitted, s.index))), f.gep(F64, row, s.index)
            )

    def shares(self, step: Scalar, total: Scalar) -> None:
        """The probability of each class at a step, given the target; `emitted` is overwritten."""
        f, kernel = self.f, self.kernel
        alpha, beta = self._row(self.alphas, step), self._row(self.betas, f.and_(step, 1))
        whole = f.splat(total, kernel.lanes)
        with f.loop(0, self.whole, kernel.lanes, "states", trip_at_least_one=True) as s:
            a, b, e = (f.load(kernel.vector, f.gep(F64, row, s.index)) for row in (alpha, beta, self.emitted))
            is_finite = f.fcmp("oeq", f.fsub(e, e), const(kernel.vector, 0.0))
            through = f.select(is_finite, f.fsub(f.fadd(a, b), e), -math.inf)
            f.store(exp(kernel.math, f.fsub(through, whole)), f.gep(F64, self.emitted, s.index))
        with f.loop(0, kernel.classes, kernel.lanes, "class") as c:
            f.store(const(kernel.vector, 0.0), f.gep(F64, self.share, c.index))
        with f.loop(0, self.states, name="state", trip_at_least_one=True) as s:
            place = f.gep(F64, self.share, f.load(I64, f.gep(I64, self.of_state, s.index)))
            f.store(f.fadd(f.load(F64, place), f.load(F64, f.gep(F64, self.emitted, s.index))), place)

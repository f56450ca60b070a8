"""weft.cond, weft.while_loop and weft.scan within a trace: prim::If and prim::Loop, as a scripted program has them.
Every branch and body is recorded once, on the example.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from weft.ir.builder import Builder
from weft.ir.graph import Block, Operand
from weft.jit.script.frontend.branches import joined
from weft.jit.script.frontend.iterables import ENDLESS
from weft.jit.script.frontend.values import Simple
from weft.jit.tracing.structures import unwrapped
from weft.jit.tracing.values import PLACE, TracedNumber
from weft.support import pytree
from weft.support.errors import ArgumentError
from weft.tensor.modes import is_grad_enabled
from weft.tensor.tensor import Tensor
from weft.types import tensor_type as tt
from weft.types.tensor_type import Type

Rows = list[Tensor]


@dataclass(frozen=True)
class _Branch:
    """What a branch gives, on the example and in its block."""

    leaves: list[Any]
    spec: pytree.TreeSpec
    types: list[Type]
    block: Block


class Control:
    """What a recorder makes of control flow."""

    def __init__(self, recorder: Any) -> None:
        self.recorder, self.ctx = recorder, recorder.ctx

    def cond(self, pred: Any, true_fn: Callable[..., Any], false_fn: Callable[..., Any], operands: Any) -> Any:
        """weft.cond of a traced tensor. Raises ArgumentError if the branches give different structures or types."""
        asked = self._truth(pred)
        branches = [self._branch(fn, operands) for fn in (true_fn, false_fn)]
        specs, kinds = [b.spec for b in branches], [b.types for b in branches]
        if specs[0] != specs[1]:
            raise ArgumentError(f"cond: the branches return different structures, {specs[0]!r} and {specs[1]!r}")
        types = [joined(a, b) for a, b in zip(*kinds, strict=True)]
        if None in types:
            raise ArgumentError(f"cond: the branches return values of types {kinds[0]} and {kinds[1]}")
        outputs = self._append("prim::If", (asked,), types, tuple([b.block for b in branches]))
        leaves = branches[0 if bool(unwrapped(pred)) else 1].leaves
        return pytree.unflatten([self._bound(o, leaf) for o, leaf in zip(outputs, leaves, strict=True)], specs[0])

    def _branch(self, fn: Callable[..., Any], operands: Any) -> _Branch:
        with self._block() as inner:
            leaves, spec = pytree.flatten(fn(*operands))
            values = [self.recorder.left(leaf) for leaf in leaves]
            return _Branch(leaves, spec, [v.type for v in values], self._ended(inner, [v.operand for v in values]))

    def while_loop(
        self, cond_fn: Callable[..., Any], body: Callable[..., Sequence[Tensor]], start: Rows,
        run: Callable[[Rows], Any],
    ) -> tuple[Any, ...]:
        """weft.while_loop. run: the same in Python, for what the example gives."""
        final = self._in_python(run, start)
        first = self._truth(cond_fn(*start))

        def step(index: Any, carried: Rows) -> tuple[Operand, Sequence[Tensor]]:
            following = body(*carried)
            return self._truth(cond_fn(*following)), following

        return tuple(self._loop(ENDLESS, first, start, step, final))

    def scan(
        self, step: Callable[[Rows, Rows], tuple[Rows, Rows]], carried: Rows, xs: Rows, length: Any, reverse: bool,
        run: Callable[[Rows, Rows, Any], Any],
    ) -> tuple[Rows, Rows]:
        """weft.scan: a loop over the numbers of rows that puts each y at the end of a list. Raises ArgumentError for an
        example without rows."""
        if unwrapped(length) == 0:
            raise ArgumentError("scan: in a trace the example needs at least one row")
        final, ys = self._in_python(run, carried, xs, length)
        lists: list[Simple] = []
        outer = self.ctx.builder

        def body(index: Any, states: Rows) -> tuple[Operand, Sequence[Tensor]]:
            at = length - 1 - index if reverse else index
            following, rows = step(states, [x.select(0, at) for x in xs])
            for y in rows:
                kind = tt.list_of(tt.TENSOR)
                new = outer.emit_raw(self.ctx.op("prim::ListConstruct"), ((), str(kind)), (kind,)).output
                lists.append(Simple(new, kind))
                self._append("prim::append", (new, self.recorder.left(y).operand), (), ())
            return True, following

        trip = self.recorder.value_of(length).as_value(self.ctx, PLACE).operand
        state = self._loop(trip, True, carried, body, final)
        return state, [self._stacked(values, y, reverse) for values, y in zip(lists, ys, strict=True)]

    def _stacked(self, values: Simple, example: Tensor, reverse: bool) -> Tensor:
        """Rows, of which the first comes last where `reverse`."""
        (stacked,) = self._append("aten::stack", (values.operand, 0), (tt.TENSOR,), ())
        rows = self._bound(stacked, example)
        if not reverse:
            return rows  # type: ignore[no-any-return]
        (flipped,) = self._append("aten::flip", (stacked, (0,)), (tt.TENSOR,), ())
        return self._bound(flipped, example)  # type: ignore[no-any-return]

    # ---- blocks
    def _loop(
        self, trip: Operand, first: Operand, start: Rows,
        step: Callable[[Any, Rows], tuple[Operand, Sequence[Tensor]]], final: Sequence[Tensor],
    ) -> Rows:
        before = tuple([self.recorder.left(c).operand for c in start])
        with self._block() as inner:
            index = TracedNumber.of(self.recorder, 0, Simple(inner.param(tt.INT), tt.INT))
            carried = [self._bound(inner.param(tt.TENSOR), c) for c in start]
            goes_on, following = step(index, carried)
            results = [goes_on, *(self.recorder.left(f).operand for f in following)]
            block = self._ended(inner, results)
        outputs = self._append("prim::Loop", (trip, first, before, (), False), [tt.TENSOR] * len(start), (block,))
        return [self._bound(o, f) for o, f in zip(outputs, final, strict=True)]

    def _append(
        self, op: str, args: tuple[Operand, ...], types: Sequence[Any], blocks: tuple[Block, ...]
    ) -> tuple[Any, ...]:
        node = self.ctx.append(self.ctx.op(op), args, tuple(types), PLACE, blocks)
        return tuple(node.outputs)

    @contextmanager
    def _block(self) -> Iterator[Builder]:
        """What is recorded within goes into a block of its own, which ends with the grad mode that it begins with."""
        recorder = self.recorder
        recorder.follow_grad_mode(is_grad_enabled())
        around = recorder.mode_around
        with self.ctx.block() as inner:
            yield inner
        recorder.mode_around = around  # what the block has found is a value of the block

    def _ended(self, inner: Builder, results: Sequence[Operand]) -> Block:
        self.recorder.follow_grad_mode(is_grad_enabled())
        return inner.block(results)

    # ---- values
    def _truth(self, asked: Any) -> Operand:
        if not isinstance(asked, Tensor):
            return bool(asked)
        value = self.recorder.value_of(asked).as_value(self.ctx, PLACE)
        truth: Operand = self.ctx.prim("bool", PLACE, value).operand
        return truth

    def _in_python(self, run: Callable[..., Any], *args: Any) -> Any:
        """What Python gives on the example: on the tensors themselves, for a transform within `run` takes those that it
        is given as they are, and a traced one has no history."""
        with self.ctx.pause():
            return unwrapped(run(*unwrapped(args)))

    def _bound(self, value: Operand, example: Any) -> Any:
        return self.recorder.bound(Simple(value, value.type), unwrapped(example))

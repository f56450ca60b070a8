"""The captured graph, built from the steps of a schedule and from nothing else: no tensor is at hand,
so none of its sizes can get in."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from weft.compiled_autograd.inline import Copies, is_size
from weft.compiled_autograd.steps import (
    ACCUMULATE,
    ADD,
    CALL,
    CHECK,
    FLOAT,
    INLINE,
    INNER_TENSORS,
    INT,
    INTO_BASE,
    MAKE_SUBCLASS,
    OP,
    POST_HOOK,
    PRE_HOOK,
    RETAIN,
    SIZE,
    SLICE,
    TENSOR_HOOK,
    UNPACK,
    VALIDATE,
    Constant,
    Pattern,
    Ref,
    Schedule,
    Step,
)
from weft.ir.backward_calls import (
    ACCUMULATE_LEAF,
    CALL_BACKWARD,
    CHECK_GRADIENT,
    EPILOGUE,
    INNER_TENSORS_CALL,
    MAKE_SUBCLASS_CALL,
    POST_HOOK_CALL,
    PRE_HOOK_CALL,
    PROLOGUE,
    RETAIN_GRAD,
    TENSOR_HOOK_CALL,
    UNPACK_HOOK,
)
from weft.ir.builder import Builder
from weft.ir.graph import Graph, Operand, Value
from weft.ir.opaque import VALIDATE as VALIDATE_OP
from weft.ir.opaque import opaque_op
from weft.ops.op import Op
from weft.ops.packet import aten
from weft.support.locations import Location
from weft.types.tensor_type import FLOAT as FLOAT_TYPE
from weft.types.tensor_type import INT as INT_TYPE
from weft.types.tensor_type import NONE, OBJECT, TENSOR, Type

# by the first letter of a parameter's name
_KINDS: dict[str, Type] = {"t": TENSOR, "s": INT_TYPE, "n": INT_TYPE, "i": INT_TYPE, "f": FLOAT_TYPE, "o": OBJECT}


def build(plan: Schedule, name: str = "backward") -> tuple[Graph, tuple[int, ...]]:
    """The graph of a schedule, and for each node the number of its step. Its parameters: tensors `t*`, sizes `s*`
    (never negative), the other numbers `n*` that inlined programs have for symbols, other integers `i*`, floats `f*`,
    then hooks, nodes and leaves `o*`. One node for each step, in order; for an inlined program all of its own."""
    return _Build(name, plan).graph()


class _Build:
    """One building. Parameters of a kind are numbered in the order in which the steps take them."""

    def __init__(self, name: str, plan: Schedule) -> None:
        self.builder = Builder(name)
        self.plan = plan
        counts = {
            "t": len(plan.tensors), "s": len(plan.sizes), "n": len(plan.numbers), "i": len(plan.ints),
            "f": len(plan.floats), "o": len(plan.objects),
        }
        self.params = {
            kind: [self.builder.param(_KINDS[kind], f"{kind}{i}") for i in range(n)] for kind, n in counts.items()
        }
        self.taken = dict.fromkeys(counts, 0)
        self.values: list[Operand] = []
        self.copies = Copies(self.builder)

    def graph(self) -> tuple[Graph, tuple[int, ...]]:
        plan = self.plan
        origin, where = None, None
        steps: list[int] = []
        for i, (step, whose) in enumerate(zip(plan.steps, plan.origins, strict=True)):
            steps += [i - 1] * (len(self.builder.nodes) - len(steps))
            if whose is not origin:
                origin, where = whose, whose.forward_line
            if step[0] == INLINE:
                self.values.extend(self._copy(step, where))
                continue
            op, args, results = self._call(step)
            types = (TENSOR,) * results if isinstance(results, int) else tuple([TENSOR if r else NONE for r in results])
            node = self.builder.emit_raw(op, args, types, where=where)
            self.values.extend(node.outputs)
        steps += [len(plan.steps) - 1] * (len(self.builder.nodes) - len(steps))
        return self.builder.graph(tuple([self._ref(r) for r in plan.outputs])), tuple(steps)

    def _copy(self, step: Step, where: Location | None) -> list[Operand]:
        """A compiled backward's nodes."""
        _, body, taken, grads = step
        numbers = [self._take("s" if is_size(symbol) else "n") for symbol in body.symbols]
        operands = [self._take("f") if ref == FLOAT else self._ref(ref) for ref in taken]
        return self.copies.add(body, operands, self._refs(grads), numbers, where)

    def _call(self, step: Step) -> tuple[Op, tuple[Operand, ...], int | Pattern]:
        """The operator of a step, its operands, and how many results it has (for Python's: which of them are there)."""
        kind = step[0]
        if kind == OP:
            _, plan, grads, wanted, packed, counts, there = step
            made = there or sum(c for c, n in zip(counts, wanted, strict=True) if n)
            return opaque_op(plan), (self._refs(grads), wanted, tuple([self._saved(p) for p in packed])), made
        if kind == ADD:
            return aten.add.Tensor.op, (self._ref(step[1]), self._ref(step[2]), 1), 1
        if kind == VALIDATE:
            return VALIDATE_OP, (self._ref(step[1]), self._sizes(step[2]), step[3]), 1
        if kind == SLICE:
            return PROLOGUE, (self._ref(step[1]), self._path(step[2])), 1
        if kind == INTO_BASE:
            return EPILOGUE, (self._ref(step[1]), self._ref(step[2]), self._ref(step[3]), self._path(step[4])), 1
        return self._python(kind, step)

    def _python(self, kind: str, step: Step) -> tuple[Op, tuple[Operand, ...], int | Pattern]:
        if kind == CALL:
            return CALL_BACKWARD, (self._take("o"), self._refs(step[1]), step[2]), step[3]
        if kind == MAKE_SUBCLASS:
            return MAKE_SUBCLASS_CALL, (self._take("o"), self._refs(step[1])), step[2]
        if kind == INNER_TENSORS:
            return INNER_TENSORS_CALL, (self._take("o"), self._refs(step[1]), step[2]), step[3]
        if kind == CHECK:
            return (
                CHECK_GRADIENT, (self._take("o"), self._take("i"), self._ref(step[1]), self._sizes(step[2]), step[3]), 1
            )
        if kind == TENSOR_HOOK:
            return TENSOR_HOOK_CALL, (self._take("o"), self._ref(step[1])), step[2]
        if kind == RETAIN:
            return RETAIN_GRAD, (self._take("o"), self._ref(step[1])), 0
        if kind == PRE_HOOK:
            return PRE_HOOK_CALL, (self._take("o"), self._refs(step[1])), step[2]
        if kind == POST_HOOK:
            return POST_HOOK_CALL, (self._take("o"), self._refs(step[1]), self._refs(step[2])), step[3]
        if kind == ACCUMULATE:
            return ACCUMULATE_LEAF, (self._take("o"), self._ref(step[1]), step[2]), 0
        assert kind == UNPACK, kind
        return UNPACK_HOOK, (self._take("o"), self._take("o")), 1

    def _take(self, kind: str) -> Value:
        at = self.taken[kind]
        self.taken[kind] = at + 1
        return self.params[kind][at]

    def _sizes(self, count: int) -> tuple[Value, ...]:
        return tuple([self._take("s") for _ in range(count)])

    def _ref(self, ref: Ref | None) -> Operand:
        if ref is None:
            return None
        return self.values[ref] if ref >= 0 else self.params["t"][~ref]

    def _refs(self, refs: Sequence[Ref | None]) -> tuple[Operand, ...]:
        return tuple([self._ref(r) for r in refs])

    def _saved(self, value: Any) -> Operand:
        """A saved value's operand."""
        kind = type(value)
        if kind is int:
            return self._ref(value)
        if kind is str:
            return self._take({SIZE: "s", INT: "i", FLOAT: "f"}[value])
        if kind is Constant:
            return value.value
        return tuple([self._saved(v) for v in value]) if kind is tuple else value

    def _path(self, path: tuple[tuple[Op, Any, int], ...]) -> tuple[Operand, ...]:
        return tuple([(op.name, self._saved(args), index) for op, args, index in path])

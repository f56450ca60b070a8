"""Values that Python asks tensors for while a function is captured (`.item()`, `if tensor:`).

A truth value decides which way Python goes: it is computed then and there, for the call that is captured, and the
program is for that answer. It asks again at each run, before it writes anything; where the answer is another one,
another program serves the call (ValueChanged). Any other number stays a symbol that the run binds, until a comparison
makes a truth value of it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from weft.guards.watching import unwatched
from weft.ir.evaluate import ArrayEvaluator
from weft.ir.graph import Operand, Value
from weft.ir.structure import EXPECT
from weft.ops.op import OPS
from weft.ops.packet import aten
from weft.passes.effects import ORDERED
from weft.record.numbers.sym_float import Facts, SymFloat
from weft.record.recorder import GraphRecorder, paused, refusal
from weft.support import limits
from weft.support.errors import CaptureError
from weft.types import dims
from weft.types import dtype as dt
from weft.types.dims import Dim, Expr
from weft.types.relation import Relation
from weft.types.tensor_type import BOOL

if TYPE_CHECKING:
    from weft.record.numbers.lifted import LiftedNumbers
    from weft.record.symbolic import SymbolicPayload

_NUMBER = OPS["prim::number"]
_RUN_TIME = Facts(is_known=False)
_BITS = 31  # of a size that the run finds, or of an integer that is read


class ValueReads:
    """What one capture reads.

    inputs: what the parameters of the graph so far are in this call, and the values of its symbols.
    """

    def __init__(
        self, recorder: GraphRecorder, numbers: LiftedNumbers,
        inputs: Callable[[], tuple[Sequence[Any], Mapping[str, int]]],
    ) -> None:
        self._recorder, self._numbers, self._inputs = recorder, numbers, inputs
        self._evaluator = ArrayEvaluator()
        self._values: dict[Value, Any] = {}
        self.answers = 0  # that the program is for

    def read(self, payload: SymbolicPayload) -> Any:
        """The only element of a tensor: a bool, or a number that the run binds. NotImplemented where a program cannot
        have it."""
        dtype = payload.type.dtype
        if self._recorder.depth or dtype is None or dtype.is_complex or payload.type.numel != 1:
            return NotImplemented
        builder, value = self._recorder.builder, payload.read()
        if payload.type.ndim:
            value = builder.emit(aten.view.default.op, (value, ())).output
        if dtype.is_floating_point:
            number = builder.emit(_NUMBER, (value,)).output
            key = f"value {id(number)}"
            return SymFloat(number, self._numbers, lambda values: float(values[key]), _RUN_TIME)
        if dtype is dt.bool_:
            return self.decide(value)
        if dtype.itemsize == 8:
            is_small = builder.emit(aten.lt.Tensor.op, (builder.emit(aten.abs.default.op, (value,)).output, 1 << _BITS))
            if not unwatched(self._value_of, is_small.output):
                return NotImplemented
            builder.emit(EXPECT, (is_small.output, True))
        return self._numbers.whole_number(value, builder.emit(aten.neg.default.op, (value,)).output)

    def decide(self, condition: Operand) -> bool:
        """The answer in this call, which the program is for."""
        if isinstance(condition, bool):
            return condition
        if self._recorder.depth:
            raise self._refused("a value is asked for within a block of a program")
        if self.answers == limits.ANSWERS_OF_A_PROGRAM:
            raise self._refused(f"Python asks for more than {self.answers} values that hang on tensors")
        if condition.type is BOOL:  # (native code asks memory)
            condition = self._recorder.builder.emit(aten.full.default.op, ((), condition, dt.bool_, None)).output
        answer = bool(unwatched(self._value_of, condition))
        self.answers += 1
        self._recorder.builder.emit(EXPECT, (condition, answer))
        return answer

    def relation(self, relation: Relation) -> bool | None:
        """Whether a relation of sizes that the run finds holds in this call; the program is for that."""
        if not _stays_small(relation.expr):
            return None
        compare = aten.eq.Tensor if relation.op == "==" else aten.lt.Tensor
        return self.decide(self._recorder.builder.emit(compare.op, (relation.expr, 0)).output)

    def number(self, dim: Dim) -> int | None:
        """What a number that hangs on sizes which the run finds is in this call; the program is for that."""
        if not _stays_small(dim):
            return None
        unwatched(self._evaluate)
        value = dims.evaluate(dim, self._evaluator.symbols)
        self.decide(self._recorder.builder.emit(aten.eq.Tensor.op, (dim, value)).output)
        return value

    def _value_of(self, value: Value) -> Any:
        """What a value is in this call."""
        self._evaluate()
        return self._values[value]

    def _evaluate(self) -> None:
        """Compute what was recorded so far, each operator once, when the first answer behind it is asked for."""
        inputs, symbols = self._inputs()
        evaluator, values = self._evaluator, self._values
        with paused():
            evaluator.symbols.update(symbols)
            for parameter, array in zip(self._recorder.root.params, inputs, strict=True):
                values[parameter] = array
                evaluator.bind(parameter, array)
            for node in self._recorder.root.nodes:
                if node.op.effect in ORDERED:
                    raise self._refused("a value is asked for behind a call of Python")
                if any([output not in values for output in node.outputs]):
                    evaluator.evaluate_node(node, values)

    def _refused(self, what: str) -> CaptureError:
        self._recorder.refused = error = refusal(what, 4)
        return error


def _stays_small(dim: object) -> bool:
    """Whether 64 bits hold it, and all on the way to it, as native code computes it: Python's integers do not wrap."""
    if not isinstance(dim, Expr):
        return True
    atoms = [atom for monomial, _ in dim.terms for atom in monomial]
    most = sum([abs(factor) << _BITS * len(monomial) for monomial, factor in dim.terms])
    return most >> 63 == 0 and all(_stays_small(part) for atom in atoms if atom.kind != "symbol" for part in atom.args)

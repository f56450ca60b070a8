"""Numbers whose value decides what is computed: operators get the guarded value instead of the symbol."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from weft.ops.op import Op
from weft.record.numbers.lifted import LiftedNumbers
from weft.record.numbers.sym_float import SymFloat, Values
from weft.types import shape_env
from weft.types.dims import Expr, evaluate
from weft.types.sym import wrap


def specialized(numbers: LiftedNumbers, op: Op, args: tuple[Any, ...]) -> tuple[Any, ...]:
    """Bound arguments with Python's numbers for those that `op.specialize` asks for. That others are not among them
    is guarded too.
    """
    specialized_args = list(args)
    for position, question in op.specialized_positions:
        specialized_args[position] = _settled(numbers, specialized_args[position], question)
    return tuple(specialized_args)


def _settled(numbers: LiftedNumbers, value: Any, question: Callable[[Any], bool]) -> Any:
    if type(value) is tuple:
        return tuple([_settled(numbers, v, question) for v in value])
    if type(value) is SymFloat and not value.facts.is_known:  # what is certain of it may say it
        return float(value) if question(value) else value
    if type(value) is SymFloat:
        return float(value) if question(value.now()) or value.ask(question) else value
    if type(value) is Expr:
        return shape_env.fixed(value) if _holds(numbers, value, question) else value
    return value


def _holds(numbers: LiftedNumbers, value: Expr, question: Callable[[Any], bool]) -> bool:
    def now(values: Values) -> int:
        return evaluate(value, values)

    if not shape_env.is_known(value):  # bounds may say it; what they leave open is refused
        return question(wrap(value, numbers.env))
    if numbers.example_of(lambda values: question(now(values))):
        return True
    return numbers.ask_number(lambda values: question(now(values)), str(value), now)

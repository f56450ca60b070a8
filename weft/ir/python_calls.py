"""A call of Python within a captured program: what it is given and gives, and what must be in its place before it."""

from __future__ import annotations

from typing import Any

from weft.ir.graph import Value
from weft.ops.op import NOT_DIFFERENTIABLE, define
from weft.support.errors import StateError
from weft.types.tensor_type import tensor_type


def _ends_a_part(*args: Any) -> Any:
    raise StateError("a program with calls of Python is run in parts, with the calls between them")


def python_call_types(argument_types: tuple[Any, ...], results: tuple[Any, ...]) -> tuple[Any, ...]:
    """The type of each result: that of something given, by its number, or one of dims and dtype."""
    return tuple([tensor_type(r[1], r[0]) if isinstance(r, tuple) else argument_types[r] for r in results])


PYTHON_CALL = define(
    "autograd::python_call(int call, Object[] arguments, Object[] written, Object[] results) -> Object[]",
    "Calls a hook or a rule: number `call` of a program, which knows who that is and where the written values belong.",
    type=lambda call, arguments, written, results: python_call_types(arguments, results),
    kernel=_ends_a_part, vjp=NOT_DIFFERENTIABLE, effect="python", public=(),
)

READ_AFTER = define(
    "autograd::read_after(Tensor self, int call, int place) -> Tensor",
    "What is after call number `call` of Python where a value lay before it, for Python may have written there: in "
    "the memory of a parameter (`place`), or in memory that the program has for the value (below zero).",
    type=lambda self, call, place: self,
    kernel=_ends_a_part, vjp=NOT_DIFFERENTIABLE, public=(),
)


def before_calls(value: Value) -> Value:
    """The value that lay where a value is read after calls of Python."""
    while value.node is not None and value.node.op is READ_AFTER:
        value = value.node.args[0]
    return value

"""Python's math module on lifted numbers: while a function is captured, `math.cos(self.n / total)` is recorded instead
of answered once and for all. And `len` of a tensor, which Python's own makes a plain integer of.

The code that is captured loads these functions in place of Python's (guards/rewrite.py); math and builtins stay what
they are. It begins with the function itself; other code is known by a symbol that C code asks for a plain number
(LiftedNumbers.taken), and the capture starts again with it.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from types import CodeType, FunctionType
from typing import Any, Final

import numpy as np

from weft.compile.capture.symbolic import SymbolicPayload
from weft.compile.numbers.sym_float import SymFloat, float_of, is_live
from weft.guards.rewrite import Substitutes, functions_with, with_substitutes
from weft.support.locations import is_internal
from weft.tensor.tensor import Tensor
from weft.types import dims
from weft.types.dims import Dim
from weft.types.numbers import EXTREMA, MATH, NumberOperation
from weft.types.sym import SymInt, is_int_like, to_dim, wrap

Function = Callable[..., Any]
_PYTHONS_LEN: Final = len
_PYTHONS_INT: Final = int
_PYTHONS_FLOAT: Final = float


def _is_symbol(value: Any) -> bool:
    return type(value) in (SymInt, SymFloat) and is_live(value)


def _recorded(operation: NumberOperation) -> Function:
    python = operation.python

    @functools.wraps(python)
    def function(*numbers: Any) -> Any:
        lifted = next(filter(_is_symbol, numbers), None)
        if lifted is None:
            return python(*numbers)
        number: Any = float_of(lifted) if type(lifted) is SymInt else lifted
        return number._operation(operation, *[x.item() if isinstance(x, np.generic) else x for x in numbers])

    return function


def _extreme(operation: NumberOperation, of_dims: Callable[[Dim, Dim], Dim]) -> Function:
    python = operation.python

    @functools.wraps(python)
    def function(*values: Any, **options: Any) -> Any:
        numbers = values if len(values) != 1 or type(values[0]) not in (list, tuple) else values[0]
        lifted = next(filter(_is_symbol, numbers), None) if not options else None
        if lifted is None:
            return python(*values, **options)
        if all([is_int_like(x) for x in numbers]):
            return wrap(functools.reduce(of_dims, map(to_dim, numbers)), lifted.env)
        if all([isinstance(x, float) for x in numbers]):
            return functools.reduce(lambda a, b: _recorded(operation)(a, b), numbers)
        return python(*values)

    return function


def _int(*args: Any) -> Any:
    if len(args) != 1 or not _is_symbol(args[0]):
        return _PYTHONS_INT(*args)
    return args[0] if type(args[0]) is SymInt else args[0].__trunc__()


def _float(*args: Any) -> Any:
    if len(args) != 1 or not _is_symbol(args[0]):
        return _PYTHONS_FLOAT(*args)
    return float_of(args[0]) if type(args[0]) is SymInt else args[0]


def _len(x: Any) -> Any:
    return x.shape[0] if type(x) is Tensor and type(x._data) is SymbolicPayload and x.shape else _PYTHONS_LEN(x)


class _Math:
    """The module math where lifted numbers may come: its functions take them, the rest is what stands there."""

    def __getattr__(self, name: str) -> Any:
        found = getattr(math, name)
        return FUNCTIONS.values.get(id(found), found)


_OURS: Final[dict[str, Function]] = {name: _recorded(operation) for name, operation in MATH.items()}
_EXTREMA: Final = {
    id(max): _extreme(EXTREMA["max"], dims.maximum), id(min): _extreme(EXTREMA["min"], dims.minimum)
}
_CONVERSIONS: Final = {id(_PYTHONS_INT): _int, id(_PYTHONS_FLOAT): _float}
LENGTHS: Final = Substitutes({id(_PYTHONS_LEN): _len})
QUESTIONS: Final = Substitutes(_EXTREMA)
FUNCTIONS: Final = Substitutes(
    {id(MATH[name].python): ours for name, ours in _OURS.items()}, {id(math): (_Math(), frozenset(_OURS))},
    _CONVERSIONS,
)
LIFTED: Final = Substitutes({**LENGTHS.values, **_EXTREMA, **FUNCTIONS.values}, FUNCTIONS.modules, FUNCTIONS.called)
# weft's own code means Python's numbers where it says `int`, `float`, `max` or `min`
LIFTED_IN_WEFT: Final = Substitutes({**LENGTHS.values, **FUNCTIONS.values}, FUNCTIONS.modules)
# their frames stand between the user's code and what Python's own call of it
CODES: Final = frozenset(
    [f.__code__ for f in (_len, _int, _float, *_EXTREMA.values(), *_OURS.values())]  # type: ignore[attr-defined]
)


@contextmanager
def lifted_in(function: Any, codes: Collection[CodeType]) -> Iterator[None]:
    """Let a function that is captured, and every function with one of these codes, use math's functions and `len` on
    what is symbolic within a block. For all else, also on other threads, they are Python's own."""
    root = getattr(function, "__func__", function)
    functions = functions_with(codes) if codes else []
    functions += [root] if type(root) is FunctionType else []
    of_weft = [f for f in functions if is_internal(f.__code__.co_filename)]
    others = [f for f in functions if f not in of_weft]
    with with_substitutes(others, LIFTED), with_substitutes(of_weft, LIFTED_IN_WEFT):
        yield

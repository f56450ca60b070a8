"""Python's math module on lifted numbers: while a function is captured, `math.cos(self.n / total)` is recorded instead
of answered once and for all. And `len` of a tensor, which Python's own makes a plain integer of, and `type` of a
number.

The code that is captured loads these functions in place of Python's (guards/rewrite.py); math and builtins stay what
they are. It begins with the function itself; other code is known by a symbol that C code asks for a plain number
(LiftedNumbers.taken), and the capture starts again with it.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from types import CodeType, FrameType, FunctionType
from typing import Any, Final

from weft.guards.rewrite import Substitutes, functions_with, note_functions, with_substitutes
from weft.record.numbers.counted import PYTHONS, counted_enumerate, counted_range, counted_zip
from weft.support.locations import is_internal
from weft.tensor.tensor import Tensor
from weft.types.numbers import EXTREMA, MATH, NumberMethods, NumberOperation

Function = Callable[..., Any]
_PYTHONS_LEN: Final = len
_PYTHONS_INT: Final = int
_PYTHONS_TYPE: Final = type
_PYTHONS_FLOAT: Final = float


def _lifted_among(values: Iterable[Any]) -> NumberMethods | None:
    """The first number that is not known yet."""
    return next((x for x in values if isinstance(x, NumberMethods) and x.is_live), None)


def _recorded(operation: NumberOperation) -> Function:
    python = operation.python

    @functools.wraps(python)
    def function(*numbers: Any) -> Any:
        lifted = _lifted_among(numbers)
        return python(*numbers) if lifted is None else lifted.of_math(operation, *numbers)

    return function


def _extreme(operation: NumberOperation) -> Function:
    python = operation.python

    @functools.wraps(python)
    def function(*values: Any, **options: Any) -> Any:
        numbers = values
        if len(values) == 1 and not isinstance(values[0], Tensor):
            numbers = tuple(values[0])  # what is gone over once is kept
            values = (numbers,)
        if options or _lifted_among(numbers) is None:
            return python(*values, **options)
        return functools.reduce(_least, numbers)

    def _least(a: Any, b: Any) -> Any:
        lifted = _lifted_among((a, b))
        return python(a, b) if lifted is None else lifted.extreme(operation, a, b)

    return function


def _int(*args: Any) -> Any:
    lifted = _lifted_among(args) if len(args) == 1 else None
    return _PYTHONS_INT(*args) if lifted is None else lifted.__trunc__()  # type: ignore[attr-defined]


def _float(*args: Any) -> Any:
    lifted = _lifted_among(args) if len(args) == 1 else None
    return _PYTHONS_FLOAT(*args) if lifted is None else lifted.as_float()


def _type(*args: Any, **options: Any) -> Any:
    """Of a symbol the type of the number that it stands for."""
    is_number = len(args) == 1 and not options and isinstance(args[0], NumberMethods)
    return args[0].__class__ if is_number else _PYTHONS_TYPE(*args, **options)


def _len(x: Any) -> Any:
    # (of a transform's tensor too, which has its size from one that is symbolic)
    is_symbolic = type(x) is Tensor or hasattr(x, "__weft_control__")
    return x.shape[0] if is_symbolic and x.shape else _PYTHONS_LEN(x)


class _Math:
    """The module math where lifted numbers may come: its functions take them, the rest is what stands there."""

    def __getattr__(self, name: str) -> Any:
        member = getattr(math, name)
        return FUNCTIONS.values.get(id(member), member)


_OURS: Final[dict[str, Function]] = {name: _recorded(operation) for name, operation in MATH.items()}
_EXTREMA: Final = {id(max): _extreme(EXTREMA["max"]), id(min): _extreme(EXTREMA["min"])}
_CONVERSIONS: Final = {id(_PYTHONS_INT): _int, id(_PYTHONS_FLOAT): _float, id(_PYTHONS_TYPE): _type}
LENGTHS: Final = Substitutes({id(_PYTHONS_LEN): _len})
QUESTIONS: Final = Substitutes(_EXTREMA)
_COUNTED: Final[tuple[Function, ...]] = (counted_range, counted_zip, counted_enumerate)
LOOPS: Final = Substitutes(called=dict(zip(map(id, PYTHONS), _COUNTED, strict=True)))
FUNCTIONS: Final = Substitutes(
    {id(MATH[name].python): ours for name, ours in _OURS.items()}, {id(math): (_Math(), frozenset(_OURS))},
    _CONVERSIONS,
)
LIFTED: Final = Substitutes(
    {**LENGTHS.values, **_EXTREMA, **FUNCTIONS.values}, FUNCTIONS.modules, {**FUNCTIONS.called, **LOOPS.called}
)
# weft's own code means Python's numbers where it says `int`, `float`, `max` or `min`
LIFTED_IN_WEFT: Final = Substitutes({**LENGTHS.values, **FUNCTIONS.values}, FUNCTIONS.modules)
# their frames stand between the user's code and what Python's own call of it
CODES: Final = frozenset(
    [f.__code__ for f in (
        _len, _int, _float, _type, *_COUNTED, *_EXTREMA.values(), *_OURS.values(),
    )]
)


def code_that_loads(frame: FrameType, substitutes: Substitutes, known_codes: Collection[CodeType]) -> CodeType | None:
    """The code that runs on a frame if it loads what is substituted, and is not yet known to; of a comprehension also
    the function that it stands in, which may import the module."""
    around: FrameType | None = frame
    while around is not None:
        code = around.f_code
        if any(code is one for one in known_codes) or code in CODES:
            return None
        wanted = Substitutes(substitutes.values, substitutes.modules) if is_internal(code.co_filename) else substitutes
        if wanted.is_loaded_by(code, around.f_globals, around.f_builtins):
            note_functions(around)
            return code
        around = around.f_back
        around = around if around is not None and code in around.f_code.co_consts else None
    return None


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

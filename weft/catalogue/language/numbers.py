"""Arithmetic and comparison with Python's rules. Integers have 64 bits: what does not fit wraps around."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from weft.catalogue.language.elements import all_of, any_of, equal, extreme, ordered, total, unequal
from weft.catalogue.language.entries import ORDERED, language, type_of
from weft.types.int64 import LEAST, MOST
from weft.types.sym import SymInt, fits
from weft.types.tensor_type import (
    ANY,
    BOOL,
    COMPLEX,
    DEVICE,
    FLOAT,
    INT,
    LAYOUT,
    NUMBER,
    STR,
    ClassType,
    DictType,
    ListType,
    OptionalType,
    TupleType,
    Type,
    tuple_of,
)

_NUMBERS = ("int, int -> int", "float, float -> float", "complex, complex -> complex", "Number, Number -> Number")


def wrap(value: Any) -> Any:
    """The number as 64 bits hold it, if it is an integer. One that a capture knows as a symbol stays exact."""
    if type(value) is SymInt and not fits(value) and isinstance(value.expr, int):  # a run has found it
        value = value.expr
    if type(value) is int and not LEAST <= value <= MOST:
        return (value - LEAST) % (1 << 64) + LEAST
    return value


def whole(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function that makes integers of numbers and texts. Raises OverflowError for what is no integer itself and that
    no integer of 64 bits holds: what is left of it would be no part of it."""
    def kernel(*args: Any) -> Any:
        value = function(*args)
        if type(value) is int and not LEAST <= value <= MOST and not isinstance(args[0], (int, SymInt)):
            raise OverflowError(f"cannot convert {args[0]!r} to an integer of 64 bits")
        return wrap(value)

    return kernel


def _wrapping(function: Callable[..., Any]) -> Callable[..., Any]:
    def kernel(*args: Any) -> Any:
        value = function(*args)
        return wrap(value) if isinstance(value, int) else value

    return kernel


def _tuples_joined(a: Any, b: Any) -> Type | None:
    first, second = type_of(a), type_of(b)
    if isinstance(first, TupleType) and isinstance(second, TupleType):
        return tuple_of(*first.elements, *second.elements)
    return None


language(
    "prim::add", "a, b", "The sum; texts, lists and tuples are joined.", _wrapping(operator.add), *_NUMBERS,
    "str, str -> str", "T[], T[] -> T[]", rule=_tuples_joined, effect=ORDERED, observes="pure",
    native=lambda s, a, b: s.arithmetic("add", a, b), native_of_list=lambda s, a, b: s.joined(a, b),
)
language(
    "prim::sub", "a, b", "The difference.", _wrapping(operator.sub), *_NUMBERS,
    native=lambda s, a, b: s.arithmetic("sub", a, b),
)
language(
    "prim::mul", "a, b", "The product; texts and lists are repeated.", _wrapping(operator.mul), *_NUMBERS,
    "str, int -> str", "int, str -> str", "T[], int -> T[]", "int, T[] -> T[]", effect=ORDERED, observes="pure",
    native=lambda s, a, b: s.arithmetic("mul", a, b), native_of_list=lambda s, items, n: s.repeated(items, n),
)
language(
    "prim::truediv", "a, b", "The quotient, never an integer. Raises ZeroDivisionError.", operator.truediv,
    "float, float -> float", "complex, complex -> complex", "Number, Number -> Number", effect="raises",
    native=lambda s, a, b: s.truediv(a, b),
)
language(
    "prim::floordiv", "a, b", "The quotient, rounded down. Raises ZeroDivisionError.", _wrapping(operator.floordiv),
    "int, int -> int", "float, float -> float", "Number, Number -> Number", effect="raises",
    native=lambda s, a, b: s.floordiv(a, b),
)
language(
    "prim::mod", "a, b", "The remainder, with the sign of the divisor; a text is filled in. Raises ZeroDivisionError.",
    _wrapping(operator.mod), "int, int -> int", "float, float -> float", "Number, Number -> Number", "str, Any -> str",
    effect="raises",
    native=lambda s, a, b: s.mod(a, b),
)
language(
    "prim::neg", "a", "The number with the other sign.", _wrapping(operator.neg), "int -> int", "float -> float",
    "complex -> complex", "Number -> Number",
    native=lambda s, a: s.neg(a),
)
language(
    "prim::pos", "a", "The number itself.", operator.pos, "int -> int", "float -> float", "complex -> complex",
    "Number -> Number",
    native=lambda s, a: s.pos(a),
)
language(
    "prim::abs", "a", "The number without its sign.", _wrapping(abs), "int -> int", "float -> float",
    "complex -> float", "Number -> Number",
    native=lambda s, a: s.abs(a),
)
language(
    "prim::bitwise_and", "a, b", "Both, bit by bit.", operator.and_, "bool, bool -> bool", "int, int -> int",
    native=lambda s, a, b: s.bits("and_", a, b),
)
language(
    "prim::bitwise_or", "a, b", "Either, bit by bit.", operator.or_, "bool, bool -> bool", "int, int -> int",
    native=lambda s, a, b: s.bits("or_", a, b),
)
language(
    "prim::bitwise_xor", "a, b", "One but not both, bit by bit.", operator.xor, "bool, bool -> bool", "int, int -> int",
    native=lambda s, a, b: s.bits("xor", a, b),
)
language("prim::invert", "a", "The other bits.", operator.invert, "int -> int", native=lambda s, a: s.invert(a))


def _shifted(a: Any, b: Any) -> Any:
    return wrap(a << b) if b < 64 else 0


language(
    "prim::lshift", "a, b", "Bits moved up. Raises ValueError for a negative count.", _shifted, "int, int -> int",
    effect="raises",
    native=lambda s, a, b: s.shift("shl", a, b),
)
language(
    "prim::rshift", "a, b", "Bits moved down. Raises ValueError for a negative count.", operator.rshift,
    "int, int -> int", effect="raises",
    native=lambda s, a, b: s.shift("ashr", a, b),
)


def _power(a: Any, b: Any) -> Any:
    if isinstance(a, complex) or isinstance(b, complex):
        return a**b
    power = float(a) ** float(b)
    return power if isinstance(power, float) else float("nan")  # the type of a program does not hang on its values


language(
    "prim::pow", "a, b", "a to the power b, a float unless complex; nan where only a complex number would do.", _power,
    "float, float -> float", "complex, complex -> complex", "Number, Number -> Number", effect="raises",
    native=lambda s, a, b: s.power(a, b),
)
language(
    "prim::int_pow", "a, b", "a to the power of an integer that is written in the program and not negative.",
    _wrapping(operator.pow), "int, int -> int",
    native=lambda s, a, b: s.int_power(a, b),
)


# ---- comparison
def _is_ordered(kind: Type) -> bool:
    return kind in (INT, FLOAT, BOOL, STR, NUMBER) or (isinstance(kind, ListType) and _is_ordered(kind.element)) or (
        isinstance(kind, TupleType) and all(map(_is_ordered, kind.elements)))


def _compared(a: Any, b: Any) -> Type | None:
    first, second = type_of(a), type_of(b)
    return (
        BOOL if type(first) is type(second) and (STR in (first, second)) == (first is second is STR)
        and _is_ordered(first) and _is_ordered(second) else None
    )


def _are_comparable(a: Type, b: Type) -> bool:
    numbers = (INT, FLOAT, BOOL, COMPLEX, NUMBER)
    loose = (OptionalType, ListType, TupleType, DictType)
    return (
        a is b or ANY in (a, b) or {a, b} in ({LAYOUT, STR}, {DEVICE, STR}) or (a in numbers and b in numbers)
        or isinstance(a, loose) or isinstance(b, loose) or (isinstance(a, ClassType) and isinstance(b, ClassType))
        or a.is_subtype_of(b) or b.is_subtype_of(a)
    )


def _equal(a: Any, b: Any) -> Type | None:
    return BOOL if _are_comparable(type_of(a), type_of(b)) else None


for _name, _doc, _function in (
    ("lt", "Whether a is less than b.", operator.lt), ("le", "Whether a is at most b.", operator.le),
    ("gt", "Whether a is greater than b.", operator.gt), ("ge", "Whether a is at least b.", operator.ge),
):
    language(
        f"prim::{_name}", "a, b", _doc, _function, rule=_compared, effect=ORDERED, observes="pure",
        native=lambda s, a, b, name=_name: s.compare(name, a, b),
        of_elements=lambda s, a, b, name=_name: ordered(s, name, a, b),
    )
language(
    "prim::eq", "a, b", "Whether two values are equal.", operator.eq, rule=_equal, effect=ORDERED, observes="pure",
    native=lambda s, a, b: s.compare("eq", a, b), of_elements=equal,
)
language(
    "prim::ne", "a, b", "Whether two values differ.", operator.ne, rule=_equal, effect=ORDERED, observes="pure",
    native=lambda s, a, b: s.compare("ne", a, b), of_elements=unequal,
)


def is_same(a: Any, b: Any) -> bool:
    """`a is b`, where equal numbers and texts of one type are one object, however they came about."""
    return a is b or (type(a) is type(b) and isinstance(a, (int, float, complex, str)) and a == b)


language("prim::is_", "a, b", "Whether two names stand for one object (None, say).", is_same, "Any, Any -> bool")
language(
    "prim::is_not", "a, b", "Whether two names stand for two objects.", lambda a, b: not is_same(a, b),
    "Any, Any -> bool",
)
language(
    "prim::not_", "a", "Whether a condition does not hold.", operator.not_, "bool -> bool",
    native=lambda s, a: s.not_(a),
)


# ---- several numbers
language(
    "prim::divmod", "a, b", "Quotient and remainder. Raises ZeroDivisionError.", divmod, "int, int -> (int, int)",
    "float, float -> (float, float)", effect="raises",
    native=lambda s, a, b: (s.floordiv(a, b), s.mod(a, b)),
)
_EXTREMA = ("int, int -> int", "float, float -> float", "str, str -> str", "Number, Number -> Number")
language("prim::min", "a, b", "The lesser of two.", min, *_EXTREMA, native=lambda s, a, b: s.extremum("lt", a, b))
language("prim::max", "a, b", "The greater of two.", max, *_EXTREMA, native=lambda s, a, b: s.extremum("gt", a, b))
language(
    "prim::min_of", "values", "The least element. Raises ValueError where there is none.", min, "T[] -> T",
    effect=ORDERED, observes="raises", of_elements=lambda s, values: extreme(s, "lt", values),
)
language(
    "prim::max_of", "values", "The greatest element. Raises ValueError where there is none.", max, "T[] -> T",
    effect=ORDERED, observes="raises", of_elements=lambda s, values: extreme(s, "gt", values),
)


def _total(values: list[Any], start: Any) -> Any:
    return wrap(sum(values, start))


def _sum_type(values: Any, start: Any) -> Type | None:
    kind = type_of(values)
    return (
        (INT if kind.element is BOOL else kind.element)
        if isinstance(kind, ListType) and kind.element in (INT, FLOAT, BOOL, COMPLEX) else None
    )


language(
    "prim::sum", "values, start=0", "The sum of the elements.", _total, "float[], float -> float", rule=_sum_type,
    effect=ORDERED, observes="pure", of_elements=total,
)
language(
    "prim::any", "values", "Whether any element is true.", any, "T[] -> bool", effect=ORDERED, observes="pure",
    of_elements=any_of,
)
language(
    "prim::all", "values", "Whether every element is true.", all, "T[] -> bool", effect=ORDERED, observes="pure",
    of_elements=all_of,
)
language(
    "prim::round", "number, ndigits=None", "The nearest integer (ties to even), or number of so many digits.",
    whole(lambda number, ndigits: round(number) if ndigits is None else round(number, ndigits)), "float, None -> int",
    "int, int -> int", "float, int -> float", effect="raises",
    native=lambda s, number, ndigits: s.rounded("roundeven", number) if ndigits is None else None,
)


def _range_length(start: int, stop: int, step: int) -> int:
    return len(range(start, stop, step))


language(
    "prim::range_length", "start, stop, step", "How many numbers a range has. Raises ValueError for a step of 0.",
    _range_length, "int, int, int -> int", effect="raises",
    native=lambda s, start, stop, step: s.range_length(start, stop, step),
)

"""Python's operations on numbers, in one table that scripts, captures and native code share, and the methods that pass
them on: what a number that is not known yet (SymInt, SymFloat, a number of a trace) can do, every other one can too.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

Python = Callable[..., Any]


@dataclass(frozen=True)
class NumberOperation:
    """An operation on numbers.

    entry: the operator of the language (catalogue/language) that does it in a program. python: Python's own function.
    result: "int", "float", "bool", or "joint": an int of ints, else a float. keeps_sign: whether it gives no negative
    number of numbers that are not negative.
    operands: how many it has. in_c: whether native code has it as Python does, as C's function of that name (gamma,
    hypot and remainder are Python's own).
    """

    entry: str
    python: Python
    result: str
    keeps_sign: bool = False
    operands: int = 2
    in_c: bool = False

    def is_int(self, *types: type) -> bool:
        """Whether operands of these types give an int."""
        return self.result == "int" or (self.result == "joint" and all(issubclass(t, int) for t in types))

    def __call__(self, *operands: Any) -> Any:
        return self.python(*operands)


def _round(number: Any, digits: Any = None) -> Any:
    return round(number, digits)


# of two numbers, by the name of Python's method; the other way round, `__r...__` asks for the same
BINARY: Final = {
    "add": NumberOperation("prim::add", operator.add, "joint", True),
    "sub": NumberOperation("prim::sub", operator.sub, "joint"),
    "mul": NumberOperation("prim::mul", operator.mul, "joint", True),
    "truediv": NumberOperation("prim::truediv", operator.truediv, "float", True),
    "floordiv": NumberOperation("prim::floordiv", operator.floordiv, "joint", True),
    "mod": NumberOperation("prim::mod", operator.mod, "joint", True),
    "pow": NumberOperation("prim::pow", operator.pow, "float", True),
}
BITS: Final = {
    "and": NumberOperation("prim::bitwise_and", operator.and_, "int"),
    "or": NumberOperation("prim::bitwise_or", operator.or_, "int"),
    "xor": NumberOperation("prim::bitwise_xor", operator.xor, "int"),
    "lshift": NumberOperation("prim::lshift", operator.lshift, "int"),
    "rshift": NumberOperation("prim::rshift", operator.rshift, "int"),
}
COMPARISONS: Final = {
    "eq": NumberOperation("prim::eq", operator.eq, "bool"),
    "ne": NumberOperation("prim::ne", operator.ne, "bool"),
    "lt": NumberOperation("prim::lt", operator.lt, "bool"),
    "le": NumberOperation("prim::le", operator.le, "bool"),
    "gt": NumberOperation("prim::gt", operator.gt, "bool"),
    "ge": NumberOperation("prim::ge", operator.ge, "bool"),
}
UNARY: Final = {
    "neg": NumberOperation("prim::neg", operator.neg, "joint", operands=1),
    "pos": NumberOperation("prim::pos", operator.pos, "joint", True, operands=1),
    "abs": NumberOperation("prim::abs", abs, "joint", True, operands=1),
    "invert": NumberOperation("prim::invert", operator.invert, "int", operands=1),
    "trunc": NumberOperation("math::trunc", math.trunc, "int", True, operands=1),
    "floor": NumberOperation("math::floor", math.floor, "int", True, operands=1),
    "ceil": NumberOperation("math::ceil", math.ceil, "int", True, operands=1),
}
ROUND: Final = NumberOperation("prim::round", _round, "int", True, operands=1)
ROUND_TO_DIGITS: Final = NumberOperation("prim::round", _round, "joint", True)
# what builtins of two numbers give where both are of one type
EXTREMA: Final = {
    "max": NumberOperation("prim::max", max, "joint", True),
    "min": NumberOperation("prim::min", min, "joint", True),
}


def _of_math(
    names: str, result: str = "float", operands: int = 1, keeps_sign: bool = False, in_c: bool = True
) -> dict[str, NumberOperation]:
    return {
        name: NumberOperation(f"math::{name}", getattr(math, name), result, keeps_sign, operands, in_c)
        for name in names.split()
    }


# functions of the module math, by name, on floats (an int is taken as one)
MATH: Final[dict[str, NumberOperation]] = {
    **_of_math("log log2 log10 sin cos tan asin acos acosh atanh"),
    **_of_math("sqrt exp expm1 log1p atan sinh cosh tanh asinh erf erfc", keeps_sign=True),
    **_of_math("pow fmod", operands=2, keeps_sign=True),
    **_of_math("atan2", operands=2),
    **_of_math("fabs degrees radians", keeps_sign=True, in_c=False),
    **_of_math("gamma lgamma", in_c=False),
    **_of_math("hypot", operands=2, keeps_sign=True, in_c=False),
    **_of_math("copysign remainder", operands=2, in_c=False),
    **_of_math("isnan isinf isfinite", "bool", in_c=False),
}


def are_numbers(operands: Iterable[Any]) -> bool:
    """Whether all are Python's numbers. NumPy's make numbers of NumPy's: NumPy is asked for these."""
    return all([x is None or (isinstance(x, (int, float)) and not isinstance(x, np.generic)) for x in operands])


class NumberMethods:
    """A number that is not known yet: Python's methods of a number, all of which ask `_operation` for what the table
    says."""

    __slots__ = ()
    stands_for_a_number = True  # of the type that `__class__` says

    @property
    def is_live(self) -> bool:
        """Whether what records operations on it still does."""
        raise NotImplementedError

    def as_float(self) -> Any:
        """What `float` gives."""
        raise NotImplementedError

    def of_math(self, operation: NumberOperation, *operands: Any) -> Any:
        """What a function of the module math gives, this number among the operands."""
        return self._operation(operation, *[x.item() if isinstance(x, np.generic) else x for x in operands])

    def extreme(self, operation: NumberOperation, a: Any, b: Any) -> Any:
        """What `max` or `min` gives of two numbers, this one among them."""
        raise NotImplementedError

    def _operation(self, operation: NumberOperation, *operands: Any) -> Any:
        """What the operation gives, this number among the operands; NotImplemented for operands that are no numbers."""
        raise NotImplementedError

    def is_same(self, other: NumberMethods) -> bool:
        """Whether another number of this kind is this one: of numbers that only the run knows nobody can tell but where
        they come from one place."""
        raise NotImplementedError

    @property
    def real(self) -> Any:
        """The number itself."""
        return self

    def conjugate(self) -> Any:
        """The number itself."""
        return self

    def __divmod__(self, other: Any) -> Any:
        return (self // other, self % other) if are_numbers((other,)) else NotImplemented

    def __rdivmod__(self, other: Any) -> Any:
        return (other // self, other % self) if are_numbers((other,)) else NotImplemented

    def __round__(self, digits: int | None = None) -> Any:
        return self._operation(ROUND, self) if digits is None else self._operation(ROUND_TO_DIGITS, self, digits)


def _binary(operation: NumberOperation) -> Python:
    return lambda self, other: self._operation(operation, self, other)


def _swapped(operation: NumberOperation) -> Python:
    return lambda self, other: self._operation(operation, other, self)


def _unary(operation: NumberOperation) -> Python:
    return lambda self: self._operation(operation, self)


def _give_methods() -> None:
    methods = {name: _binary(o) for name, o in {**BINARY, **BITS, **COMPARISONS}.items()}
    methods |= {f"r{name}": _swapped(o) for name, o in {**BINARY, **BITS}.items()}
    methods |= {name: _unary(o) for name, o in UNARY.items()}
    for name, method in methods.items():
        method.__name__ = f"__{name}__"
        setattr(NumberMethods, f"__{name}__", method)


_give_methods()

"""What an operation on numbers is in machine code: a body over the operations below, beside the kernel in its entry.

Values are int (64 bits), float and bool, tuples of them are Python's tuples. Python's rules hold: a bool counts as an
int, an int as a float, division rounds down. Where Python would raise, the body says so with `leave_if`, and the
interpreter runs the operation.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol


class Numbers(Protocol):
    """Operations on numbers. V stands for a number that is known when the program runs."""

    def arithmetic(self, name: str, a: Any, b: Any) -> Any:
        """`add`, `sub` or `mul`; integers wrap around."""

    def bits(self, name: str, a: Any, b: Any) -> Any:
        """`and_`, `or_` or `xor`, of two bools or two integers."""

    def truediv(self, a: Any, b: Any) -> Any:
        """The quotient, a float."""

    def floordiv(self, a: Any, b: Any) -> Any:
        """The quotient, rounded down."""

    def mod(self, a: Any, b: Any) -> Any:
        """What floordiv leaves, with the sign of b."""

    def neg(self, a: Any) -> Any:
        """The other sign."""

    def pos(self, a: Any) -> Any:
        """The number; a bool becomes an int."""

    def abs(self, a: Any) -> Any:
        """No sign."""

    def invert(self, a: Any) -> Any:
        """The other bits."""

    def shift(self, name: str, a: Any, b: Any) -> Any:
        """`shl` or `ashr` by so many bits."""

    def power(self, a: Any, b: Any) -> Any:
        """A float; nan where only a complex number would do."""

    def int_power(self, a: Any, exponent: Any) -> Any:
        """An integer to a power that is written in the program."""

    def compare(self, predicate: str, a: Any, b: Any) -> Any:
        """`eq`, `ne`, `lt`, `le`, `gt` or `ge`, exact also between an int and a float."""

    def not_(self, a: Any) -> Any:
        """The other bool."""

    def extremum(self, predicate: str, a: Any, b: Any) -> Any:
        """b where `b predicate a` holds, else a."""

    def to_int(self, a: Any) -> Any:
        """Cut off."""

    def to_float(self, a: Any) -> Any:
        """As a float."""

    def to_bool(self, a: Any) -> Any:
        """Whether it differs from 0."""

    def rounded(self, name: str, a: Any) -> Any:
        """`floor`, `ceil`, `trunc` or `roundeven` of a float, an int."""

    def range_length(self, start: Any, stop: Any, step: Any) -> Any:
        """How many numbers a range has."""

    def library(self, name: str, *args: Any) -> Any:
        """A function of the C library on floats. It leaves for the interpreter where a finite number gives none, and
        where no nan gives one."""

    def intrinsic(self, name: str, *args: Any) -> Any:
        """An operation of the machine on floats, which cannot fail."""

    def is_kind_of_float(self, name: str, a: Any) -> Any:
        """Whether a float is `finite`, `inf` or `nan`."""


class Elements(Protocol):
    """Operations on lists of numbers."""

    def length(self, items: Any) -> Any:
        """How many elements there are."""

    def element(self, items: Any, index: Any) -> Any:
        """An element, counted from the end where the index is negative."""

    def set_element(self, items: Any, index: Any, item: Any) -> None:
        """Put an element in place."""

    def append(self, items: Any, item: Any) -> None:
        """Put an element at the end."""

    def take_last(self, items: Any, at: Any) -> Any:
        """The last element, which goes, where `at` is None."""


Body = Callable[..., Any]

"""Sizes as data: a table of steps over the words of a frame, each subexpression once;
and which size is never smaller than another."""

from __future__ import annotations

from enum import IntEnum
from functools import lru_cache

from weft.plan.words import Words
from weft.support import limits
from weft.types import dims as dm
from weft.types.dims import Atom, Dim, Expr
from weft.types.relation import lower_bound_of

RECORD = 4  # numbers in a step: operation, word of the result, words of the two operands


class Operation(IntEnum):
    """What a step does with two words. AFTER: the first offset behind y bytes at offset x."""

    ADD = 0
    MUL = 1
    MAX = 2
    MIN = 3
    FLOORDIV = 4
    MOD = 5
    AFTER = 6


class SizeTable:
    """The steps that compute sizes from the symbols' words. Exact as long as every intermediate fits into 64 bits."""

    def __init__(self, words: Words) -> None:
        self._words = words
        self._dims: dict[Dim, int] = {}
        self._products: dict[tuple[Atom, ...], int] = {}
        self.numbers: list[int] = []

    def __len__(self) -> int:
        return len(self.numbers) // RECORD

    def put(self, dim: Dim, word: int) -> None:
        """Leave the value of a dim in a word."""
        self.step(Operation.ADD, self.word(dim), self.word(0), word)

    def word(self, dim: Dim) -> int:
        """A word that has the value of a dim."""
        if not isinstance(dim, Expr):
            return self._words.dims((dim,))
        word = self._dims.get(dim)
        if word is None:
            word = self._dims[dim] = self._sum(dim)
        return word

    def step(self, operation: Operation, x: int, y: int, target: int | None = None) -> int:
        """Add a step; the word of its result, a fresh one if none is given."""
        target = self._words.take() if target is None else target
        self.numbers += (operation, target, x, y)
        return target

    def _sum(self, dim: Expr) -> int:
        total: int | None = None
        for monomial, coefficient in dim.terms:
            term = self._scaled(monomial, coefficient)
            total = term if total is None else self.step(Operation.ADD, total, term)
        return self.word(0) if total is None else total

    def _scaled(self, monomial: tuple[Atom, ...], coefficient: int) -> int:
        if not monomial or coefficient == 1:
            return self._product(monomial) if monomial else self.word(coefficient)
        return self.step(Operation.MUL, self._product(monomial), self.word(coefficient))

    def _product(self, monomial: tuple[Atom, ...]) -> int:
        word = self._products.get(monomial)
        if word is None:
            word = self._atom(monomial[-1])
            if len(monomial) > 1:
                word = self.step(Operation.MUL, self._product(monomial[:-1]), word)
            self._products[monomial] = word
        return word

    def _atom(self, atom: Atom) -> int:
        if atom.kind == "symbol":
            return self._words.symbol(str(atom.args[0]))
        a, b = atom.args
        assert isinstance(a, (int, Expr)) and isinstance(b, (int, Expr))
        return self.step(Operation[atom.kind.upper()], self.word(a), self.word(b))


@lru_cache(maxsize=limits.SIZES)
def is_covered(small: Dim, large: Dim) -> bool:
    """Whether small <= large for all values of the symbols, as far as that can be proved."""
    if small == large:
        return True
    low = dm.lower_bound(large - small, lower_bound_of)
    return low is not None and low >= 0

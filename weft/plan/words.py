"""The words of a frame: who gets which. Equal tables are kept once; what is constant is preset, the rest is listed for
the plan functions."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field

from weft.ir.builder import memo_key
from weft.ir.graph import Operand, Value
from weft.runtime.segments import HEADER
from weft.types import dims as dm
from weft.types.dims import Dim, Expr


def double_bits(number: float) -> int:
    """The 64 bits of a double, as a signed integer."""
    return int(struct.unpack("<q", struct.pack("<d", number))[0])


@dataclass
class Words:
    """Hands out words. `late` are the symbols that the program itself determines."""

    roots: int
    symbols: tuple[str, ...]
    given: int
    count: int = field(init=False)
    preset: dict[int, int] = field(default_factory=dict)
    sizes: dict[int, Expr] = field(default_factory=dict)  # word -> the expression whose value it gets
    _tables: dict[tuple[object, ...], int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.symbol_word = HEADER + self.roots
        self.count = self.symbol_word + len(self.symbols)
        self._symbol_words = {name: self.symbol_word + i for i, name in enumerate(self.symbols)}
        self.late = frozenset(self.symbols[self.given :])

    def take(self, count: int = 1) -> int:
        """`count` fresh words in a row."""
        start, self.count = self.count, self.count + count
        return start

    def symbol(self, name: str) -> int:
        """The word of a symbol."""
        return self._symbol_words[name]

    def dims(self, dims: tuple[Dim, ...]) -> int:
        """A table of integers; where it starts."""
        key = ("dims", *dims)
        start = self._tables.get(key)
        if start is None:
            start = self._tables[key] = self.take(len(dims))
            for i, d in enumerate(dims):
                if isinstance(d, Expr):
                    self.sizes[start + i] = d
                else:
                    self.preset[start + i] = int(d)
        return start

    def addresses(self, roots: tuple[int, ...]) -> int:
        """A table of the words where the addresses of roots are; where it starts."""
        return self.dims(tuple([HEADER + root for root in roots]))

    def numbers(self, operands: tuple[Operand, ...], scope: int = 0) -> tuple[int, bool]:
        """A table of doubles, and whether it is new: constants are preset, the others are for the caller to store
        before the first use.

        scope: tables are shared within a scope only (code of one block, where what was stored first is there
        for what follows).
        """
        key = ("numbers", scope, *(memo_key(o) for o in operands))
        existing = self._tables.get(key)
        if existing is not None:
            return existing, False
        start = self._tables[key] = self.take(len(operands))
        for i, operand in enumerate(operands):
            if type(operand) not in (Value, Expr):
                self.preset[start + i] = double_bits(float(operand))
        return start, True

    def is_late(self, dim: Dim) -> bool:
        """Whether a dim is only known while the program runs."""
        return bool(dm.symbols(dim) & self.late)

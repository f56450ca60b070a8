"""Sizes as data: a table of steps over the words of a frame, each subexpression once, and the one native loop that takes the steps of any table."""

from __future__ import annotations

from enum import IntEnum

from weft.codegen.emit import I32, I64, PTR, Function, Module, const
from weft.codegen.emit import Value as Scalar
from weft.codegen.program.arena import ALIGNMENT
from weft.codegen.program.dims import divide
from weft.codegen.program.words import Words
from weft.types.dims import Atom, Dim, Expr

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
        found = self._dims.get(dim)
        if found is None:
            found = self._dims[dim] = self._sum(dim)
        return found

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
        found = self._products.get(monomial)
        if found is None:
            found = self._atom(monomial[-1])
            if len(monomial) > 1:
                found = self.step(Operation.MUL, self._product(monomial[:-1]), found)
            self._products[monomial] = found
        return found

    def _atom(self, atom: Atom) -> int:
        if atom.kind == "symbol":
            return self._words.symbol(str(atom.args[0]))
        a, b = atom.args
        assert isinstance(a, (int, Expr)) and isinstance(b, (int, Expr))
        return self.step(Operation[atom.kind.upper()], self.word(a), self.word(b))


def emit_calculate(module: Module) -> None:
    """`weft_calculate(frame, table, count)`: take the steps of a table in order."""
    f = module.function("weft_calculate", I64, [(PTR, "frame"), (PTR, "table"), (I64, "count")])
    frame, table, count = f.params
    with f.loop(0, count, name="step") as loop:
        record = f.gep(I32, table, f.mul(loop.index, RECORD), "record")
        operation = f.load(I32, record, name="operation")
        target, a, b = (f.gep(I64, frame, f.sext(f.load(I32, f.gep(I32, record, i)), I64)) for i in range(1, RECORD))
        x, y = f.load(I64, a, name="x"), f.load(I64, b, name="y")
        labels = [(int(o), f.block(o.name.lower())) for o in Operation]
        done = f.block("stored")
        f.switch(operation, labels[0][1], labels[1:])
        for number, label in labels:
            f.place(label)
            f.store(_result(f, Operation(number), x, y), target)
            f.br(done)
        f.place(done)
    f.ret(const(I64, 0))


def _result(f: Function, operation: Operation, x: Scalar, y: Scalar) -> Scalar:
    match operation:
        case Operation.ADD:
            return f.add(x, y)
        case Operation.MUL:
            return f.mul(x, y)
        case Operation.MAX:
            return f.select(f.icmp("sgt", x, y), x, y)
        case Operation.MIN:
            return f.select(f.icmp("slt", x, y), x, y)
        case Operation.AFTER:
            return f.add(x, f.and_(f.add(y, ALIGNMENT - 1), -ALIGNMENT))
        case _:
            return divide(f, operation.name.lower(), x, y)

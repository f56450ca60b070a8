"""Sizes in machine code: the one native loop that takes the steps of any table of sizes (plan/sizes.py), a single size
in a line, and division as Python rounds."""

from __future__ import annotations

from collections.abc import Mapping

from weft.codegen.emit import I32, I64, PTR, Function, Module, Value, const
from weft.plan.arena import ALIGNMENT
from weft.plan.sizes import RECORD, Operation
from weft.types.dims import Atom, Dim, Expr


def divide(f: Function, kind: str, a: Value, b: Value) -> Value:
    """floordiv or mod as Python rounds, towards -infinity. A divisor of 0 gives what 1 gives."""
    if b.const is None:
        # a plan must not trap: the kernel it sizes does not run
        b = f.select(f.icmp("eq", b, 0), const(I64, 1), b, "divisor")
    rest = f.srem(a, b, "rest")
    quotient = f.sdiv(a, b, "quotient")
    is_inexact = f.icmp("ne", rest, 0)
    differs = f.icmp("slt", f.xor(rest, b), 0)
    corrects = f.and_(is_inexact, differs)
    if kind == "floordiv":
        return f.sub(quotient, f.zext(corrects, I64), "floor")
    return f.add(rest, f.select(corrects, b, const(I64, 0)), "modulo")


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


def _result(f: Function, operation: Operation, x: Value, y: Value) -> Value:
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


def emit_dim(f: Function, dim: Dim, symbols: Mapping[str, Value]) -> Value:
    """The value of a size, where its symbols are at hand."""
    if not isinstance(dim, Expr):
        return const(I64, dim)
    total: Value | None = None
    for monomial, coefficient in dim.terms:
        term = const(I64, coefficient)
        for atom in monomial:
            term = f.mul(term, _atom(f, atom, symbols))
        total = term if total is None else f.add(total, term)
    return const(I64, 0) if total is None else total


def _atom(f: Function, atom: Atom, symbols: Mapping[str, Value]) -> Value:
    if atom.kind == "symbol":
        return symbols[str(atom.args[0])]
    a, b = atom.args
    assert isinstance(a, (int, Expr)) and isinstance(b, (int, Expr))
    return _result(f, Operation[atom.kind.upper()], emit_dim(f, a, symbols), emit_dim(f, b, symbols))

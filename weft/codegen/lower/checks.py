"""Answers that a program was recorded for, asked again at each run."""

from __future__ import annotations

from weft.codegen.emit import I8, I64, PTR, Function, const
from weft.codegen.lower.loops import PARAMETERS
from weft.codegen.lower.lowering import BlockLowering, lowers
from weft.ir.graph import Node, Value
from weft.loops.kernel import KernelCall
from weft.ops.packet import prim
from weft.passes.alias import dtype_of
from weft.plan.numbers import is_number
from weft.types import dtype as dt


@lowers(prim.expect)
def lower_expect(block: BlockLowering, node: Node) -> list[KernelCall] | None:
    """A kernel that fails where the condition is another one."""
    condition, answer = node.args
    if not isinstance(condition, Value) or is_number(condition) or dtype_of(condition) is not dt.bool_:
        return None
    module = block.lowering.module
    name = block.lowering.function(
        ("expect", answer), f"expect_{answer}".lower(),
        lambda name: _emit(module.function(name, I64, PARAMETERS), answer),
    )
    return [KernelCall(name, (condition, node.output), 1, nodes=(node,), raises=(0,))]


def _emit(f: Function, answer: bool) -> None:
    buffers = f.params[0]
    condition, result = (f.load(PTR, f.gep(PTR, buffers, i)) for i in range(2))
    with f.if_(f.icmp("eq" if answer else "ne", f.load(I8, condition), const(I8, 0)), "changed"):
        f.ret(const(I64, 1))
    f.store(const(I8, 1), result)
    f.ret(const(I64, 0))

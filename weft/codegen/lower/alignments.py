"""Losses over alignments, and their gradients, as kernels of their own. A part is an example of the batch."""

from __future__ import annotations

from weft.codegen.alignments import FORWARD_ROWS, ROWS, Alignments
from weft.codegen.emit import F64, I64
from weft.codegen.lower.accumulate import whole_buffer
from weft.codegen.lower.loops import PARAMETERS
from weft.codegen.lower.lowering import BlockLowering, lowers
from weft.ir.graph import Node, Value
from weft.loops.kernel import KernelCall
from weft.ops.packet import aten
from weft.passes.alias import dims_of, dtype_of
from weft.types import dims as dm
from weft.types.dims import Dim

WORK = 60  # operations for a state of a step: three exponentials and a logarithm


@lowers(aten._ctc_loss)
def lower_loss(block: BlockLowering, node: Node) -> list[KernelCall]:
    """Two rows of states in turn."""
    log_probs, targets, lengths, blank, zero_infinity = node.args
    return _lower(block, node, (log_probs, targets, lengths), blank, zero_infinity)


@lowers(aten._ctc_loss_backward)
def lower_gradient(block: BlockLowering, node: Node) -> list[KernelCall]:
    """All rows of states forward, then from the end."""
    grad, log_probs, targets, lengths, blank, zero_infinity = node.args
    return _lower(block, node, (log_probs, targets, lengths, grad), blank, zero_infinity)


def _lower(
    block: BlockLowering, node: Node, operands: tuple[Value, ...], blank: int, zero_infinity: bool
) -> list[KernelCall]:
    log_probs, targets = operands[:2]
    is_loss = len(operands) == 3
    steps, batch, classes = dims_of(log_probs)
    target, dtype, label = block.lowering.target, dtype_of(log_probs), dtype_of(targets)
    assert dtype is not None and label is not None
    lanes = target.lanes(F64.bytes)

    def whole(count: Dim) -> Dim:
        return dm.floordiv(count + lanes - 1, lanes) * lanes

    most = dm.minimum(dims_of(targets)[-1] if dims_of(targets) else 1, steps + 1)  # labels that a kernel reads
    stride = whole(2 * most + 1) + 2 * lanes
    rows: Dim = FORWARD_ROWS if is_loss else steps
    scratch = ((ROWS + rows) * stride + whole(classes)) * F64.bytes
    buffers = [whole_buffer(block, v, node) for v in operands]
    module = block.lowering.module

    def write(name: str) -> None:
        kernel = Alignments(module.function(name, I64, PARAMETERS), target, dtype, label, blank, zero_infinity)
        (kernel.emit_loss if is_loss else kernel.emit_gradient)()

    word = "alignments" if is_loss else "alignments_gradient"
    function = block.lowering.function(
        (word, dtype.short, label.short, blank, zero_infinity), f"{word}_{dtype.short}", write
    )
    call = KernelCall(
        function, (*(b for b, _ in buffers), node.output), 1, (steps, batch, classes), (), batch,
        steps * batch * (2 * most + 1) * (WORK if is_loss else 3 * WORK), scratch, (), (node,),
    )
    return [*(copy for _, copy in buffers if copy is not None), call]

"""What front ends that record branches and loops of their own (scripted programs) ask of the capture that is active:
they see no part of it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

from weft.functionalizer.storage import Order
from weft.ir.builder import Builder, Handle
from weft.ir.graph import Value
from weft.ops.packet import aten
from weft.record.active import active_capture
from weft.record.blocks import branches, control, loops
from weft.record.blocks.recorded import Recorded
from weft.support.locations import Location
from weft.tensor.tensor import Tensor
from weft.types import dtype as dt
from weft.types.sym import SymInt

if TYPE_CHECKING:
    from weft.record.capture import Capture

Body = Callable[[Builder, Value, list[Tensor], list[Tensor]], loops.Outcome]


def _active() -> Capture:
    capture = active_capture()
    assert capture is not None
    return capture


# ---- the block that is recorded
def is_in_block() -> bool:
    """Whether what runs now is recorded into a branch or a loop."""
    capture = active_capture()
    return capture is not None and bool(capture.recorder.depth)


def at_line(where: Location) -> AbstractContextManager[Any]:
    """Nodes that are recorded within the block come from this line."""
    return _active().recorder.at_line(where)


def trial() -> AbstractContextManager[Any]:
    """Record into a block that nobody keeps."""
    return _active().block()


# ---- values
def operand(value: Any) -> Any:
    """What stands for a value in the graph."""
    return _active().tensors.operand(value)


def integers(tensor: Tensor) -> list[SymInt] | None:
    """The elements of a tensor of integers as numbers of the program: inputs where it is an argument as it was given,
    else numbers that the program finds. None where nothing is captured, and for other tensors.
    """
    capture = active_capture()
    if capture is None or tensor.dtype.category != dt.INT:
        return None
    count = int(tensor.numel())
    argument = capture.outside.argument_of(tensor)
    if argument is not None:
        return capture.python_state.lift_elements(argument[1], argument[0])
    flat = aten.reshape(aten.to(tensor, dt.int64), (-1,))
    elements = [aten.select(flat, 0, i) for i in range(count)]
    return [capture.python_state.whole_number(operand(x), operand(-x)) for x in elements]


def order_of(value: Any) -> Order | None:
    """The order in memory of a tensor's dims; None for row-major and for what is no tensor."""
    return _active().tensors.order_of(value)


def is_from_outside(tensor: Tensor) -> bool:
    """Whether a tensor's memory was there before the block."""
    capture = _active()
    return capture.tensors.payload_of(tensor).storage.depth <= capture.recorder.depth


def may_share(tensor: Tensor, other: Tensor) -> None:
    """Note that two tensors may have the same memory when the program runs."""
    tensors = _active().tensors
    tensors.payload_of(tensor).storage.may_be(tensors.payload_of(other).storage)


def step_number(inner: Builder, index: Value) -> Tensor:
    """The number of a loop's step as a tensor."""
    return _active().tensors.fresh(aten.full((), Handle(index, inner), dtype=dt.int64).value)


# ---- control flow
def record_branches(arms: Sequence[Callable[[], Sequence[Any]]]) -> list[Recorded]:
    """What each branch does, as blocks, of which one runs."""
    return control.record_branches(_active(), arms)


def choose(
    condition: Tensor, arms: tuple[Recorded, Recorded], orders: Sequence[Order | None], where: Location | None
) -> list[Tensor]:
    """The results of one of two recorded blocks, as the condition says when the program runs."""
    return branches.choose(_active(), condition, arms, orders, where)


def repeat(
    trip: Any, condition: Any, carried: Sequence[Tensor], body: Body, where: Location | None
) -> list[Tensor]:
    """The carried values at the end of a loop, and what its steps gave besides, stacked."""
    return loops.repeat(_active(), trip, condition, carried, (), False, body, where=where)

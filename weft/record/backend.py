"""The back end of an active capture: operators are recorded. Symbolic tensors that are used while their capture is not
active are refused.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from weft.functionalizer import other_memory
from weft.functionalizer.memory_format import orders_said
from weft.ops.layout import Orders
from weft.ops.op import Op
from weft.ops.packet import aten
from weft.ops.rules import Pointwise
from weft.record.symbolic import SymbolicPayload
from weft.record.tensors import SymbolicTensors
from weft.tensor.backend import CAPTURE_RANK, Args, Backend, register, tensors_in
from weft.tensor.tensor import Tensor
from weft.types.sym import SymInt
from weft.types.tensor_type import TensorType

_NUMBERS = (int, float, SymInt)


class CaptureBackend(Backend):
    """Records operators into a capture's graph."""

    rank = CAPTURE_RANK
    device = "cpu"

    def __init__(self, tensors: SymbolicTensors, refuse_draws: Callable[[str], None]) -> None:
        """refuse_draws: raises, where the program may not draw numbers of which only it knows how many."""
        self.tensors, self.refuse_draws = tensors, refuse_draws

    def run(self, op: Op, args: Args) -> Any:
        """Record an operator; tensors out."""
        if op.effect == "random":  # of the user's: weft's own are opened before they get here
            self.refuse_draws(
                f"{op.name} draws random numbers when the program runs, and how many only it knows"
            )
        return self.tensors.run(op, args)

    def write(self, op: Op, args: Args) -> None:
        """The functional value goes into the base."""
        if op.decompose is not None and op.type is None:  # only its opening says what the result is
            op, args = aten.copy.default.op, (args[0], self.open(op, args), False)
        self.tensors.write(op, args)

    def fits(self, op: Op, args: Args) -> bool:
        """Whether it is a pointwise operator on tensors of one float type, and numbers."""
        kind: TensorType = args[0].type_
        return isinstance(op.type, Pointwise) and kind.dtype is not None and kind.dtype.is_differentiable and all([
            a.type_ == kind if isinstance(a, Tensor) else type(a) in _NUMBERS or hasattr(type(a), "__weft_number__")
            for a in args[1:]
        ])

    def open(self, op: Op, args: Args) -> Any:
        """A composite: its type rule speaks first, for every size and number that the program serves."""
        if op.type is not None:
            self.tensors.check_types(op, args)
        return self.composed(op, args)

    def orders_of(self, op: Op, args: Args) -> Orders | None:
        """As in eager mode."""
        return orders_said(op, args, self.tensors.recorder.env)

    def constants(self, args: Args) -> AbstractContextManager[None]:
        """They go down the layers like any others, and are recorded."""
        return nullcontext()

    def receive(self, tensor: Tensor) -> Tensor:
        """A tensor made from Python data inside the function."""
        return self.tensors.lift_fresh(tensor)

    def lay_out_like(self, tensor: Tensor, source: Tensor) -> Tensor:
        """The same value, in its source's order of dims."""
        return self.tensors.lay_out_like(tensor, source)

    def resize(self, tensor: Tensor, dims: tuple[int, ...]) -> None:
        """Show other elements of the storage."""
        other_memory.resize(tensor, dims)

    def show(self, tensor: Tensor, source: Any, offset: int, size: Any, stride: Any) -> None:
        """Show another storage of the graph."""
        other_memory.show(tensor, source, offset, size, stride)


class NotCapturing(Backend):
    """Symbolic tensors outside of their capture."""

    rank = CAPTURE_RANK - 1

    def run(self, op: Op, args: Args) -> Any:
        """Refused: the payload says why."""
        _refuse(op, args)

    def write(self, op: Op, args: Args) -> None:
        """Refused."""
        _refuse(op, args)


register(NotCapturing(), SymbolicPayload)


def _refuse(op: Op, args: Args) -> None:
    for tensor in tensors_in(args):
        if type(tensor._data) is SymbolicPayload:
            tensor._data.materialize(f"{op.base}()")

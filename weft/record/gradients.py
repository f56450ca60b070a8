"""`.grad` while a function is captured: read, set and accumulated as graph values; whether one is there already may be
decided at run time.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

from weft.autograd.accumulate import AccumulateGrad
from weft.ir.opaque import ACCUMULATE
from weft.ops.packet import aten
from weft.record.outside import GuardedState
from weft.record.recorder import GraphRecorder, refusal
from weft.record.symbolic import SymbolicPayload
from weft.record.tensors import SymbolicTensors
from weft.record.writes import ArgumentChange
from weft.tensor.modes import modes
from weft.tensor.tensor import Tensor
from weft.tensor.wrapper import is_wrapper
from weft.types import dtype as dt
from weft.types.tensor_type import TensorType, tensor_type

UNREAD: Any = object()


@dataclass(eq=False)
class GradSlot:
    """`.grad` of one leaf as the function leaves it.

    known: whether the function read or set `.grad` before accumulating, so that its presence is guarded.
    param, has: the buffer that receives an accumulated gradient, and the flag that says whether there is one already.
    """

    tensor: Tensor
    current: Any = UNREAD
    present: bool | None = None
    param: int | None = None
    has: int | None = None
    touched: bool = False
    zeroed: bool = False  # set to zero if there is one, before anything else was asked of it
    at_call: tuple[Any, Any] | None = None  # what it was at the latest call of Python, and that tensor's value

    def is_changed(self) -> bool:
        """Whether the function set it or added to it, since the latest call of Python."""
        if self.at_call is None:
            return self.touched
        return self.at_call[0] is not self.current or self.at_call[1] is not _value_of(self.current)

    def note_call(self) -> None:
        """It is made real for a call of Python."""
        self.at_call = (self.current, _value_of(self.current))


def _value_of(gradient: Tensor | None) -> Any:
    """The value that a gradient shows, where it is the program's."""
    return gradient._data.storage.value if gradient is not None and type(gradient._data) is SymbolicPayload else None


def present_grad(tensor: Tensor) -> Tensor | None:
    """`.grad` as it is stored."""
    state = tensor._autograd
    return None if state is None else state.grad


def _is_of_leaf(tensor: Tensor) -> bool:
    """Whether a tensor with history is an inner tensor of a wrapper that is a leaf."""
    nodes = [edge[0] for edge in tensor._node.edges if edge is not None]
    return any(isinstance(node, AccumulateGrad) and is_wrapper(node.variable) for node in nodes)


def _refuse_wrapper(gradient: Tensor | None) -> None:
    """What a program adds to is plain memory. Raises ArgumentChange."""
    if is_wrapper(gradient):
        raise refusal(
            f"a compiled function uses a .grad from before the call that is a {type(gradient).__name__}; set it to "
            "None inside (zero_grad) before anything is added to it", kind=ArgumentChange,
        )


class LeafGradients:
    """`.grad` of leaves as the function leaves it.

    knows_gradients: whether a gradient is an input like any state, for others see it too, where it is only added to.
    """

    def __init__(self, recorder: GraphRecorder, tensors: SymbolicTensors, outside: GuardedState) -> None:
        self.recorder, self.tensors, self.outside = recorder, tensors, outside
        self.slots: dict[int, GradSlot] = {}
        self.buffers: list[tuple[GradSlot, int]] = []  # memory that gradients go to where there were none
        self.knows_gradients = False
        # the gradients that were there when the call began, by id, and whose they were
        self.earlier: dict[int, tuple[Tensor, Tensor]] = {}

    def _grad_slot(self, tensor: Tensor) -> GradSlot:
        slot = self.slots.get(id(tensor))
        if slot is None:
            slot = self.slots[id(tensor)] = GradSlot(tensor)
        return slot

    def real(self, tensor: Tensor) -> Tensor:
        """The user's tensor behind a stand-in."""
        return self.outside.stand_ins.get(id(tensor), tensor)

    def grad_of(self, tensor: Tensor) -> Tensor | None:
        """`.grad` as the function sees it; reading it before it was set guards whether there is one."""
        if self.outside.is_made(tensor):
            return None if tensor._autograd is None else tensor._autograd.grad
        slot = self._grad_slot(tensor)
        if slot.current is UNREAD:
            self._read(slot)
        current: Tensor | None = slot.current
        return current

    def _read(self, slot: GradSlot) -> None:
        """Look whether there is a gradient: from then on, the program is for calls where it is so."""
        tensor = slot.tensor
        state = self.real(tensor)._autograd
        concrete = None if state is None else state.grad
        slot.present = concrete is not None
        slot.current = concrete
        if concrete is None:
            return
        _refuse_wrapper(concrete)
        self.earlier.setdefault(id(concrete), (concrete, tensor))
        getters = self.tensors.payload_of(concrete).storage.slot.gradients.setdefault(id(concrete), [])
        getters.append(partial(present_grad, self.real(tensor)))
        if slot.zeroed:
            concrete.detach().zero_()

    def zero_grad(self, tensor: Tensor) -> bool:
        """Set `.grad` to zero if there is one, which what follows may leave to the run. False if it is known already:
        then it is an ordinary write.
        """
        is_plain = not is_wrapper(tensor) and not self.outside.is_made(tensor)
        slot = self._grad_slot(tensor) if is_plain else None
        if slot is None or slot.current is not UNREAD:
            return False
        slot.zeroed = True
        return True

    def read_zeroed(self) -> None:
        """The function has ended: gradients that it set to zero and left so."""
        for slot in list(self.slots.values()):
            if slot.zeroed and slot.current is UNREAD:
                self._read(slot)

    def set_grad(self, tensor: Tensor, value: Tensor | None) -> None:
        """`tensor.grad = value` inside the function."""
        if self.outside.is_made(tensor):
            tensor._state().grad = value
            return
        slot = self._grad_slot(tensor)
        if slot.zeroed and slot.current is UNREAD:
            self._read(slot)  # others may hold the one that is zero now
        slot.current, slot.touched = value, True

    def refuse_blocks(self) -> None:
        """Raises CaptureError inside of a branch or loop body, where no gradient is accumulated."""
        if self.recorder.depth:
            raise refusal(
                "backward() inside of a branch or loop body; call it on what weft.cond or weft.while_loop returns"
            )

    def accumulate(self, variable: Tensor, gradient: Tensor) -> None:
        """AccumulateGrad inside the function."""
        self.refuse_blocks()
        real = self.real(variable)
        if not real.is_leaf:
            if _is_of_leaf(real):
                raise refusal(
                    "backward() inside of a compiled function reaches a tensor subclass that is an argument; make it "
                    "inside, of inner tensors that require grad", kind=ArgumentChange,
                )
            raise refusal(
                f"backward() reaches a tensor of shape {list(variable.shape)} that was computed before the call and "
                "has a history of its own, into which the compiled function cannot go on; use its .detach() here"
            )
        if self.outside.is_made(variable):
            state = variable._state()
            state.grad = self._with(state.grad, gradient, variable)
            return
        slot = self._grad_slot(variable)
        # what has a history is no run's choice, and neither is an operator that modes are asked
        if slot.current is UNREAD and (self.knows_gradients or modes.grad or modes.special is not None):
            self._read(slot)
        if slot.current is UNREAD:
            self._accumulate_optional(slot, gradient)
        else:
            summed = self._with(slot.current, gradient, variable)
            slot.current, slot.touched = summed, slot.touched or summed is not slot.current

    def _with(self, current: Tensor | None, gradient: Tensor, variable: Tensor) -> Tensor:
        """`.grad` once another gradient is there: with its history where backward records one, else in memory of its
        own (without a copy in the graph, whose values nobody writes)."""
        if current is not None:
            return current + gradient if modes.grad or is_wrapper(current) else current.add_(gradient)
        data = gradient._data
        if type(data) is not SymbolicPayload:
            return gradient if modes.grad else gradient.detach()
        if modes.grad:
            return aten.empty_like(variable.detach()).copy_(gradient)  # type: ignore[no-any-return]
        return self.tensors.fresh(data.read(), None if data.path else data.storage.order)

    def buffer_of(self, slot: GradSlot) -> int:
        """The parameter whose memory receives the gradient."""
        is_other = slot.at_call is not None and slot.at_call[0] is not slot.current
        if slot.param is None or (is_other and slot.has is None):
            self.recorder.builder.param(slot.current._data.type, f"grad{len(self.recorder.builder.params)}")
            slot.param = len(self.recorder.builder.params) - 1
            self.buffers.append((slot, slot.param))
        return slot.param

    def _accumulate_optional(self, slot: GradSlot, gradient: Tensor) -> None:
        """Whether there is a gradient already is decided when the program runs."""
        _refuse_wrapper(present_grad(self.real(slot.tensor)))
        kind: TensorType = self.tensors.payload_of(slot.tensor).type
        name = f"grad{len(self.slots) - 1}"
        present = self.recorder.builder.param(kind, name)
        slot.param = len(self.recorder.builder.params) - 1
        self.buffers.append((slot, slot.param))
        has = self.recorder.builder.param(tensor_type(dt.bool_, ()), f"has_{name}")
        slot.has = len(self.recorder.builder.params) - 1
        before = self.tensors.operand(aten.zeros_like(gradient)) if slot.zeroed else present
        node = self.recorder.builder.emit_raw(ACCUMULATE, (before, has, self.tensors.operand(gradient)), (kind,))
        slot.current, slot.touched = self.tensors.fresh(node.output), True

"""SGD with momentum, dampening and Nesterov's variant."""

from __future__ import annotations

from typing import Any

from weft.ops.packet import aten
from weft.optim.checks import check_at_least_zero
from weft.optim.optimizer import Optimizer, Params
from weft.optim.updates import Group, add_multiple, dense, descent, directed, update_each
from weft.support.errors import ValueProblem
from weft.tensor.modes import modes
from weft.tensor.tensor import Tensor


class SGD(Optimizer):
    """p -= lr * v with v = momentum * v + (1 - dampening) * grad.
    Source: Sutskever et al. (2013), in PyTorch's form."""

    takes_sparse = True

    def __init__(
        self, params: Params, lr: Any = 1e-3, momentum: float = 0, dampening: float = 0, weight_decay: float = 0,
        nesterov: bool = False, *, maximize: bool = False, foreach: bool | None = None, differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        check_at_least_zero(lr=lr, momentum=momentum, weight_decay=weight_decay)
        if nesterov and (momentum <= 0 or dampening != 0):
            raise ValueProblem("Nesterov momentum requires a momentum and zero dampening")
        super().__init__(params, {
            "lr": lr, "momentum": momentum, "dampening": dampening, "weight_decay": weight_decay, "nesterov": nesterov,
            "maximize": maximize, "foreach": foreach, "differentiable": differentiable, "fused": fused,
        })

    def _update_group(self, group: Group, params: list[Tensor]) -> None:
        lr, decay, momentum, dampening = (
            self._number(group, key) for key in ("lr", "weight_decay", "momentum", "dampening")
        )
        has_momentum = momentum != 0
        rows = []
        for p in params:
            is_first = has_momentum and self.state[p].get("momentum_buffer") is None
            if has_momentum and modes.capture is not None:
                grad = dense(descent(p, group["maximize"], decay))
                velocity = self._velocity(p, grad, momentum, dampening)
                add_multiple(p, aten.add(grad, velocity, alpha=momentum) if group["nesterov"] else velocity, -lr)
                continue
            # (a buffer of zeros: without dampening the first step is the program of the others)
            (row,) = self._rows([p], "momentum_buffer" if has_momentum else None)
            rows.append((*row, is_first and dampening != 0))
        update_each(_update, rows, group["maximize"], decay, momentum, 1 - dampening, group["nesterov"], -lr)

    def _velocity(self, p: Tensor, grad: Tensor, momentum: Any, dampening: Any) -> Tensor:
        """The momentum buffer after a captured step. The first gradient goes in whole, without dampening."""
        # a buffer of zeros: one program serves the first step and the others
        if dampening == 0:
            return self._state_of(p, ("momentum_buffer",))["momentum_buffer"].mul_(momentum).add_(grad)
        buffer: Tensor | None = self.state[p].get("momentum_buffer")
        if buffer is not None:
            return buffer.mul_(momentum).add_(grad, alpha=1 - dampening)
        return self._first_velocity(p, grad)

    def _first_velocity(self, p: Tensor, grad: Tensor) -> Tensor:
        """In a captured step, the buffer of a first step with dampening: that step is a program of its own."""
        with_buffer = self.state[p]
        self._add_state(p, lambda p: {"momentum_buffer": aten.zeros_like(p)})
        buffer: Tensor = with_buffer["momentum_buffer"]
        storage = buffer.storage()
        assert modes.capture is not None
        modes.capture.python_state.guard(
            (id(storage), "first"), lambda: "the steps that SGD with dampening has taken were 0, are now more",
            lambda: storage.version == 0 and self.state[p].get("momentum_buffer") is buffer
        )
        buffer.copy_(grad)
        return buffer


def _update(
    p: Tensor, gradient: Tensor, velocity: Tensor | None, is_first: bool, maximize: bool, decay: Any, momentum: Any,
    rest: Any, nesterov: bool, size: Any,
) -> None:
    """One step of one parameter. velocity: its momentum buffer, which takes the gradient whole where is_first; size: of
    the step, with its sign."""
    direction = directed(gradient, p, maximize, decay)
    if velocity is not None:
        direction = dense(direction)  # as the buffer is
        velocity.copy_(direction) if is_first else velocity.mul_(momentum).add_(direction, alpha=rest)
        direction = aten.add(direction, velocity, alpha=momentum) if nesterov else velocity
    add_multiple(p, direction, size)

"""Adadelta."""

from __future__ import annotations

from typing import Any

from weft.ops.packet import aten
from weft.optim.checks import check_at_least_zero
from weft.optim.optimizer import Optimizer, Params
from weft.optim.updates import Group, add_multiple, descent
from weft.support.errors import ValueProblem
from weft.tensor.tensor import Tensor


class Adadelta(Optimizer):
    """Steps as large as a running average of the past ones, over that of the gradients.
    Source: Zeiler (arXiv:1212.5701)."""

    def __init__(
        self, params: Params, lr: Any = 1.0, rho: float = 0.9, eps: float = 1e-6, weight_decay: float = 0,
        foreach: bool | None = None, *, capturable: bool = False, maximize: bool = False, differentiable: bool = False,
    ) -> None:
        check_at_least_zero(lr=lr, epsilon=eps, weight_decay=weight_decay)
        if not 0.0 <= rho <= 1.0:
            raise ValueProblem(f"Invalid rho value: {rho}")
        super().__init__(params, {
            "lr": lr, "rho": rho, "eps": eps, "weight_decay": weight_decay, "maximize": maximize,
            "capturable": capturable, "foreach": foreach, "differentiable": differentiable,
        })

    def _update_group(self, group: Group, params: list[Tensor]) -> None:
        lr, rho, eps, decay = (self._number(group, key) for key in ("lr", "rho", "eps", "weight_decay"))
        for clock in self._clocks(group, params):
            for p in clock.params:
                grad, state = descent(p, group["maximize"], decay), self._state_of(p, ("square_avg", "acc_delta"))
                square = state["square_avg"].mul_(rho).addcmul_(grad, grad, value=1 - rho)
                delta = aten.div(aten.sqrt(state["acc_delta"] + eps), aten.sqrt(square + eps)) * grad
                state["acc_delta"].mul_(rho).addcmul_(delta, delta, value=1 - rho)
                add_multiple(p, delta, -lr)

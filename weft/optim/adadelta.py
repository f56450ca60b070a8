"""Adadelta."""

from __future__ import annotations

from typing import Any

from weft.ops.packet import aten
from weft.optim.checks import check_at_least_zero
from weft.optim.optimizer import Optimizer, Params
from weft.optim.updates import Group, add_multiple, directed, update_each
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
            rows = self._rows(clock.params, "square_avg", "acc_delta")
            update_each(_update, rows, group["maximize"], decay, rho, 1 - rho, eps, -lr)


def _update(
    p: Tensor, gradient: Tensor, square: Tensor, changes: Tensor, maximize: bool, decay: Any, rho: Any, rest: Any,
    eps: Any, size: Any,
) -> None:
    """One step of one parameter. square, changes: its state; size: of the step, with its sign."""
    gradient = directed(gradient, p, maximize, decay)
    square.mul_(rho).addcmul_(gradient, gradient, value=rest)
    delta = aten.div(aten.sqrt(changes + eps), aten.sqrt(square + eps)) * gradient
    changes.mul_(rho).addcmul_(delta, delta, value=rest)
    add_multiple(p, delta, size)

"""Adamax."""

from __future__ import annotations

from typing import Any

from weft.ops.packet import aten
from weft.optim.checks import check_at_least_zero, check_betas
from weft.optim.clock import as_number
from weft.optim.optimizer import Optimizer, Params
from weft.optim.updates import Group, add_quotient, before_write, descent
from weft.tensor.tensor import Tensor


class Adamax(Optimizer):
    """Adam with the greatest gradient, decaying, in place of the root mean square.
    Source: Kingma and Ba (arXiv:1412.6980)."""

    def __init__(
        self, params: Params, lr: Any = 2e-3, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8,
        weight_decay: float = 0, foreach: bool | None = None, *, maximize: bool = False, differentiable: bool = False,
        capturable: bool = False,
    ) -> None:
        check_at_least_zero(lr=lr, epsilon=eps, weight_decay=weight_decay)
        check_betas(betas)
        super().__init__(params, {
            "lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay, "foreach": foreach,
            "maximize": maximize, "differentiable": differentiable, "capturable": capturable,
        })

    def _update_group(self, group: Group, params: list[Tensor]) -> None:
        lr, eps, decay = (self._number(group, key) for key in ("lr", "eps", "weight_decay"))
        beta1, beta2 = self._pair(group, "betas")
        for clock in self._clocks(group, params):
            size = lr / as_number(clock.correction(beta1), lr)
            for p in clock.params:
                grad, state = descent(p, group["maximize"], decay), self._state_of(p, ("exp_avg", "exp_inf"))
                state["exp_avg"].lerp_(grad, 1 - beta1)
                greatest = state["exp_inf"].mul_(beta2)
                greatest.copy_(aten.maximum(before_write(greatest, group), aten.abs(grad).add_(eps)))
                add_quotient(p, before_write(state["exp_avg"], group), before_write(greatest, group), -size)

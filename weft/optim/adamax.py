"""Adamax."""

from __future__ import annotations

from typing import Any

from weft.ops.packet import aten
from weft.optim.checks import check_at_least_zero, check_betas
from weft.optim.clock import as_number
from weft.optim.optimizer import Optimizer, Params
from weft.optim.updates import Group, add_quotient, directed, kept, update_each
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
            rows = self._rows(clock.params, "exp_avg", "exp_inf")
            update_each(_update, rows, group["maximize"], decay, 1 - beta1, beta2, eps, -size, group["differentiable"])


def _update(
    p: Tensor, gradient: Tensor, mean: Tensor, greatest: Tensor, maximize: bool, decay: Any, rest1: Any, beta2: Any,
    eps: Any, size: Any, is_differentiable: bool,
) -> None:
    """One step of one parameter. mean, greatest: its state; size: of the step, with its sign."""
    gradient = directed(gradient, p, maximize, decay)
    mean.lerp_(gradient, rest1)
    greatest.mul_(beta2)
    greatest.copy_(aten.maximum(kept(greatest, is_differentiable), aten.abs(gradient).add_(eps)))
    add_quotient(p, kept(mean, is_differentiable), kept(greatest, is_differentiable), size)

"""SparseAdam: Adam for sparse gradients, at whose places alone parameters and moments change."""

from __future__ import annotations

from typing import Any

from weft.ops.packet import aten
from weft.optim.clock import as_number
from weft.optim.optimizer import Optimizer, Params
from weft.optim.updates import Group, add_at, places_and_values, update_each
from weft.support.errors import StateError, ValueProblem
from weft.tensor.tensor import Tensor
from weft.types.formats import strided


class SparseAdam(Optimizer):
    """Adam's step at the places of sparse gradients; nothing else is touched. Source: PyTorch's SparseAdam."""

    takes_sparse = True

    def __init__(
        self, params: Params, lr: Any = 1e-3, betas: tuple[Any, Any] = (0.9, 0.999), eps: float = 1e-8,
        maximize: bool = False,
    ) -> None:
        if not lr > 0:
            raise ValueProblem(f"Invalid learning rate: {lr}")
        if not eps > 0:
            raise ValueProblem(f"Invalid epsilon value: {eps}")
        for i, beta in enumerate(betas):
            if not 0 <= beta < 1:
                raise ValueProblem(f"Invalid beta parameter at index {i}: {beta}")
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "maximize": maximize})
        for group in self.param_groups:
            if any(p.layout is not strided for p in group["params"]):
                raise ValueProblem("SparseAdam requires dense parameter tensors")

    def _update_group(self, group: Group, params: list[Tensor]) -> None:
        lr, eps = self._number(group, "lr"), self._number(group, "eps")
        beta1, beta2 = self._pair(group, "betas")
        for clock in self._clocks(group, params):
            size = lr * as_number(clock.correction(beta2) ** 0.5 / clock.correction(beta1), lr)
            rows = self._rows(clock.params, "exp_avg", "exp_avg_sq")
            update_each(_update, rows, group["maximize"], 1 - beta1, 1 - beta2, eps, -size)


def _update(
    p: Tensor, gradient: Tensor, mean: Tensor, square: Tensor, maximize: bool, rest1: Any, rest2: Any, eps: Any,
    size: Any,
) -> None:
    """One step of one parameter. mean, square: its state; size: of the step, with its sign."""
    if gradient.layout is strided:
        raise StateError("SparseAdam does not support dense gradients, please consider Adam instead")
    places, values = places_and_values(gradient)
    values = -values if maximize else values
    first, second = aten.index(mean, places), aten.index(square, places)
    change, change_sq = (values - first) * rest1, (values * values - second) * rest2
    add_at(mean, places, change)
    add_at(square, places, change_sq)
    add_at(p, places, (first + change) / (aten.sqrt(second + change_sq) + eps) * size)

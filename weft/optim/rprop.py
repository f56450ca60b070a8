"""Rprop: steps that grow while a gradient keeps its sign, and shrink when it changes."""

from __future__ import annotations

from typing import Any

from weft.ops.packet import aten
from weft.optim.checks import check_at_least_zero
from weft.optim.optimizer import Optimizer, Params
from weft.optim.updates import Group, update_each
from weft.support.errors import ValueProblem
from weft.tensor.tensor import Tensor


class Rprop(Optimizer):
    """p -= sign(grad) * size, with a size per element. Source: Riedmiller and Braun (1993),
    without weight backtracking."""

    def __init__(
        self, params: Params, lr: Any = 1e-2, etas: tuple[float, float] = (0.5, 1.2),
        step_sizes: tuple[float, float] = (1e-6, 50), *, capturable: bool = False, foreach: bool | None = None,
        maximize: bool = False, differentiable: bool = False,
    ) -> None:
        check_at_least_zero(lr=lr)
        if not 0.0 < etas[0] < 1.0 < etas[1]:
            raise ValueProblem(f"Invalid eta values: {etas[0]}, {etas[1]}")
        super().__init__(params, {
            "lr": lr, "etas": etas, "step_sizes": step_sizes, "foreach": foreach, "maximize": maximize,
            "differentiable": differentiable, "capturable": capturable,
        })

    def _update_group(self, group: Group, params: list[Tensor]) -> None:
        shrink, grow = self._pair(group, "etas")
        least, most = self._pair(group, "step_sizes")
        self._clocks(group, params)
        for p in params:
            self._state_of(p, ("step_size",), lambda p: aten.full_like(p, float(group["lr"])))
        rows = self._rows(params, "prev", "step_size")
        update_each(_update, rows, group["maximize"], shrink, grow, least, most)


def _update(
    p: Tensor, gradient: Tensor, before: Tensor, sizes: Tensor, maximize: bool, shrink: Any, grow: Any, least: Any,
    most: Any,
) -> None:
    """One step of one parameter. before: the gradient of the latest one; sizes: of the steps."""
    gradient = -gradient if maximize else aten.clone(gradient)
    agrees = aten.sign(gradient * before)
    factor = aten.where(agrees > 0, grow, aten.where(agrees < 0, shrink, aten.ones_like(gradient)))
    sizes.mul_(factor).clamp_(least, most)
    gradient = aten.where(agrees < 0, 0.0, gradient)
    p.sub_(aten.sign(gradient) * sizes)
    before.copy_(gradient)

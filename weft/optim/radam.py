"""RAdam."""

from __future__ import annotations

from typing import Any

from weft.ops.packet import aten
from weft.optim.checks import check_at_least_zero, check_betas
from weft.optim.clock import Clock
from weft.optim.optimizer import Optimizer, Params
from weft.optim.updates import Group, directed, update_each
from weft.tensor.modes import modes
from weft.tensor.tensor import Tensor


class RAdam(Optimizer):
    """Adam whose step sizes are rectified while their variance is unknown. Source: Liu et al. (arXiv:1908.03265)."""

    def __init__(
        self, params: Params, lr: Any = 1e-3, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8,
        weight_decay: float = 0, decoupled_weight_decay: bool = False, *, foreach: bool | None = None,
        maximize: bool = False, capturable: bool = False, differentiable: bool = False,
    ) -> None:
        check_at_least_zero(lr=lr, epsilon=eps, weight_decay=weight_decay)
        check_betas(betas)
        super().__init__(params, {
            "lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay, "maximize": maximize,
            "foreach": foreach, "capturable": capturable, "decoupled_weight_decay": decoupled_weight_decay,
            "differentiable": differentiable,
        })

    def _update_group(self, group: Group, params: list[Tensor]) -> None:
        lr, eps, decay = (self._number(group, key) for key in ("lr", "eps", "weight_decay"))
        beta1, beta2 = self._pair(group, "betas")
        decoupled = group["decoupled_weight_decay"]
        shrink = 1 - lr * decay if decoupled and decay != 0 else None
        for clock in self._clocks(group, params):
            correction = clock.correction(beta1)
            adapts, rectified = _rectification(clock, beta2)
            update_each(
                _update, self._rows(clock.params, "exp_avg", "exp_avg_sq"), group["maximize"],
                0 if decoupled else decay, shrink, 1 - beta1, beta2, 1 - beta2, correction, lr, adapts, rectified, eps,
            )


def _update(
    p: Tensor, gradient: Tensor, mean: Tensor, square: Tensor, maximize: bool, decay: Any, shrink: Any, rest1: Any,
    beta2: Any, rest2: Any, correction: Any, lr: Any, adapts: Any, rectified: Any, eps: Any,
) -> None:
    """One step of one parameter. mean, square: its state; adapts, rectified: see below."""
    gradient = directed(gradient, p, maximize, decay)
    if shrink is not None:
        p.mul_(shrink)
    mean.lerp_(gradient, rest1)
    square.mul_(beta2).addcmul_(gradient, gradient, value=rest2)
    direction = aten.div(mean, correction) * lr
    if adapts is not False:
        scaled = direction * (rectified / aten.add(aten.sqrt(square), eps))
        direction = scaled if adapts is True else aten.where(adapts, scaled, direction)
    p.sub_(direction)


def _rectification(clock: Clock, beta2: Any) -> tuple[Any, Any]:
    """Whether the variance is known well enough, and the factor on the step, sqrt(1 - beta2^t) included."""
    power = clock.power(beta2)
    limit = 2 / (1 - beta2) - 1
    length = limit - 2 * clock.count * power / (1 - power)
    adapts = length > 5.0
    if modes.capture is None and not adapts:
        return False, None
    ratio = (length - 4) * (length - 2) * limit / ((limit - 4) * (limit - 2) * length)
    if modes.capture is not None:
        ratio = aten.where(adapts, ratio, 1.0)
    return adapts, (1 - power) ** 0.5 * ratio**0.5

"""Adam and AdamW."""

from __future__ import annotations

from typing import Any

from weft.ops.packet import aten
from weft.optim.checks import check_at_least_zero, check_betas
from weft.optim.clock import as_number
from weft.optim.optimizer import Optimizer, Params
from weft.optim.updates import Group, add_quotient, directed, kept, update_each
from weft.tensor.tensor import Tensor


class Adam(Optimizer):
    """Steps of size lr, scaled by running averages of gradient and squared gradient.

    Source: Kingma and Ba (arXiv:1412.6980); amsgrad: Reddi et al. (arXiv:1904.09237).
    """

    def __init__(
        self, params: Params, lr: Any = 1e-3, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8,
        weight_decay: float = 0, amsgrad: bool = False, *, foreach: bool | None = None, maximize: bool = False,
        capturable: bool = False, differentiable: bool = False, fused: bool | None = None,
        decoupled_weight_decay: bool = False,
    ) -> None:
        check_at_least_zero(lr=lr, epsilon=eps, weight_decay=weight_decay)
        check_betas(betas)
        super().__init__(params, {
            "lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay, "amsgrad": amsgrad,
            "maximize": maximize, "foreach": foreach, "capturable": capturable, "differentiable": differentiable,
            "fused": fused, "decoupled_weight_decay": decoupled_weight_decay,
        })

    def _update_group(self, group: Group, params: list[Tensor]) -> None:
        lr, eps, decay = (self._number(group, key) for key in ("lr", "eps", "weight_decay"))
        beta1, beta2 = self._pair(group, "betas")
        decoupled = group["decoupled_weight_decay"]
        shrink = 1 - lr * decay if decoupled and decay != 0 else None
        rest1, rest2 = 1 - beta1, 1 - beta2
        for clock in self._clocks(group, params):
            size = lr / as_number(clock.correction(beta1), lr)
            root = clock.correction(beta2) ** 0.5
            rows = self._rows(clock.params, "exp_avg", "exp_avg_sq", "max_exp_avg_sq" if group["amsgrad"] else None)
            update_each(
                _update, rows, group["maximize"], 0 if decoupled else decay, shrink, rest1, beta2, rest2, root, eps,
                -size, group["differentiable"],
            )


def _update(
    p: Tensor, gradient: Tensor, mean: Tensor, square: Tensor, largest: Tensor | None, maximize: bool, decay: Any,
    shrink: Any, rest1: Any, beta2: Any, rest2: Any, root: Any, eps: Any, size: Any, is_differentiable: bool,
) -> None:
    """One step of one parameter. mean, square, largest: its state; size: of the step, with its sign."""
    gradient = directed(gradient, p, maximize, decay)
    if shrink is not None:
        p.mul_(shrink)
    mean.lerp_(gradient, rest1)
    square = square.mul_(beta2).addcmul_(gradient, gradient, value=rest2)
    if largest is not None:
        square = largest.copy_(aten.maximum(kept(largest, is_differentiable), kept(square, is_differentiable)))
        square = kept(square, is_differentiable)
    add_quotient(p, kept(mean, is_differentiable), aten.div(aten.sqrt(square), root).add_(eps), size)


class AdamW(Adam):
    """Adam with weight decay apart from the gradient. Source: Loshchilov and Hutter (arXiv:1711.05101)."""

    def __init__(
        self, params: Params, lr: Any = 1e-3, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8,
        weight_decay: float = 1e-2, amsgrad: bool = False, *, maximize: bool = False, foreach: bool | None = None,
        capturable: bool = False, differentiable: bool = False, fused: bool | None = None,
    ) -> None:
        super().__init__(
            params, lr, betas, eps, weight_decay, amsgrad, foreach=foreach, maximize=maximize, capturable=capturable,
            differentiable=differentiable, fused=fused, decoupled_weight_decay=True,
        )

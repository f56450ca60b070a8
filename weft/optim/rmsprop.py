"""RMSprop."""

from __future__ import annotations

from typing import Any

from weft.ops.packet import aten
from weft.optim.checks import check_at_least_zero
from weft.optim.optimizer import Optimizer, Params
from weft.optim.updates import Group, add_multiple, add_quotient, directed, kept, update_each
from weft.tensor.tensor import Tensor


class RMSprop(Optimizer):
    """p -= lr * grad / (sqrt(running average of grad^2) + eps). Source: Hinton's lecture notes;
    centered: Graves (arXiv:1308.0850)."""

    def __init__(
        self, params: Params, lr: Any = 1e-2, alpha: float = 0.99, eps: float = 1e-8, weight_decay: float = 0,
        momentum: float = 0, centered: bool = False, capturable: bool = False, foreach: bool | None = None,
        maximize: bool = False, differentiable: bool = False,
    ) -> None:
        check_at_least_zero(lr=lr, epsilon=eps, momentum=momentum, weight_decay=weight_decay, alpha=alpha)
        super().__init__(params, {
            "lr": lr, "momentum": momentum, "alpha": alpha, "eps": eps, "centered": centered,
            "weight_decay": weight_decay, "capturable": capturable, "foreach": foreach, "maximize": maximize,
            "differentiable": differentiable,
        })

    def _update_group(self, group: Group, params: list[Tensor]) -> None:
        lr, eps, alpha, decay, momentum = (
            self._number(group, key) for key in ("lr", "eps", "alpha", "weight_decay", "momentum")
        )
        has_momentum = momentum != 0
        for clock in self._clocks(group, params):
            rows = self._rows(
                clock.params, "square_avg", "grad_avg" if group["centered"] else None,
                "momentum_buffer" if has_momentum else None,
            )
            update_each(
                _update, rows, group["maximize"], decay, alpha, 1 - alpha, eps, momentum, -lr, group["differentiable"]
            )


def _update(
    p: Tensor, gradient: Tensor, square: Tensor, mean: Tensor | None, velocity: Tensor | None, maximize: bool,
    decay: Any, alpha: Any, rest: Any, eps: Any, momentum: Any, size: Any, is_differentiable: bool,
) -> None:
    """One step of one parameter. square, mean, velocity: its state; size: of the step, with its sign."""
    gradient = directed(gradient, p, maximize, decay)
    square.mul_(alpha).addcmul_(gradient, gradient, value=rest)
    if mean is not None:
        mean = kept(mean.lerp_(gradient, rest), is_differentiable)
        square = aten.addcmul(square, mean, mean, value=-1)
    root = aten.add(aten.sqrt(square), eps)
    if velocity is not None:
        add_multiple(p, velocity.mul_(momentum).addcdiv_(gradient, root), size)
    else:
        add_quotient(p, gradient, root, size)

"""NAdam."""

from __future__ import annotations

from typing import Any

from weft.ops.packet import aten
from weft.optim.checks import check_at_least_zero, check_betas
from weft.optim.clock import as_number
from weft.optim.optimizer import Optimizer, Params
from weft.optim.updates import Group, add_quotient, before_write, descent
from weft.tensor.modes import modes
from weft.tensor.tensor import Tensor
from weft.types import dtype as dt


class NAdam(Optimizer):
    """Adam with Nesterov's momentum. Source: Dozat (2016)."""

    def __init__(
        self, params: Params, lr: Any = 2e-3, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8,
        weight_decay: float = 0, momentum_decay: float = 4e-3, decoupled_weight_decay: bool = False, *,
        foreach: bool | None = None, maximize: bool = False, capturable: bool = False, differentiable: bool = False,
    ) -> None:
        check_at_least_zero(lr=lr, epsilon=eps, weight_decay=weight_decay, momentum_decay=momentum_decay)
        check_betas(betas)
        super().__init__(params, {
            "lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay, "momentum_decay": momentum_decay,
            "decoupled_weight_decay": decoupled_weight_decay, "maximize": maximize, "foreach": foreach,
            "capturable": capturable, "differentiable": differentiable,
        })

    def _update_group(self, group: Group, params: list[Tensor]) -> None:
        lr, eps, decay, momentum_decay = (
            self._number(group, key) for key in ("lr", "eps", "weight_decay", "momentum_decay")
        )
        beta1, beta2 = self._pair(group, "betas")
        decoupled = group["decoupled_weight_decay"]
        shrink = 1 - lr * decay if decoupled and decay != 0 else None
        for clock in self._clocks(group, params):
            square_correction = clock.correction(beta2)
            now = beta1 * (1 - 0.5 * 0.96 ** (clock.count * momentum_decay))
            coming = beta1 * (1 - 0.5 * 0.96 ** ((clock.count + 1) * momentum_decay))
            for p in clock.params:
                grad = descent(p, group["maximize"], 0 if decoupled else decay)
                product = self._state_of(p, ("mu_product",), _one)["mu_product"]
                product.mul_(as_number(now, product))
                state = self._state_of(p, ("exp_avg", "exp_avg_sq"))
                if shrink is not None:
                    p.mul_(shrink)
                state["exp_avg"].lerp_(grad, 1 - beta1)
                square = state["exp_avg_sq"].mul_(beta2).addcmul_(grad, grad, value=1 - beta2)
                root = aten.add(aten.sqrt(aten.div(square, square_correction)), eps)
                so_far: Any = (
                    product.item() if modes.capture is None and not group["differentiable"]
                    else aten._to_copy(product, dt.float64)
                )
                add_quotient(p, grad, root, -lr * as_number(1 - now, lr) / as_number(1 - so_far, lr))
                add_quotient(
                    p, before_write(state["exp_avg"], group), root,
                    -lr * as_number(coming, lr) / as_number(1 - so_far * coming, lr),
                )


def _one(p: Tensor) -> Tensor:
    return aten.ones((), dtype=dt.float32)

"""NAdam."""

from __future__ import annotations

from typing import Any

from weft.ops.packet import aten
from weft.optim.checks import check_at_least_zero, check_betas
from weft.optim.clock import as_number, scalar_dtype
from weft.optim.optimizer import Optimizer, Params
from weft.optim.updates import Group, add_quotient, directed, kept, update_each
from weft.tensor.modes import beside, modes
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
            rows = []
            for row in self._rows(clock.params, "exp_avg", "exp_avg_sq"):
                so_far = self._product(row[0], now, group["differentiable"])
                rows.append((
                    *row, -lr * as_number(1 - now, lr) / as_number(1 - so_far, lr),
                    -lr * as_number(coming, lr) / as_number(1 - so_far * coming, lr),
                ))
            update_each(
                _update, rows, group["maximize"], 0 if decoupled else decay, shrink, 1 - beta1, beta2, 1 - beta2,
                square_correction, eps, group["differentiable"],
            )

    def _product(self, p: Tensor, now: Any, is_differentiable: bool) -> Any:
        """The product of the momenta of all steps, this one's included."""
        previous = self.state[p].get("mu_product")
        with beside([] if previous is None else [previous], "the optimizer's product of its momenta"):
            product = self._state_of(p, ("mu_product",), _one)["mu_product"]
            product.mul_(as_number(now, product))
            return (
                product.item() if modes.capture is None and not is_differentiable
                else aten._to_copy(product, dt.float64)
            )


def _update(
    p: Tensor, gradient: Tensor, mean: Tensor, square: Tensor, size: Any, coming: Any, maximize: bool, decay: Any,
    shrink: Any, rest1: Any, beta2: Any, rest2: Any, correction: Any, eps: Any, is_differentiable: bool,
) -> None:
    """One step of one parameter. mean, square: its state; size, coming: of the steps along the gradient and along its
    average, with their signs."""
    gradient = directed(gradient, p, maximize, decay)
    if shrink is not None:
        p.mul_(shrink)
    mean.lerp_(gradient, rest1)
    square.mul_(beta2).addcmul_(gradient, gradient, value=rest2)
    root = aten.add(aten.sqrt(aten.div(square, correction)), eps)
    add_quotient(p, gradient, root, size)
    add_quotient(p, kept(mean, is_differentiable), root, coming)


def _one(p: Tensor) -> Tensor:
    return aten.ones((), dtype=scalar_dtype())

"""Adagrad."""

from __future__ import annotations

from typing import Any

from weft.ops.packet import aten
from weft.optim.checks import check_at_least_zero
from weft.optim.clock import scalar_dtype
from weft.optim.optimizer import Optimizer, Params
from weft.optim.updates import Group, add_at, add_quotient, directed, places_and_values, update_each
from weft.tensor.modes import no_grad
from weft.tensor.tensor import Tensor
from weft.types.formats import strided


class Adagrad(Optimizer):
    """p -= lr * grad / (sqrt(sum of grad^2) + eps). Source: Duchi et al. (2011)."""

    takes_sparse = True

    def __init__(
        self, params: Params, lr: Any = 1e-2, lr_decay: float = 0, weight_decay: float = 0,
        initial_accumulator_value: float = 0, eps: float = 1e-10, foreach: bool | None = None, *,
        maximize: bool = False, differentiable: bool = False, fused: bool | None = None,
    ) -> None:
        check_at_least_zero(
            lr=lr, lr_decay=lr_decay, weight_decay=weight_decay, initial_accumulator_value=initial_accumulator_value,
            epsilon=eps)
        super().__init__(params, {
            "lr": lr, "lr_decay": lr_decay, "eps": eps, "weight_decay": weight_decay,
            "initial_accumulator_value": initial_accumulator_value, "foreach": foreach, "maximize": maximize,
            "differentiable": differentiable, "fused": fused,
        })
        with no_grad():
            for group in self.param_groups:
                step = aten.zeros((), dtype=scalar_dtype())
                for p in group["params"]:
                    self.state[p].update(step=step, sum=aten.full_like(p, _start(p, group)))

    def _update_group(self, group: Group, params: list[Tensor]) -> None:
        lr, eps, decay, lr_decay = (self._number(group, key) for key in ("lr", "eps", "weight_decay", "lr_decay"))
        start = group["initial_accumulator_value"]
        for clock in self._clocks(group, params):
            size = lr / (1 + (clock.count - 1) * lr_decay)
            rows = self._rows(clock.params, "sum", make=lambda p: aten.full_like(p, start))
            update_each(_update, rows, group["maximize"], decay, eps, -size)


def _update(
    p: Tensor, gradient: Tensor, total: Tensor, maximize: bool, decay: Any, eps: Any, size: Any
) -> None:
    """One step of one parameter. total: its state; size: of the step, with its sign."""
    gradient = directed(gradient, p, maximize, decay)
    if gradient.layout is not strided:
        _update_places(p, gradient, total, eps, size)
        return
    total.addcmul_(gradient, gradient, value=1)
    add_quotient(p, gradient, aten.add(aten.sqrt(total), eps), size)


def _update_places(p: Tensor, gradient: Tensor, total: Tensor, eps: Any, size: Any) -> None:
    """One step at the places of a sparse gradient."""
    places, values = places_and_values(gradient)
    squares = values * values
    sums = aten.index(total, places) + squares
    add_at(total, places, squares)
    add_at(p, places, values / (aten.sqrt(sums) + eps) * size)


def _start(p: Tensor, group: Group) -> Any:
    """What the sums of squares start from: both parts of a complex number have one."""
    value = group["initial_accumulator_value"]
    return complex(value, value) if p.dtype.is_complex else value

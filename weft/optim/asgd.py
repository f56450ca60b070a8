"""ASGD: stochastic gradient descent that also averages its iterates."""

from __future__ import annotations

from typing import Any

from weft.ops.packet import aten
from weft.optim.checks import check_at_least_zero
from weft.optim.clock import as_number, scalar_dtype
from weft.optim.optimizer import Optimizer, Params
from weft.optim.updates import Group, add_multiple, before_write, directed, update_each
from weft.tensor.modes import beside, modes
from weft.tensor.tensor import Tensor
from weft.types import dtype as dt


class ASGD(Optimizer):
    """p -= eta * grad with eta = lr / (1 + lambd * lr * step) ** alpha; state "ax" averages p from step t0 on.
    Source: Polyak and Juditsky (1992)."""

    def __init__(
        self, params: Params, lr: Any = 1e-2, lambd: float = 1e-4, alpha: float = 0.75, t0: float = 1e6,
        weight_decay: float = 0, foreach: bool | None = None, maximize: bool = False, differentiable: bool = False,
        capturable: bool = False,
    ) -> None:
        check_at_least_zero(lr=lr, weight_decay=weight_decay)
        super().__init__(params, {
            "lr": lr, "lambd": lambd, "alpha": alpha, "t0": t0, "weight_decay": weight_decay, "foreach": foreach,
            "maximize": maximize, "differentiable": differentiable, "capturable": capturable,
        })

    def _update_group(self, group: Group, params: list[Tensor]) -> None:
        lr, lambd, alpha, start, decay = (
            self._number(group, key) for key in ("lr", "lambd", "alpha", "t0", "weight_decay")
        )
        for clock in self._clocks(group, params):
            rows = []
            for row in self._rows(clock.params, "ax"):
                eta, mu = self._sizes(row[0], group)
                rows.append((*row, 1 - lambd * eta, -eta, mu))
            update_each(_update, rows, group["maximize"], decay)
            eta = lr / (1 + lambd * lr * as_number(clock.count, lr)) ** alpha
            mu = 1 / _at_least_one(clock.count - start)
            for p in clock.params:
                state = self.state[p]
                with beside([state["eta"], state["mu"]], _SIZES):
                    _set(state["eta"], eta)
                    _set(state["mu"], mu)

    def _sizes(self, p: Tensor, group: Group) -> tuple[Any, Any]:
        """How far this step goes, and how much of it the average takes: what the step before left."""
        state = self.state[p]
        present = [state[name] for name in ("eta", "mu") if state.get(name) is not None]
        with beside(present, _SIZES):
            if len(present) < 2:
                self._add_state(p, lambda p: {
                    "eta": aten.full((), float(group["lr"]), dtype=scalar_dtype()),
                    "mu": aten.ones((), dtype=scalar_dtype()),
                })
            eta, mu = state["eta"], state["mu"]
            if modes.capture is None and not group["differentiable"]:
                return eta.item(), mu.item()
            # (1 - lambd * eta loses too much in float32)
            return before_write(eta, group).to(dt.float64), before_write(mu, group)


def _update(
    p: Tensor, gradient: Tensor, average: Tensor, shrink: Any, size: Any, share: Any, maximize: bool, decay: Any
) -> None:
    """One step of one parameter. average: its state; size: of the step, with its sign; share: of the new in the mean.
    """
    gradient = directed(gradient, p, maximize, decay)
    p.mul_(shrink)
    add_multiple(p, gradient, size)
    average.add_((p - average) * share)


def _at_least_one(count: Any) -> Any:
    return aten.clamp_min(count, 1) if isinstance(count, Tensor) else max(count, 1)


def _set(state: Tensor, value: Any) -> None:
    if isinstance(value, Tensor):
        state.copy_(value)
    else:
        state.fill_(value)


_SIZES = "the sizes of the optimizer's steps"

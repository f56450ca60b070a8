"""ASGD: stochastic gradient descent that also averages its iterates."""

from __future__ import annotations

from typing import Any

from weft.ops.packet import aten
from weft.optim.checks import check_at_least_zero
from weft.optim.clock import as_number
from weft.optim.optimizer import Optimizer, Params
from weft.optim.updates import Group, before_write, descent
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
            for p in clock.params:
                if self.state[p].get("eta") is None or self.state[p].get("mu") is None:
                    self._add_state(p, lambda p: {
                        "eta": aten.full((), float(group["lr"]), dtype=dt.float32),
                        "mu": aten.ones((), dtype=dt.float32)})
                state = self._state_of(p, ("ax",))
                eta = before_write(state["eta"], group).to(dt.float64)  # 1 - lambd * eta loses too much in float32
                mu = before_write(state["mu"], group)
                grad = descent(p, group["maximize"], decay)
                p.mul_(1 - lambd * eta)
                p.add_(-eta * grad)
                state["ax"].add_((p - state["ax"]) * mu)
                count = aten.full((), 0.0, dtype=dt.float64) + clock.count
                state["eta"].copy_(lr / (1 + lambd * lr * as_number(count, lr)) ** alpha)
                state["mu"].copy_(1 / aten.clamp_min(count - start, 1))

"""Adafactor: squared gradients remembered by rows and columns only."""

from __future__ import annotations

import math
from typing import Any

from weft.ops.packet import aten
from weft.optim.checks import check_at_least_zero
from weft.optim.optimizer import Optimizer, Params
from weft.optim.updates import Group, descent
from weft.support.errors import StateError, ValueProblem
from weft.tensor.tensor import Tensor
from weft.types import dtype as dt
from weft.types.limits import finfo


class Adafactor(Optimizer):
    """Steps relative to the size of the parameter, scaled by a factored average of squared gradients;
    d limits the update's root mean square.

    Source: Shazeer and Stern (arXiv:1804.04235), in PyTorch's form: eps[0] None is the dtype's, and weight decay
    is apart from the gradient.
    """

    def __init__(
        self, params: Params, lr: Any = 1e-2, beta2_decay: float = -0.8, eps: tuple[float | None, float] = (None, 1e-3),
        d: float = 1.0, weight_decay: float = 0.0, *, foreach: bool | None = None, maximize: bool = False,
    ) -> None:
        check_at_least_zero(lr=lr, weight_decay=weight_decay)
        if beta2_decay > 0.0:
            raise ValueProblem(f"beta2_decay should be <= 0 but is: {beta2_decay}")
        for i, value in enumerate(eps):
            if value is not None and value < 0.0:
                raise ValueProblem(f"epsilon{i + 1} should be >= 0 but is: {value}")
        if d < 1.0:
            raise ValueProblem(f"Clipping threshold d should be >= 1 but is: {d}")
        super().__init__(params, {
            "lr": lr, "beta2_decay": beta2_decay, "eps": eps, "d": d, "weight_decay": weight_decay, "foreach": foreach,
            "maximize": maximize,
        })
        if any(p.dtype.is_complex for group in self.param_groups for p in group["params"]):
            raise StateError("Adafactor does not support complex parameters")

    def _update_group(self, group: Group, params: list[Tensor]) -> None:
        lr, decay = self._number(group, "lr"), self._number(group, "weight_decay")
        for clock in self._clocks(group, params):
            count = aten.full((), 0.0, dtype=dt.float64) + clock.count
            fresh = count ** group["beta2_decay"]
            relative = aten.minimum(aten.full((), 0.0, dtype=dt.float64) + lr, count**-0.5)
            for p in clock.params:
                grad = descent(p, group["maximize"], 0)
                size = relative * aten.clamp_min(_root_mean_square(p), group["eps"][1])
                if decay != 0:
                    p.mul_(1 - lr * decay)
                eps = group["eps"][0]
                floor = finfo(p.dtype).eps if eps is None else eps
                update = aten.rsqrt(aten.clamp_min(self._squares(p, grad, fresh, floor), floor * floor)) * grad
                p.add_(update * (-size / aten.clamp_min(_root_mean_square(update) / group["d"], 1.0)).to(p.dtype))

    def _squares(self, p: Tensor, grad: Tensor, fresh: Tensor, floor: float) -> Tensor:
        """The average of squared gradients after this step, of which `fresh` is the newest one's share."""
        fresh = fresh.to(grad.dtype)
        if grad.ndim < 2:
            variance: Tensor = self._state_of(p, ("variance",))["variance"]
            return variance.lerp_(grad * grad, fresh)
        self._state_of(p, ("row_var",), lambda p: aten.new_zeros(p, (*p.dims[:-1], 1)))
        state = self._state_of(p, ("col_var",), lambda p: aten.new_zeros(p, (*p.dims[:-2], 1, p.dims[-1])))
        square = grad * grad
        rows = state["row_var"].lerp_(aten.mean(square, -1, True), fresh)
        columns = state["col_var"].lerp_(aten.mean(square, -2, True), fresh)
        return aten.matmul(rows, columns) / aten.clamp_min(aten.mean(rows, -2, True), floor)


def _root_mean_square(x: Tensor) -> Tensor:
    """As a float64 number."""
    return aten.linalg_vector_norm(x).to(dt.float64) / math.sqrt(max(1, x.numel()))

"""Adafactor: squared gradients remembered by rows and columns only."""

from __future__ import annotations

import math
from typing import Any

from weft.autograd.accumulate import gradient_of
from weft.ops.packet import aten
from weft.optim.checks import check_at_least_zero
from weft.optim.optimizer import Optimizer, Params
from weft.optim.updates import Group, directed, update_each
from weft.support.errors import StateError, ValueProblem
from weft.tensor.modes import modes
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
        eps, least = group["eps"]
        shrink = 1 - lr * decay if decay != 0 else None
        for clock in self._clocks(group, params):
            fresh = clock.count ** group["beta2_decay"]
            relative = _smaller(lr, clock.count**-0.5)
            rows = []
            for p in clock.params:
                floor = finfo(p.dtype).eps if eps is None else eps
                rows.append((p, gradient_of(p), *self._averages(p), floor, floor * floor))
            update_each(_update, rows, group["maximize"], shrink, fresh, -relative, least, group["d"])

    def _averages(self, p: Tensor) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
        """The averages of squared gradients: of all elements, or else of rows and of columns."""
        if p.ndim < 2:
            return self._state_of(p, ("variance",))["variance"], None, None
        self._state_of(p, ("row_var",), lambda p: aten.new_zeros(p, (*p.dims[:-1], 1)))
        state = self._state_of(p, ("col_var",), lambda p: aten.new_zeros(p, (*p.dims[:-2], 1, p.dims[-1])))
        return None, state["row_var"], state["col_var"]


def _update(
    p: Tensor, gradient: Tensor, variance: Tensor | None, rows: Tensor | None, columns: Tensor | None, floor: float,
    floor_squared: float, maximize: bool, shrink: Any, fresh: Any, size: Any, least: float, most: float,
) -> None:
    """One step of one parameter. variance, rows, columns: its state; fresh: the share of the newest gradient in it;
    size: of the step relative to the parameter, with its sign; least: of the parameter's size; most: of the update's.
    """
    gradient = directed(gradient, p, maximize, 0)
    size = aten.clamp_min(_root_mean_square(p), least) * size
    if shrink is not None:
        p.mul_(shrink)
    squares = _squares(gradient, variance, rows, columns, fresh, floor)
    update = aten.rsqrt(aten.clamp_min(squares, floor_squared)) * gradient
    p.add_(update * (size / aten.clamp_min(_root_mean_square(update) / most, 1.0)).to(p.dtype))


def _squares(
    gradient: Tensor, variance: Tensor | None, rows: Tensor | None, columns: Tensor | None, fresh: Any, floor: float
) -> Tensor:
    """The average of squared gradients after this step."""
    if isinstance(fresh, Tensor):
        fresh = fresh.to(gradient.dtype)
    square = gradient * gradient
    if rows is None or columns is None:
        assert variance is not None
        return variance.lerp_(square, fresh)
    rows.lerp_(aten.mean(square, -1, True), fresh)
    columns.lerp_(aten.mean(square, -2, True), fresh)
    return aten.matmul(rows, columns) / aten.clamp_min(aten.mean(rows, -2, True), floor)


def _smaller(lr: Any, other: Any) -> Any:
    """The smaller of two numbers, either of which a capture may have made a tensor."""
    if modes.capture is None and not isinstance(lr, Tensor):
        return min(lr, other)
    zero = aten.full((), 0.0, dtype=dt.float64)
    return aten.minimum(zero + lr, zero + other)


def _root_mean_square(x: Tensor) -> Tensor:
    """As a float64 number."""
    return aten.linalg_vector_norm(x).to(dt.float64) / math.sqrt(max(1, x.numel()))

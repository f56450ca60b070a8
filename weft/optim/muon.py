"""Muon: momentum whose matrix is made orthogonal by Newton-Schulz iterations."""

from __future__ import annotations

import math
from typing import Any

from weft.ops.packet import aten
from weft.optim.checks import check_at_least_zero
from weft.optim.optimizer import Optimizer, Params
from weft.optim.updates import Group, update_each
from weft.support.errors import StateError, ValueProblem
from weft.tensor.tensor import Tensor
from weft.types import dtype as dt

_ADJUSTMENTS = (None, "original", "match_rms_adamw")


class Muon(Optimizer):
    """For matrices only: p -= lr * orthogonal(momentum), with weight decay apart from the gradient.
    The iterations run in bfloat16.

    adjust_lr_fn: "original" scales by sqrt(max(1, rows / columns)), "match_rms_adamw"
    by 0.2 * sqrt(max(rows, columns)).
    Source: Jordan (2024), https://kellerjordan.github.io/posts/muon/; Liu et al. (arXiv:2502.16982).
    """

    def __init__(
        self, params: Params, lr: Any = 1e-3, weight_decay: float = 0.1, momentum: float = 0.95, nesterov: bool = True,
        ns_coefficients: tuple[float, float, float] = (3.4445, -4.775, 2.0315), eps: float = 1e-7, ns_steps: int = 5,
        adjust_lr_fn: str | None = None,
    ) -> None:
        check_at_least_zero(lr=lr, momentum=momentum, weight_decay=weight_decay)
        if adjust_lr_fn not in _ADJUSTMENTS:
            raise ValueProblem(f"Adjust learning rate function {adjust_lr_fn} is not supported")
        if ns_steps >= 100:
            raise ValueProblem("Number of steps must be less than 100 for computational efficiency")
        if len(ns_coefficients) != 3:
            raise ValueProblem("Coefficients must be a tuple of exactly 3 values")
        super().__init__(params, {
            "lr": lr, "weight_decay": weight_decay, "momentum": momentum, "nesterov": nesterov,
            "ns_coefficients": ns_coefficients, "eps": eps, "ns_steps": ns_steps, "adjust_lr_fn": adjust_lr_fn,
        })
        for p in (p for group in self.param_groups for p in group["params"]):
            if p.ndim != 2:
                raise ValueProblem(
                    f"Muon only supports 2D parameters whereas we found a parameter with size: {p.shape}"
                )
            if p.dtype.is_complex:
                raise StateError("Muon does not support complex parameters")

    def _update_group(self, group: Group, params: list[Tensor]) -> None:
        lr, decay, momentum = (self._number(group, key) for key in ("lr", "weight_decay", "momentum"))
        rows = [
            (*row, -lr * _adjustment(group["adjust_lr_fn"], row[0])) for row in self._rows(params, "momentum_buffer")
        ]
        update_each(
            _update, rows, 1 - lr * decay, momentum, 1 - momentum, group["nesterov"], tuple(group["ns_coefficients"]),
            group["ns_steps"], group["eps"],
        )


def _update(
    p: Tensor, gradient: Tensor, average: Tensor, size: Any, shrink: Any, momentum: Any, rest: Any, nesterov: bool,
    coefficients: tuple[float, float, float], steps: int, eps: float,
) -> None:
    """One step of one parameter. average: its momentum buffer; size: of the step, with its sign."""
    average.lerp_(gradient, rest)
    direction = aten.lerp(gradient, average, momentum) if nesterov else average.clone()
    p.mul_(shrink)
    p.add_(_orthogonal(direction, coefficients, steps, eps).to(p.dtype) * size)


def _adjustment(kind: str | None, p: Tensor) -> float:
    rows, columns = (int(size) for size in p.shape)
    return 0.2 * math.sqrt(max(rows, columns)) if kind == "match_rms_adamw" else math.sqrt(max(1.0, rows / columns))


def _orthogonal(matrix: Tensor, coefficients: tuple[float, float, float], steps: int, eps: float) -> Tensor:
    """A matrix with nearly the same singular vectors whose singular values are near 1."""
    a, b, c = coefficients
    is_tall = int(matrix.shape[0]) > int(matrix.shape[1])
    x = matrix.to(dt.bfloat16)
    x = aten.t(x) if is_tall else x
    x = x / aten.clamp_min(aten.linalg_vector_norm(x), eps)
    for _ in range(steps):
        gram = aten.matmul(x, aten.t(x))
        x = aten.addmm(x, aten.addmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)
    return aten.t(x) if is_tall else x

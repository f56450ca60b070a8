"""SparseAdam: Adam for sparse gradients, at whose places alone parameters and moments change."""

from __future__ import annotations

import math
from typing import Any

from weft.ops.packet import aten
from weft.optim.optimizer import Optimizer, Params
from weft.optim.updates import Group
from weft.support.errors import StateError, ValueProblem
from weft.tensor.tensor import Tensor
from weft.types.formats import strided


class SparseAdam(Optimizer):
    """Adam's step at the places of sparse gradients; nothing else is touched. Source: PyTorch's SparseAdam."""

    takes_sparse = True

    def __init__(
        self, params: Params, lr: Any = 1e-3, betas: tuple[Any, Any] = (0.9, 0.999), eps: float = 1e-8,
        maximize: bool = False,
    ) -> None:
        if not lr > 0:
            raise ValueProblem(f"Invalid learning rate: {lr}")
        if not eps > 0:
            raise ValueProblem(f"Invalid epsilon value: {eps}")
        for i, beta in enumerate(betas):
            if not 0 <= beta < 1:
                raise ValueProblem(f"Invalid beta parameter at index {i}: {beta}")
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "maximize": maximize})

    def _update_group(self, group: Group, params: list[Tensor]) -> None:
        beta1, beta2 = group["betas"]
        for p in params:
            gradient = p.grad
            assert gradient is not None
            if gradient.layout is strided:
                raise StateError("SparseAdam does not support dense gradients, please consider Adam instead")
            state = self._state_of(p, ("exp_avg", "exp_avg_sq"))
            state["step"] = state.get("step", 0) + 1
            gradient = gradient.coalesce()
            if gradient._nnz() == 0:
                continue
            values = gradient._values()
            values = -values if group["maximize"] else values
            first, second = (state[name].sparse_mask(gradient)._values() for name in ("exp_avg", "exp_avg_sq"))
            change = (values - first) * (1 - beta1)
            change_sq = (values * values - second) * (1 - beta2)
            state["exp_avg"].add_(with_values(gradient, change))
            state["exp_avg_sq"].add_(with_values(gradient, change_sq))
            steps = (first + change) / (aten.sqrt(second + change_sq) + group["eps"])
            count = state["step"]
            size = group["lr"] * math.sqrt(1 - beta2**count) / (1 - beta1**count)
            p.add_(with_values(gradient, steps * -size))


def with_values(sparse: Tensor, values: Tensor) -> Tensor:
    """A coalesced COO tensor with other values at the same places."""
    out = sparse.clone()
    out._values().copy_(values)
    return out

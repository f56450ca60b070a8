"""AdaptiveLogSoftmaxWithLoss: log softmax over many classes of which few are frequent.
Source: Grave et al. (arXiv:1609.04309)."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Sequence
from typing import Any

import weft.nn.functional as F
from weft.nn.modules.containers import ModuleList, Sequential
from weft.nn.modules.linear import Linear
from weft.nn.modules.module import Module
from weft.ops.packet import aten
from weft.support.errors import ShapeError, StateError, ValueProblem
from weft.tensor.modes import modes
from weft.tensor.tensor import Tensor

AdaptiveOutput = namedtuple("AdaptiveOutput", ("output", "loss"))


class AdaptiveLogSoftmaxWithLoss(Module):
    """Classes in the order of their frequency: those below cutoffs[0] have a place of their own in the head,
    the others share one for each cluster.

    forward(input [n, in_features], target [n]) -> (the log-probabilities of the targets [n], minus their mean).
    The projections of the k-th cluster have in_features / div_value ** k channels.
    """

    def __init__(
        self, in_features: int, n_classes: int, cutoffs: Sequence[int], div_value: float = 4.0, head_bias: bool = False,
        device: Any = None, dtype: Any = None,
    ) -> None:
        super().__init__()
        limits = list(cutoffs)
        if not limits:
            raise ValueProblem("cutoffs should be a sequence of length larger than 0")
        if (
            limits != sorted(set(limits)) or limits[0] <= 0 or limits[-1] > n_classes - 1
            or any(int(c) != c for c in limits)
        ):
            raise ValueProblem(
                "cutoffs should be a sequence of unique, positive integers sorted in an increasing order, "
                "where each value is between 1 and n_classes-1")
        self.in_features, self.n_classes, self.div_value, self.head_bias = in_features, n_classes, div_value, head_bias
        self.cutoffs = [*limits, n_classes]
        self.shortlist_size, self.n_clusters = limits[0], len(limits)
        self.head_size = self.shortlist_size + self.n_clusters
        self.head = Linear(in_features, self.head_size, bias=head_bias, dtype=dtype, device=device)
        self.tail = ModuleList()
        for i in range(self.n_clusters):
            inner = int(in_features // div_value ** (i + 1))
            width = self.cutoffs[i + 1] - self.cutoffs[i]
            self.tail.append(Sequential(
                Linear(in_features, inner, bias=False, dtype=dtype, device=device),
                Linear(inner, width, bias=False, dtype=dtype, device=device),
            ))

    def reset_parameters(self) -> None:
        """Draw all weights anew."""
        self.head.reset_parameters()
        for layer in [layer for pair in self.tail for layer in pair]:  # type: ignore[attr-defined]
            layer.reset_parameters()

    def forward(self, input_: Tensor, target_: Tensor) -> AdaptiveOutput:
        if target_.ndim not in (0, 1):
            raise ShapeError("0D or 1D target tensor expected, multi-target not supported")
        if input_.ndim != target_.ndim + 1:
            raise ShapeError(
                f"{target_.ndim}D target tensor expects {target_.ndim + 1}D input tensors, but found inputs with size "
                f"{list(input_.shape)}"
            )
        input, target = (input_, target_) if target_.ndim else (input_.unsqueeze(0), target_.unsqueeze(0))
        if input.shape[0] != target.shape[0]:
            raise ShapeError("Input and target should have the same size in the batch dimension.")
        self._check_targets(target)
        head = F.log_softmax(self.head(input), dim=1)
        place = target
        for i, limit in enumerate(self.cutoffs[:-1]):
            place = aten.where(aten.ge(target, limit), self.shortlist_size + i, place)
        output = aten.squeeze(aten.gather(head, 1, aten.unsqueeze(place, 1)), 1)
        for i in range(self.n_clusters):
            output = self._with_cluster(i, output, input, target)
        loss = aten.mean(-output)
        return AdaptiveOutput(output if target_.ndim else aten.squeeze(output, 0), loss)

    def _check_targets(self, target: Tensor) -> None:
        if (
            modes.capture is None and target.numel()
            and not 0 <= int(target.min()) <= int(target.max()) < self.n_classes
        ):
            raise StateError(
                f"Target values should be in [0, {self.n_classes - 1}], but values in range [{int(target.min())}, "
                f"{int(target.max())}] were found. "
            )

    def _with_cluster(self, i: int, output: Tensor, input: Tensor, target: Tensor) -> Tensor:
        """Add to the rows whose target lies in a cluster its log-probability there; other rows are not computed."""
        low, high = self.cutoffs[i], self.cutoffs[i + 1]
        rows = aten.squeeze(aten.nonzero(aten.logical_and(aten.ge(target, low), aten.lt(target, high))), 1)
        local = F.log_softmax(self.tail[i](aten.index_select(input, 0, rows)), dim=1)
        wanted = aten.unsqueeze(aten.index_select(target, 0, rows) - low, 1)
        return aten.index_add(output, 0, rows, aten.squeeze(aten.gather(local, 1, wanted), 1))

    def log_prob(self, input: Tensor) -> Tensor:
        """The log-probabilities of all classes, [n, n_classes]."""
        head = F.log_softmax(self.head(input), dim=1)
        parts = [aten.narrow(head, 1, 0, self.shortlist_size)]
        for i in range(self.n_clusters):
            parts.append(F.log_softmax(self.tail[i](input), dim=1) + aten.narrow(head, 1, self.shortlist_size + i, 1))
        return aten.cat(tuple(parts), 1)

    def predict(self, input: Tensor) -> Tensor:
        """The most probable classes, [n]."""
        best = aten.argmax(self.head(input), 1)
        beyond = aten.ge(best, self.shortlist_size)
        if modes.capture is None and not bool(aten.any(beyond)):
            return best
        return aten.where(beyond, aten.argmax(self.log_prob(input), 1), best)

"""BatchNorm and InstanceNorm: normalization by the batch's statistics, with running ones for evaluation."""

from __future__ import annotations

import sys
from typing import Any

import weft.nn.functional as F
import weft.nn.init as init
from weft.nn.modules.module import Module
from weft.nn.parameter import Parameter, empty, ones, zeros
from weft.ops.packet import aten, namespace_of
from weft.support.errors import ValueProblem
from weft.tensor.modes import no_grad
from weft.tensor.tensor import Tensor
from weft.types import dtype as dt


class _RunningNorm(Module):
    """Weight, bias and running statistics, all [num_features], and the number of batches seen."""

    _version = 2
    _ranks: tuple[int, ...] = ()

    def __init__(
        self, num_features: int, eps: float = 1e-5, momentum: float | None = 0.1, affine: bool = True,
        track_running_stats: bool = True, device: Any = None, dtype: Any = None, *, bias: bool = True,
    ) -> None:
        super().__init__()
        self.num_features, self.eps, self.momentum, self.affine = num_features, eps, momentum, affine
        self.track_running_stats = track_running_stats
        for name, wanted in (("weight", affine), ("bias", affine and bias)):
            self.register_parameter(
                name, Parameter(empty((num_features,), dtype=dtype, device=device)) if wanted else None
            )
        self.register_buffer(
            "running_mean", zeros((num_features,), dtype=dtype, device=device) if track_running_stats else None
        )
        self.register_buffer(
            "running_var", ones((num_features,), dtype=dtype, device=device) if track_running_stats else None
        )
        self.register_buffer(
            "num_batches_tracked", zeros((), dtype=dt.int64, device=device) if track_running_stats else None
        )
        self.reset_parameters()

    def reset_running_stats(self) -> None:
        """Forget all batches."""
        if self.track_running_stats:
            with no_grad():
                self.running_mean.zero_()
                self.running_var.fill_(1)
                self.num_batches_tracked.zero_()

    def reset_parameters(self) -> None:
        """Forget all batches; weight 1, bias 0."""
        self.reset_running_stats()
        if self.weight is not None:
            init.ones_(self.weight)
        if self.bias is not None:
            init.zeros_(self.bias)

    def _check_rank(self, input: Tensor) -> None:
        if input.ndim not in self._ranks:
            wanted = " or ".join(f"{r}D" for r in self._ranks)
            raise ValueProblem(f"expected {wanted} input (got {input.ndim}D input)")

    def _load_from_state_dict(
        self, state_dict: dict[str, Any], prefix: str, local_metadata: dict[str, Any], strict: bool,
        missing_keys: list[str], unexpected_keys: list[str], error_msgs: list[str],
    ) -> None:
        key = prefix + "num_batches_tracked"  # version 1 did not have it
        if local_metadata.get("version") in (None, 1) and self.track_running_stats and key not in state_dict:
            count = self.num_batches_tracked  # it stays as it is, where it has a value
            has_value = count is not None and count.device.type != "meta"
            state_dict[key] = count if has_value else aten.zeros((), dtype=dt.int64)  # load_state_dict made a copy
        super()._load_from_state_dict(
            state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs
        )

    def extra_repr(self) -> str:
        return (f"{self.num_features}, eps={self.eps}, momentum={self.momentum}, affine={self.affine}, "
                f"bias={self.bias is not None}, track_running_stats={self.track_running_stats}")


class BatchNorm(_RunningNorm):
    def forward(self, input: Tensor) -> Tensor:
        self._check_rank(input)
        by_batch = self.training or self.running_mean is None
        updates = self.training and self.track_running_stats and self.running_mean is not None
        if updates:
            with no_grad():
                self.num_batches_tracked.add_(1)
            if self.momentum is None:
                return self._with_plain_average(input)
        mean, variance = (self.running_mean, self.running_var) if updates or not by_batch else (None, None)
        return F.batch_norm(
            input, mean, variance, self.weight, self.bias, by_batch,
            0.0 if self.momentum is None else self.momentum, self.eps,
        )

    def _with_plain_average(self, input: Tensor) -> Tensor:
        """momentum=None: the running statistics are the mean over all batches. An empty one has no statistics,
        and changes nothing."""
        with no_grad():
            mean, variance = aten.clone(self.running_mean), aten.clone(self.running_var)
        out = F.batch_norm(input, mean, variance, self.weight, self.bias, True, 1.0, self.eps)
        with no_grad():
            share = 1.0 / self.num_batches_tracked.to(dt.float64)
            for running, statistic in ((self.running_mean, mean), (self.running_var, variance)):
                running.copy_(running + (statistic - running) * share)
        return out


_BatchNorm, _NormBase = BatchNorm, _RunningNorm  # PyTorch's names, which programs ask isinstance of


class BatchNorm1d(BatchNorm):
    """Each channel of [n, c] or [n, c, l] normalized. Source: Ioffe and Szegedy (arXiv:1502.03167)."""

    _ranks = (2, 3)


class BatchNorm2d(BatchNorm):
    """Each channel of [n, c, h, w] normalized."""

    _ranks = (4,)


class BatchNorm3d(BatchNorm):
    """Each channel of [n, c, d, h, w] normalized."""

    _ranks = (5,)


class SyncBatchNorm(BatchNorm):
    """Each channel of [n, c, ...] normalized by the statistics of all ranks' batches, in training and where
    weft.distributed has a process group of more than one; else as BatchNorm does."""

    def __init__(
        self, num_features: int, eps: float = 1e-5, momentum: float | None = 0.1, affine: bool = True,
        track_running_stats: bool = True, process_group: Any = None, device: Any = None, dtype: Any = None, *,
        bias: bool = True,
    ) -> None:
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device, dtype, bias=bias)
        self.process_group = process_group

    def _check_rank(self, input: Tensor) -> None:
        if input.ndim < 2:
            raise ValueProblem(f"expected at least 2D input (got {input.ndim}D input)")

    def forward(self, input: Tensor) -> Tensor:
        distributed = sys.modules.get("weft.distributed.groups")  # imported by whoever makes a group
        by_batch = self.training or self.running_mean is None
        if distributed is None or not by_batch or not distributed.is_initialized():
            return super().forward(input)
        group = distributed.the_group(self.process_group)
        return super().forward(input) if group.size() == 1 else self._over_ranks(input, group.number)

    def _over_ranks(self, input: Tensor, group: int) -> Tensor:
        """Mean and variance of all ranks' elements, in two sums over ranks; gradients go through them."""
        self._check_rank(input)
        comm = namespace_of("comm")
        x = input.to(dt.float32) if input.dtype.itemsize < 4 else input
        others = [d for d in range(x.ndim) if d != 1]
        count = aten.full((1,), x.numel() // x.shape[1], dtype=x.dtype)
        sums = comm.all_reduce(aten.cat([x.sum(others), count]), "SUM", group)
        total = sums[-1].detach()
        shown = (1, -1, *[1] * (x.ndim - 2))
        mean = sums[:-1] / total
        centered = x - mean.view(shown)
        variance = comm.all_reduce((centered * centered).sum(others), "SUM", group) / total
        self._note(mean.detach(), variance.detach() * (total / (total - 1)))
        out = centered * aten.rsqrt(variance + self.eps).view(shown)
        if self.weight is not None:
            out = out * self.weight.view(shown)
        if self.bias is not None:
            out = out + self.bias.view(shown)
        return out.to(input.dtype)

    def _note(self, mean: Tensor, variance: Tensor) -> None:
        """Move the running statistics on."""
        if not (self.training and self.track_running_stats) or self.running_mean is None:
            return
        with no_grad():
            self.num_batches_tracked.add_(1)
            share = 1.0 / self.num_batches_tracked.to(mean.dtype) if self.momentum is None else self.momentum
            for running, statistic in ((self.running_mean, mean), (self.running_var, variance)):
                running.copy_(running + (statistic.to(running.dtype) - running) * share)

    @classmethod
    def convert_sync_batchnorm(cls, module: Module, process_group: Any = None) -> Module:
        """The module with a SyncBatchNorm, which has the same tensors, in the place of every BatchNorm."""
        converted = module
        if isinstance(module, BatchNorm):
            converted = cls._of(module, process_group)
        for name, child in module.named_children():
            converted.add_module(name, cls.convert_sync_batchnorm(child, process_group))
        return converted

    @classmethod
    def _of(cls, norm: BatchNorm, process_group: Any) -> SyncBatchNorm:
        synced = cls(
            norm.num_features, norm.eps, norm.momentum, norm.affine, norm.track_running_stats, process_group,
            bias=norm.bias is not None,
        )
        synced._parameters.update(norm._parameters)
        synced._buffers.update(norm._buffers)
        synced.training = norm.training
        return synced


class _InstanceNorm(_RunningNorm):
    def __init__(
        self, num_features: int, eps: float = 1e-5, momentum: float = 0.1, affine: bool = False,
        track_running_stats: bool = False, device: Any = None, dtype: Any = None, *, bias: bool = True,
    ) -> None:
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device, dtype, bias=bias)

    def forward(self, input: Tensor) -> Tensor:
        self._check_rank(input)
        is_single = input.ndim == self._ranks[0]
        batch = input.unsqueeze(0) if is_single else input
        by_input = self.training or not self.track_running_stats
        out = F.instance_norm(
            batch, self.running_mean, self.running_var, self.weight, self.bias, by_input,
            0.0 if self.momentum is None else self.momentum, self.eps)
        return out.squeeze(0) if is_single else out


class InstanceNorm1d(_InstanceNorm):
    """Each channel of each sample of [n, c, l] normalized over its places.
    Source: Ulyanov et al. (arXiv:1607.08022)."""

    _ranks = (2, 3)


class InstanceNorm2d(_InstanceNorm):
    """Each channel of each sample of [n, c, h, w] normalized over its places."""

    _ranks = (3, 4)


class InstanceNorm3d(_InstanceNorm):
    """Each channel of each sample of [n, c, d, h, w] normalized over its places."""

    _ranks = (4, 5)

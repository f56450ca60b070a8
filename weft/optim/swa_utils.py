"""Averages of a model's parameters over a training: AveragedModel (stochastic weight averaging, exponential moving
averages), SWALR, update_bn."""

from __future__ import annotations

import copy
import itertools
import math
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from weft.nn.modules.module import Module
from weft.nn.modules.running_norms import BatchNorm
from weft.ops.packet import aten
from weft.optim.optimizer import Optimizer
from weft.optim.scheduler import LRScheduler
from weft.support.errors import ArgumentError, ValueProblem
from weft.tensor.modes import no_grad
from weft.tensor.tensor import Tensor
from weft.types import dtype as dt

__all__ = [
    "SWALR", "AveragedModel", "get_ema_avg_fn", "get_ema_multi_avg_fn",
    "get_swa_avg_fn", "get_swa_multi_avg_fn", "update_bn",
]

Average = Callable[[Tensor, Tensor, Any], Tensor]
Averages = Callable[[list[Tensor], list[Tensor], Any], None]


def get_ema_avg_fn(decay: float = 0.999) -> Average:
    """An average for AveragedModel: decay * average + (1 - decay) * new.
    Raises ValueProblem for a decay outside [0, 1]."""
    _check_decay(decay)

    def ema_update(ema_param: Tensor, current_param: Tensor, num_averaged: Any) -> Tensor:
        with no_grad():
            return ema_param * decay + current_param * (1 - decay)

    return ema_update


def get_swa_avg_fn() -> Average:
    """An average for AveragedModel: the mean of all."""

    def swa_update(averaged_param: Tensor, current_param: Tensor, num_averaged: Any) -> Tensor:
        with no_grad():
            return averaged_param + (current_param - averaged_param) / (num_averaged + 1)

    return swa_update


def get_ema_multi_avg_fn(decay: float = 0.999) -> Averages:
    """get_ema_avg_fn for lists of parameters, in place. Raises ValueProblem for a decay outside [0, 1]."""
    _check_decay(decay)
    return _in_place(get_ema_avg_fn(decay))


def get_swa_multi_avg_fn() -> Averages:
    """get_swa_avg_fn for lists of parameters, in place."""
    return _in_place(get_swa_avg_fn())


def _in_place(average: Average) -> Averages:
    def update(averaged_params: list[Tensor], current_params: list[Tensor], num_averaged: Any) -> None:
        with no_grad():
            for averaged, current in zip(averaged_params, current_params, strict=True):
                averaged.copy_(average(averaged, current, num_averaged))

    return update


def _check_decay(decay: float) -> None:
    if not 0.0 <= decay <= 1.0:
        raise ValueProblem(f"Invalid decay value {decay} provided. Please provide a value in [0,1] range.")


class AveragedModel(Module):
    """A copy of a model whose parameters are averages of what the model's were at each `update_parameters(model)`.

    The mean of all, unless avg_fn(average, new, count) or multi_avg_fn(averages, news, count) is given.
    Buffers are averaged with use_buffers, else they are the model's. Source: Izmailov et al. (arXiv:1803.05407).
    """

    n_averaged: Tensor

    def __init__(
        self, model: Module, device: Any = None, avg_fn: Average | None = None, multi_avg_fn: Averages | None = None,
        use_buffers: bool = False,
    ) -> None:
        super().__init__()
        if avg_fn is not None and multi_avg_fn is not None:
            raise AssertionError("Only one of avg_fn and multi_avg_fn should be provided")
        self.module = copy.deepcopy(model)
        if device is not None:
            self.module = self.module.to(device)
        self.register_buffer("n_averaged", aten.zeros((), dtype=dt.int64))
        self.avg_fn, self.multi_avg_fn, self.use_buffers = avg_fn, multi_avg_fn, use_buffers

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.module(*args, **kwargs)

    def update_parameters(self, model: Module) -> None:
        """Take the parameters of `model` into the average."""
        mine = [t.detach() for t in _averaged(self.module, self.use_buffers)]
        new = [t.detach() for t in _averaged(model, self.use_buffers)]
        with no_grad():
            if self.n_averaged == 0:
                for averaged, current in zip(mine, new, strict=True):
                    averaged.copy_(current)
            elif self.avg_fn is not None:
                _in_place(self.avg_fn)(mine, new, self.n_averaged)
            else:
                self._average_lists(mine, new)
            if not self.use_buffers:
                for own, current in zip(self.module.buffers(), model.buffers(), strict=True):
                    own.detach().copy_(current.detach())
            self.n_averaged.add_(1)

    def _average_lists(self, mine: list[Tensor], new: list[Tensor]) -> None:
        """One call for each dtype."""
        average = self.multi_avg_fn or get_swa_multi_avg_fn()
        for dtype in dict.fromkeys(t.dtype for t in mine):
            pairs = [(a, b) for a, b in zip(mine, new, strict=True) if a.dtype is dtype]
            average([a for a, _ in pairs], [b for _, b in pairs], self.n_averaged)


def _averaged(model: Module, use_buffers: bool) -> Iterator[Tensor]:
    return itertools.chain(model.parameters(), model.buffers()) if use_buffers else model.parameters()


def update_bn(loader: Iterable[Any], model: Module, device: Any = None) -> None:
    """Compute the running statistics of the model's BatchNorm layers anew: their means over the batches of `loader`
    (tensors, or lists that begin with one), each moved to `device` where one is given.
    """
    norms = {module: module.momentum for module in model.modules() if isinstance(module, BatchNorm)}
    if not norms:
        return
    was_training = model.training
    model.train()
    for module in norms:
        module.reset_running_stats()
        module.momentum = None
    with no_grad():
        for batch in loader:
            input = batch[0] if isinstance(batch, (list, tuple)) else batch
            model(input if device is None else input.to(device))
    for module, momentum in norms.items():
        module.momentum = momentum
    model.train(was_training)


class SWALR(LRScheduler):
    """From the current rate to swa_lr (one for all groups, or one for each) in anneal_epochs steps, linearly or by half
    a cosine; then constant."""

    def __init__(
        self, optimizer: Optimizer, swa_lr: Any, anneal_epochs: int = 10, anneal_strategy: str = "cos",
        last_epoch: int = -1,
    ) -> None:
        if anneal_strategy not in ("cos", "linear"):
            raise ValueProblem(f"anneal_strategy must be one of 'cos' or 'linear', instead got {anneal_strategy}")
        if not isinstance(anneal_epochs, int) or anneal_epochs < 0:
            raise ValueProblem(f"anneal_epochs must be equal or greater than 0, got {anneal_epochs}")
        if not isinstance(optimizer, Optimizer):
            raise ArgumentError(f"{type(optimizer).__name__} is not an Optimizer")
        groups = optimizer.param_groups
        rates = list(swa_lr) if isinstance(swa_lr, (list, tuple)) else [swa_lr] * len(groups)
        if len(rates) != len(groups):
            raise ValueProblem(
                f"swa_lr must have the same length as optimizer.param_groups: swa_lr has {len(rates)}, "
                f"param_groups has {len(groups)}"
            )
        for group, rate in zip(groups, rates, strict=True):
            group["swa_lr"] = rate
        self.anneal_epochs, self._anneal_strategy = anneal_epochs, anneal_strategy
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        step = max(1, self._step_count - 1) if self.anneal_epochs == 0 else self._step_count - 1
        before, now = self._share(step - 1), self._share(step)
        rates = []
        for group in self.groups:
            final = group["swa_lr"]
            first = final if before == 1 else (group["lr"] - before * final) / (1 - before)
            rates.append(final * now + first * (1 - now))
        return rates

    def _share(self, step: int) -> float:
        """How far the rate has gone after some steps, in [0, 1]."""
        t = max(0.0, min(1.0, step / max(1, self.anneal_epochs)))
        return t if self._anneal_strategy == "linear" else (1 - math.cos(math.pi * t)) / 2

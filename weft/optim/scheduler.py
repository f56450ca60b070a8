"""LRScheduler: changes the learning rate of every group from step to step. The rate is a number of the group,
so a compiled step goes on unchanged."""

from __future__ import annotations

from typing import Any

from weft.optim.optimizer import Optimizer
from weft.support.errors import ArgumentError
from weft.support.warn import warn
from weft.tensor.capture import refuse_in_capture
from weft.tensor.modes import no_grad
from weft.tensor.tensor import Tensor

_EPOCH = (
    "The epoch parameter in `scheduler.step()` was not necessary and is being deprecated where possible. "
    "Please use `scheduler.step()` to step the scheduler. During the deprecation, if epoch is different from None, "
    "the closed form is used instead of the new chainable form, where available. Please open an issue if you are "
    "unable to replicate your use case: https://github.com/pytorch/pytorch/issues/new/choose."
)


def refuse_capture() -> None:
    """Raises CaptureError inside of a compiled function: a scheduler counts in Python,
    and the program would not count on."""
    refuse_in_capture(
        "a compiled function steps a learning-rate scheduler; step it outside, after the compiled function: "
        "the new rate is taken up"
    )


def set_rate(group: dict[str, Any], rate: Any) -> None:
    """Give a group a rate: in place where its rate is a tensor."""
    if isinstance(group["lr"], Tensor):
        with no_grad():
            group["lr"].fill_(float(rate))
    else:
        group["lr"] = rate


class LRScheduler:
    """The base class. Subclasses define `get_lr()`, the rates of step `last_epoch` from those of the step before,
    or `closed_form()`."""

    _is_initial = False  # whether this is the step that the constructor takes

    def __init__(self, optimizer: Optimizer, last_epoch: int = -1) -> None:
        if not isinstance(optimizer, Optimizer):
            raise ArgumentError(f"{type(optimizer).__name__} is not an Optimizer")
        self.optimizer = optimizer
        for i, group in enumerate(optimizer.param_groups):
            if last_epoch == -1:
                rate = group["lr"]
                group.setdefault("initial_lr", rate.clone() if isinstance(rate, Tensor) else rate)
            elif "initial_lr" not in group:
                raise KeyError(f"param 'initial_lr' is not specified in param_groups[{i}] when resuming an optimizer")
        self.base_lrs = [group["initial_lr"] for group in optimizer.param_groups]
        self.last_epoch = last_epoch
        self._step_count = 0
        if "step" in optimizer.__dict__:
            self._own_step = optimizer.__dict__["step"]
        self._begin()

    def _begin(self) -> None:
        """Set the rates of step 0; where training is resumed, leave those of the step it stopped at."""
        self._step_count, self._is_initial = 0, True
        try:
            self.step()
        finally:
            del self._is_initial

    @property
    def groups(self) -> list[dict[str, Any]]:
        """The optimizer's groups."""
        return self.optimizer.param_groups

    def get_lr(self) -> list[Any]:
        """The rates of step last_epoch."""
        raise NotImplementedError(f"{type(self).__name__} must define get_lr()")

    def closed_form(self) -> list[Any] | None:
        """The rates of step last_epoch by a formula, for schedulers that have one."""
        return None

    def step(self, epoch: int | None = None) -> None:
        """Go on to the next step (or to a given one) and set the rates."""
        refuse_capture()
        if self._step_count == 1:
            self._check_order()
        self._step_count += 1
        if epoch is None:
            self.last_epoch += 1
            rates: Any = self.get_lr()
        else:
            warn(_EPOCH)
            self._jump(epoch)
            return
        self._set(rates)

    def _jump(self, epoch: int) -> None:
        """Set the rates of a step."""
        self.last_epoch = epoch
        self._set(self.closed_form() or self.get_lr())

    def _check_order(self) -> None:
        """Warn when the rate changes before the first update."""
        if self.optimizer.__dict__.get("step") is not self.__dict__.get("_own_step"):
            warn(
                "Seems like `optimizer.step()` has been overridden after learning rate scheduler initialization. "
                "Please, make sure to call `optimizer.step()` before `lr_scheduler.step()`. See more details at "
                "https://pytorch.org/docs/stable/optim.html#how-to-adjust-learning-rate",
            )
        elif not self.optimizer.__dict__.get("_opt_called", False):
            warn(
                "Detected call of `lr_scheduler.step()` before `optimizer.step()`. You should call them in the "
                "opposite order: `optimizer.step()` before `lr_scheduler.step()`. Failure to do this will result in "
                "PyTorch skipping the first value of the learning rate schedule. See more "
                "details at https://pytorch.org/docs/stable/optim.html#how-to-adjust-learning-rate",
            )

    def _set(self, rates: list[Any]) -> None:
        for group, rate in zip(self.groups, rates, strict=True):
            set_rate(group, rate)
        self._last_lr = self._rates()

    def _rates(self) -> list[Any]:
        """The rates that the groups have; of those that are tensors, copies."""
        return [group["lr"].clone() if isinstance(group["lr"], Tensor) else group["lr"] for group in self.groups]

    def get_last_lr(self) -> list[Any]:
        """The rates set last."""
        return self._last_lr

    def state_dict(self) -> dict[str, Any]:
        """Everything but the optimizer."""
        return {key: value for key, value in self.__dict__.items() if key not in ("optimizer", "_own_step")}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over what state_dict gave."""
        self.__dict__.update(state_dict)

"""GradScaler: losses times a scale, gradients divided by it, and no step where a gradient is not finite."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from weft.ops.packet import aten
from weft.support.errors import StateError, ValueProblem
from weft.support.warn import warn
from weft.tensor.modes import no_grad
from weft.tensor.tensor import Tensor
from weft.types import dtype as dt

_READY, _UNSCALED, _STEPPED = "ready", "unscaled", "stepped"


class _OfOptimizer:
    """What happened to an optimizer since the last update."""

    def __init__(self) -> None:
        self.stage = _READY
        self.is_finite = True


class GradScaler:
    """Keeps gradients of half precision above zero: `scale(loss).backward()`, `step(optimizer)`, `update()`.

    The scale grows by growth_factor after growth_interval updates without an infinite or NaN gradient, and falls by
    backoff_factor at each one with. For device "cuda", PyTorch's default, there is no GPU: the scaler warns, and is not
    enabled; one that is not enabled passes everything on. Raises ValueProblem for factors that do not grow or fall.
    """

    def __init__(
        self, device: str = "cuda", init_scale: float = 2.0**16, growth_factor: float = 2.0,
        backoff_factor: float = 0.5, growth_interval: int = 2000, enabled: bool = True,
    ) -> None:
        self._device, self._enabled = str(device), enabled
        if enabled and self._device.partition(":")[0] == "cuda":
            warn("GradScaler is enabled for cuda, but CUDA is not available. Disabling.")
            self._enabled = False
        if growth_factor <= 1.0:
            raise ValueProblem("The growth factor must be > 1.0.")
        if backoff_factor >= 1.0:
            raise ValueProblem("The backoff factor must be < 1.0.")
        self._init_scale = self._scale = float(init_scale)
        self._growth_factor, self._backoff_factor, self._growth_interval = (
            growth_factor, backoff_factor, growth_interval
        )
        self._growth_tracker, self._was_used = 0, False
        self._of_optimizers: dict[int, _OfOptimizer] = {}

    def scale(self, outputs: Any) -> Any:
        """A tensor, or tensors in lists and tuples, times the scale."""
        if not self._enabled:
            return outputs
        self._was_used = True
        if isinstance(outputs, Tensor):
            return outputs * self._scale
        if not isinstance(outputs, Iterable):
            raise ValueProblem("outputs must be a Tensor or an iterable of Tensors")
        scaled = map(self.scale, outputs)
        return type(outputs)(scaled) if isinstance(outputs, (list, tuple)) else scaled

    def unscale_(self, optimizer: Any) -> None:
        """Divide the gradients of the optimizer's parameters by the scale, to look at or clip them before `step`.
        Raises StateError the second time, and ValueProblem for gradients in float16."""
        if not self._enabled:
            return
        self._check_used("unscale_")
        state = self._state_of(optimizer)
        if state.stage == _UNSCALED:
            raise StateError("unscale_() has already been called on this optimizer since the last update().")
        if state.stage == _STEPPED:
            raise StateError("unscale_() is being called after step().")
        with no_grad():
            grads = [p.grad for group in optimizer.param_groups for p in group["params"] if p.grad is not None]
            for grad in grads:
                if grad.dtype is dt.float16:
                    raise ValueProblem("Attempting to unscale FP16 gradients.")
                state.is_finite = bool(aten.all(aten.isfinite(grad))) and state.is_finite
                grad.mul_(1.0 / self._scale)
        state.stage = _UNSCALED

    def step(self, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
        """`optimizer.step(...)` with unscaled gradients, if all of them are finite."""
        if not self._enabled:
            return optimizer.step(*args, **kwargs)
        if "closure" in kwargs:
            raise StateError("Closure use is not currently supported if GradScaler is enabled.")
        self._check_used("step")
        state = self._state_of(optimizer)
        if state.stage == _STEPPED:
            raise StateError("step() has already been called since the last update().")
        if state.stage == _READY:
            self.unscale_(optimizer)
        result = optimizer.step(*args, **kwargs) if state.is_finite else None
        state.stage = _STEPPED
        return result

    def update(self, new_scale: float | Tensor | None = None) -> None:
        """Once an iteration, after the steps: the scale grows or falls, or becomes new_scale."""
        if not self._enabled:
            return
        self._check_used("update")
        if new_scale is not None:
            self._scale = float(new_scale)
        elif not self._of_optimizers:
            raise StateError("No inf checks were recorded prior to update.")
        elif all(state.is_finite for state in self._of_optimizers.values()):
            self._grow()
        else:
            self._scale *= self._backoff_factor
            self._growth_tracker = 0
        self._of_optimizers.clear()

    def _grow(self) -> None:
        self._growth_tracker += 1
        if self._growth_tracker == self._growth_interval:
            grown = self._scale * self._growth_factor
            if grown <= _LARGEST:
                self._scale = grown
            self._growth_tracker = 0

    def _state_of(self, optimizer: Any) -> _OfOptimizer:
        return self._of_optimizers.setdefault(id(optimizer), _OfOptimizer())

    def _check_used(self, name: str) -> None:
        if not self._was_used:
            raise StateError(f"{name}(): nothing has been scaled yet; call scale(loss) earlier in the iteration")

    # ---- questions and settings
    def is_enabled(self) -> bool:
        """Whether it scales."""
        return self._enabled

    def get_scale(self) -> float:
        """The scale; 1 where it is not enabled."""
        return self._scale if self._enabled else 1.0

    def get_growth_factor(self) -> float:
        """By what the scale grows."""
        return self._growth_factor

    def set_growth_factor(self, new_factor: float) -> None:
        """By what the scale grows from now on."""
        self._growth_factor = new_factor

    def get_backoff_factor(self) -> float:
        """By what the scale falls."""
        return self._backoff_factor

    def set_backoff_factor(self, new_factor: float) -> None:
        """By what the scale falls from now on."""
        self._backoff_factor = new_factor

    def get_growth_interval(self) -> int:
        """After how many updates the scale grows."""
        return self._growth_interval

    def set_growth_interval(self, new_interval: int) -> None:
        """After how many updates the scale grows from now on."""
        self._growth_interval = new_interval

    def state_dict(self) -> dict[str, Any]:
        """What a run that goes on needs; empty where it is not enabled."""
        if not self._enabled:
            return {}
        return {
            "scale": self._scale, "growth_factor": self._growth_factor, "backoff_factor": self._backoff_factor,
            "growth_interval": self._growth_interval, "_growth_tracker": self._growth_tracker,
        }

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on from a `state_dict()`. Raises StateError for an empty one."""
        if not self._enabled:
            return
        if not state_dict:
            raise StateError(
                "The source state dict is empty, possibly because it was saved from a disabled instance of GradScaler."
            )
        self._scale = self._init_scale = state_dict["scale"]
        self._growth_factor, self._backoff_factor = state_dict["growth_factor"], state_dict["backoff_factor"]
        self._growth_interval, self._growth_tracker = state_dict["growth_interval"], state_dict["_growth_tracker"]


_LARGEST = 3.4028234663852886e38  # of float32, which PyTorch keeps the scale in

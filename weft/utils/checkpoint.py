"""weft.utils.checkpoint: regions of a model that are computed again in backward instead of keeping their tensors."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

from weft.autograd.checkpoint import CheckpointError, checkpoint, checkpoint_sequential, set_checkpoint_early_stop
from weft.support.errors import NoSuchDevice
from weft.support.warn import warn
from weft.tensor.tensor import Tensor
from weft.utils.selective import CheckpointPolicy, SelectiveCheckpointContext, create_selective_checkpoint_contexts

__all__ = [
    "CheckpointError", "CheckpointPolicy", "SelectiveCheckpointContext", "check_backward_validity", "checkpoint",
    "checkpoint_sequential", "create_selective_checkpoint_contexts", "detach_variable", "get_device_states",
    "noop_context_fn", "set_checkpoint_early_stop", "set_device_states",
]


def get_device_states(*args: Any) -> tuple[list[int], list[Tensor]]:
    """The numbers of the GPUs that the arguments lie on, and the states of their generators: none.
    (The CPU's is `weft.get_rng_state()`.)"""
    return [], []


def set_device_states(devices: Any, states: Any, *, device_type: str | None = None) -> None:
    """Put the generators of GPUs into these states. Raises NoSuchDevice where there are any to set."""
    if len(devices):
        raise NoSuchDevice(f"set_device_states: there are no devices {list(devices)}; weft computes on the CPU only")


def noop_context_fn() -> tuple[AbstractContextManager[None], AbstractContextManager[None]]:
    """Two contexts that do nothing: checkpoint's `context_fn` where none is given."""
    return nullcontext(), nullcontext()


def check_backward_validity(inputs: Any) -> None:
    """Warn where none of the inputs requires a gradient."""
    if not any(x.requires_grad for x in inputs if isinstance(x, Tensor)):
        warn("None of the inputs have requires_grad=True. Gradients will be None")


def detach_variable(inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    """The inputs with tensors cut off from their history, each with its requires_grad."""
    return tuple(x.detach().requires_grad_(x.requires_grad) if isinstance(x, Tensor) else x for x in inputs)

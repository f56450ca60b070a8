"""weft.autograd.grad_mode: the switches of gradient recording, by the module name that programs import them from."""

from __future__ import annotations

from typing import Any

from weft.tensor.modes import enable_grad, inference_mode, no_grad, set_grad_enabled

__all__ = ["enable_grad", "inference_mode", "no_grad", "set_grad_enabled", "set_multithreading_enabled"]


class set_multithreading_enabled:
    """Accepted and without effect: a backward runs on the thread that asked for it. A context manager, too."""

    def __init__(self, mode: bool) -> None:
        self.mode = bool(mode)

    def __enter__(self) -> None:
        return None

    def __exit__(self, *error: Any) -> None:
        return None

"""weft.autograd.grad_mode: the switches of gradient recording, by the module name that programs import them from."""

from __future__ import annotations

import threading
from typing import Any

from weft.tensor.modes import enable_grad, inference_mode, no_grad, set_grad_enabled

__all__ = [
    "enable_grad", "inference_mode", "is_multithreading_enabled", "is_view_replay_enabled", "no_grad",
    "set_grad_enabled",
    "set_multithreading_enabled",
]


class _Setting(threading.local):
    is_multithreaded = True


_setting = _Setting()


def is_multithreading_enabled() -> bool:
    """What set_multithreading_enabled was told last on this thread; True at first."""
    return _setting.is_multithreaded


def is_view_replay_enabled() -> bool:
    """Never: views are remade by strides, and by replay where strides cannot."""
    return False


class set_multithreading_enabled:
    """Remembered and without effect: a backward runs on the thread that asked for it. A context manager, too."""

    def __init__(self, mode: bool) -> None:
        self.previous, self.mode = _setting.is_multithreaded, bool(mode)
        _setting.is_multithreaded = self.mode

    def __enter__(self) -> None:
        return None

    def __exit__(self, *error: Any) -> None:
        _setting.is_multithreaded = self.previous

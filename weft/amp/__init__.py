"""weft.amp: mixed precision. grad_scaler.py scales losses so that gradients of half precision stay above zero."""

from typing import Any

from weft.amp.grad_scaler import GradScaler
from weft.support.absent import refuse

__all__ = ["GradScaler"]


def __getattr__(name: str) -> Any:
    refuse("module 'weft.amp'", name)

"""weft.amp: mixed precision. autocast_mode.py has the block in which operators compute in half precision where that
serves, and custom Functions in it; grad_scaler.py scales losses so that gradients of half precision stay above zero.
"""

from typing import Any

from weft.amp.autocast_mode import autocast, custom_bwd, custom_fwd, is_autocast_available
from weft.amp.grad_scaler import GradScaler
from weft.support.absent import refuse

__all__ = ["GradScaler", "autocast", "custom_bwd", "custom_fwd", "is_autocast_available"]


def __getattr__(name: str) -> Any:
    refuse("module 'weft.amp'", name)

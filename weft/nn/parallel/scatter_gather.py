"""Inputs and modules spread over GPUs, and results brought together. There are no GPUs: each is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import NoReturn

from weft.support.absent import refused
from weft.support.errors import NoSuchDevice


def _refused(name: str) -> Callable[..., NoReturn]:
    reason = "there are no devices to spread over"
    text = f"{name}: weft computes on the CPU only; {reason}"
    return refused(name, __name__, text, f"Refused: {reason}.", NoSuchDevice)


scatter, gather = _refused("scatter"), _refused("gather")
replicate, parallel_apply = _refused("replicate"), _refused("parallel_apply")

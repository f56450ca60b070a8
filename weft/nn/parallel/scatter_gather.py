"""Inputs and modules spread over GPUs, and results brought together. There are no GPUs: each is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

from weft.support.errors import NoSuchDevice


def _refused(name: str) -> Callable[..., NoReturn]:
    def function(*args: Any, **kwargs: Any) -> NoReturn:
        raise NoSuchDevice(f"{name}: weft computes on the CPU only; there are no devices to spread over")

    function.__name__ = function.__qualname__ = name
    function.__doc__ = "Refused: there are no devices to spread over."
    return function


scatter, gather = _refused("scatter"), _refused("gather")
replicate, parallel_apply = _refused("replicate"), _refused("parallel_apply")

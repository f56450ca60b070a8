"""Recorders: which trace is being recorded."""

from __future__ import annotations

from typing import Any

RECORDING: list[Any] = []  # the recorders of this process, innermost last


def recording() -> Any:
    """The recorder that is to be told of what is done now, or None."""
    return RECORDING[-1] if RECORDING and not RECORDING[-1].ctx.paused else None

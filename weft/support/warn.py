"""Warnings that name the user's line, however many frames of weft's lie between."""

from __future__ import annotations

import sys
import warnings

from weft.support.locations import is_internal


def warn(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn of the innermost line outside of weft (the outermost line, where every frame is weft's)."""
    level, frame = 1, sys._getframe(0)
    while frame.f_back is not None and is_internal(frame.f_code.co_filename):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)

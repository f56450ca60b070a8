"""The capture that is active on a thread, as the recording itself knows it."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from weft.tensor.modes import modes

if TYPE_CHECKING:
    from weft.record.capture import Capture


def active_capture() -> Capture | None:
    """The capture that is active on this thread (to the rest of weft it is tensor/capture.py's protocol)."""
    return cast("Capture | None", modes.capture)

"""Anomaly mode: remember the forward line of every node, and stop at the first node that makes a NaN."""

from __future__ import annotations

import sys
import threading
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from weft.support.errors import StateError
from weft.support.locations import is_internal, user_location
from weft.support.observers import observers
from weft.support.warn import warn
from weft.tensor.dense import payload_of
from weft.tensor.tensor import Tensor


class _Anomaly:
    enabled = False
    check_nan = True

    def switch(self, enabled: bool, check_nan: bool) -> None:
        """Turn it on or off, for programs, too."""
        self.enabled, self.check_nan = enabled, check_nan
        observers.look_for_nan("anomaly mode", enabled and check_nan)


anomaly = _Anomaly()


def set_anomaly_enabled(mode: bool, check_nan: bool = True) -> None:
    """Switch anomaly mode on or off."""
    anomaly.switch(mode, check_nan)


_SLOW = (
    "Anomaly Detection has been enabled. This mode will increase the runtime and should only be enabled for debugging."
)


class detect_anomaly:
    """Within the block, backward names the forward line of a failing node and refuses NaN gradients."""

    def __init__(self, check_nan: bool = True) -> None:
        self.check = check_nan
        warn(_SLOW)

    def __enter__(self) -> None:
        self.previous = (anomaly.enabled, anomaly.check_nan)
        anomaly.switch(True, self.check)

    def __exit__(self, *error: Any) -> None:
        anomaly.switch(*self.previous)


class set_detect_anomaly(detect_anomaly):
    """Switch anomaly mode at once; also a context manager."""

    def __init__(self, mode: bool, check_nan: bool = True) -> None:
        self.previous = (anomaly.enabled, anomaly.check_nan)
        anomaly.switch(mode, check_nan)

    def __enter__(self) -> None:
        return None


def is_anomaly_enabled() -> bool:
    """Whether anomaly mode is on."""
    return anomaly.enabled


def is_anomaly_check_nan_enabled() -> bool:
    """Whether anomaly mode, where it is on, refuses NaN gradients."""
    return anomaly.check_nan


def remember_forward(node: Any) -> None:
    """Keep the user's forward line (always cheap; the whole stack in anomaly mode)."""
    node.where = user_location(2)
    frames = [f for f in traceback.extract_stack() if not is_internal(f.filename)]
    node.forward_trace = "".join(traceback.format_list(frames))
    node.parent_node = _running.node


class _Running(threading.local):
    node: Any = None  # the node that a backward call evaluates on this thread, in anomaly mode


_running = _Running()


@contextmanager
def evaluating(node: Any) -> Iterator[None]:
    """Within the block, nodes that are made were made by the backward of `node`."""
    previous = _running.node
    _running.node = node
    try:
        yield
    finally:
        _running.node = previous


def describe_failure(node: Any, error: BaseException) -> None:
    """Say where the forward of a failing node was, in anomaly mode."""
    if not anomaly.enabled:
        return
    if not node.forward_trace:
        _tell(
            f"Error detected in {node.name()}. No forward pass information available. Enable detect anomaly during "
            "forward pass for more information."
        )
        return
    _tell(f"Error detected in {node.name()}. Traceback of forward call that caused the error:\n{node.forward_trace}")
    seen, parent = {id(node)}, node.parent_node
    while parent is not None and id(parent) not in seen:
        seen.add(id(parent))
        _tell(
            f"\nPrevious calculation was induced by {parent.name()}. "
            + (
                f"Traceback of forward call that induced the previous calculation:\n{parent.forward_trace}"
                if parent.forward_trace
                else "No forward pass information available. Enable detect anomaly during forward pass for more "
                "information."
            )
        )
        parent = parent.parent_node


def _tell(text: str) -> None:
    """Warn; where warnings are errors, print instead: the failure that is being described must not be hidden
    by its description."""
    try:
        warn(text)
    except Warning:
        sys.stderr.write(text + "\n")


def check_nan(node: Any, out: tuple[Any, ...]) -> None:
    """Raise StateError if a gradient holds a NaN."""
    for i, gradient in enumerate(out):
        if isinstance(gradient, Tensor) and payload_of(gradient).has_nan():
            describe_failure(node, StateError())
            where = f" (forward at {node.where})" if node.where else ""
            raise StateError(f"Function '{node.name()}' returned nan values in its {i}th output.{where}")

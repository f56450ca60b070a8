"""Code that runs while a function is captured and is no part of it (weft.guards.asides): its tensors are real, compiled
functions that it calls run, its draws are the generators' own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from weft.autograd import engine
from weft.autograd.evaluator import Evaluator
from weft.ops.route import defaults
from weft.runtime.generator import captured
from weft.tensor.modes import modes
from weft.types import shape_env


@contextmanager
def aside() -> Iterator[None]:
    """Within the block this thread captures nothing."""
    state = modes.capture, captured.stream, defaults.stack
    modes.capture, captured.stream, defaults.stack = None, None, ()
    try:
        with shape_env.using(None), engine.install(Evaluator()), engine.run_by(None):
            yield
    finally:
        modes.capture, captured.stream, defaults.stack = state

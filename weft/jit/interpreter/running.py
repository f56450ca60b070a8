"""Calling a program from Python."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from weft.jit.executor.plans import run_program
from weft.jit.program import Program
from weft.tensor.modes import modes


def run(program: Program, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    """Call a program. Raises Error, which also is the exception that Python would raise."""
    bound = program.bind(args, kwargs)
    del args
    before = modes.grad
    try:
        return run_program(program, bound)
    except BaseException:
        modes.grad = before  # what was raised has left `with no_grad()`
        raise

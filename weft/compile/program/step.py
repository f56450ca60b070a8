"""A call of Python as a program makes it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from weft.compile.program.call_plan import Effects
from weft.guards import GuardSet
from weft.programs.program_io import GradEffect
from weft.record.python_call import PythonCall
from weft.record.state import StateSlot
from weft.support import pytree
from weft.tensor.modes import AT_WORK, modes, no_grad
from weft.tensor.tensor import Tensor


@dataclass(eq=False)
class PythonStep:
    """A call of Python as a program makes it.

    effects: what is made real before it. guards, check: on Python's state after it, and whether all is as it should
    be. leaves: which of its arguments are arguments of the program's call, by place. zeroed: the gradients that the
    function has set to zero, where there are any. gradients: those that it has set, each with the parameter that is its
    memory (None: there is no gradient). saved: state, and arguments by their place, of which the backward still reads
    what it has saved.
    """

    call: PythonCall
    effects: Effects
    guards: GuardSet
    check: Callable[[], bool]
    leaves: dict[int, int]
    zeroed: list[GradEffect]
    gradients: list[GradEffect]
    saved: list[StateSlot | int]

    def versions(self, leaves: list[Any]) -> list[int]:
        """How often each of what was saved has been written."""
        return [(leaves[s].storage() if isinstance(s, int) else s.storage).version for s in self.saved]


def zero(gradient: Tensor | None) -> None:
    """Set a gradient to zero in its own memory, if there is one."""
    if gradient is not None:
        with no_grad():
            gradient.detach().zero_()


def call_python(call: PythonCall, hook: Any, arguments: Any) -> list[Any]:
    """Call a hook (None: it has been removed): what comes back, flat."""
    before, modes.grad = modes.grad, modes.grad and AT_WORK
    try:
        output = arguments[call.replaced or 0] if hook is None else call.caller(hook, *arguments)
    finally:
        modes.grad = before
    return pytree.flatten(output)[0] if call.places else []

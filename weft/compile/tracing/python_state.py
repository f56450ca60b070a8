"""Python state while a function is captured: what is guarded, what stands for numbers, and what is put back at the end.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from weft import guards
from weft.autograd.function_context import FunctionCtx
from weft.compile.capture.capture import Capture
from weft.compile.capture.symbolic import SymbolicPayload
from weft.compile.numbers.lifted_math import CODES
from weft.compile.numbers.sym_float import SymFloat
from weft.compile.tracing.outcome import Outcome
from weft.runtime.generator import Generator
from weft.support import registry
from weft.tensor.device import Device
from weft.tensor.modes import modes
from weft.tensor.tensor import Tensor
from weft.types import dtype as dtypes
from weft.types.dtype import DType
from weft.types.sym import SymInt
from weft.types.unbacked import UnbackedEnv

if TYPE_CHECKING:
    from weft.compile.driver import CompiledFunction


def kinds(leaves: Iterable[Any] = ()) -> guards.Kinds:
    """The classes that guards on Python state must know. What hangs on the call's leaves is guarded with their other
    facts.
    """
    arguments = {id(leaf) for leaf in leaves}

    def is_recorded(leaf: Any) -> bool:
        return id(leaf) in arguments or (isinstance(leaf, Tensor) and type(leaf._data) is SymbolicPayload)

    return guards.Kinds(
        leaves=(Tensor, Generator), said_by_leaves=("requires_grad", "is_leaf", "grad_fn", "retains_grad"),
        optimizers=tuple(registry.opaque_classes), modules=tuple(registry.module_classes), equal=(DType, Device),
        symbols=(SymInt, SymFloat), number_of=_number_from_outside, made=(FunctionCtx,), is_recorded=is_recorded,
        transparent=CODES, inputs=(Tensor,), open_packages=("weft.nn.", "weft.optim."),
    )


# ---- numbers
def _number_from_outside(symbol: Any) -> int | None:
    """The number of a size that is of no capture that goes on: a lazy tensor's, or one that outlived its capture."""
    return int(symbol) if type(symbol) is SymInt and (symbol.env.is_over or type(symbol.env) is UnbackedEnv) else None


def substitution_of(
    owner: CompiledFunction, capture: Capture, bound: list[tuple[guards.Slot, Any]]
) -> guards.Substitution:
    pairs = list(bound)
    for slot in owner.lifted_slots():
        value = slot.get()
        if type(value) is SymInt:
            value = _number_from_outside(value)
        if type(value) not in (int, float):
            continue
        stand_in = capture.python_state.lift_number(str(slot.text), slot.get, value, type(value) is float)
        pairs.append((slot, stand_in))
    return guards.Substitution(pairs)


@contextmanager
def settings_kept(outcome: Outcome) -> Iterator[None]:
    """Grad mode and the default dtype as the function leaves them, for every call to leave them so; the capture itself
    leaves them alone.
    """
    grad, dtype = modes.grad, dtypes.get_default()
    try:
        yield
        if modes.grad is not grad:
            outcome.settings.append(partial(setattr, modes, "grad", modes.grad))
        if dtypes.get_default() is not dtype:
            outcome.settings.append(partial(dtypes.set_default, dtypes.get_default()))
    finally:
        modes.grad = grad
        dtypes.set_default(dtype)


Groups = list[tuple[dict[str, Any], dict[str, Any]]]  # parameter groups, and their options before the capture


@contextmanager
def optimizer_groups() -> Iterator[Groups]:
    """The options of every optimizer alive, which are put back."""
    before = [
        (group, {k: v for k, v in group.items() if k != "params"}) for o in list(registry.optimizers)
        for group in o.param_groups
    ]
    try:
        yield before
    finally:
        for group, options in before:
            for key in [k for k in group if k != "params" and k not in options]:
                del group[key]
            group.update(options)


def refuse_changed_groups(capture: Capture, groups: Groups) -> None:
    """Raises CaptureError if the function changes an option of an optimizer."""
    for group, options in groups:
        changed = next((k for k in {**options, **group} if k != "params" and group.get(k) is not options.get(k)), None)
        if changed is not None:
            raise capture.refuse(
                f"{capture.recorder.root.name} changes {changed!r} of an optimizer's parameter group from "
                f"{options.get(changed)!r} to {group.get(changed)!r}; change it outside of the compiled function, "
                "which takes the new value up"
            )

"""Python state while a function is captured: what is guarded, what stands for numbers, and what is put back at the end.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, Final

from weft import guards
from weft.autograd.anomaly import anomaly, is_anomaly_check_nan_enabled, is_anomaly_enabled
from weft.autograd.function_context import FunctionCtx
from weft.autograd.grad_mode import is_multithreading_enabled, set_multithreading_enabled
from weft.autograd.saved import default_hooks
from weft.compile.assumptions import Assumptions
from weft.compile.methods_of_instance import Methods
from weft.compile.tracing.outcome import Outcome
from weft.ops.op import Op
from weft.ops.packet import Packet
from weft.record.capture import Capture
from weft.record.numbers.lifted_math import CODES
from weft.record.numbers.sym_float import SymFloat
from weft.record.symbolic import SymbolicPayload
from weft.record.writes import ArgumentChange
from weft.runtime import pool
from weft.runtime.generator import Generator
from weft.support import registry
from weft.support.interrupts import to_the_end
from weft.support.locations import user_location
from weft.tensor import autocast
from weft.tensor.device import Device, chosen
from weft.tensor.modes import modes, switch_inference
from weft.tensor.tensor import Tensor
from weft.tensor.value_blocks import blocks_around
from weft.types import dtype as dtypes
from weft.types.dtype import DType
from weft.types.sym import SymInt
from weft.types.unbacked import UnbackedEnv

# what weft's own functions answer from settings, by the module and name of the function
_QUESTIONS: Final[dict[tuple[str, str], Callable[..., Any]]] = {
    (f.__module__, f.__name__): f
    for f in (is_anomaly_enabled, is_anomaly_check_nan_enabled, is_multithreading_enabled)
}
# those of them that count wherever they are asked
_OF_OTHERS: Final = (blocks_around,)
_QUESTIONS.update({(f.__module__, f.__name__): f for f in _OF_OTHERS})


def _get_name(module: Any) -> Any:
    return module._get_name()


# the text of a module or an optimizer says names of classes, and what users write in extra_repr
_QUESTIONS.update({
    (module, "__repr__"): repr
    for module in ("weft.nn.modules.module", "weft.nn.modules.containers", "weft.optim.optimizer")
})
_QUESTIONS["weft.nn.modules.module", "_get_name"] = _get_name


def kinds(leaves: Iterable[Any] = (), capture: Capture | None = None) -> guards.Kinds:
    """The classes that guards on Python state must know. What hangs on the call's leaves is guarded with their other
    facts.
    """
    arguments = {id(leaf) for leaf in leaves}

    def is_recorded(leaf: Any) -> bool:
        return id(leaf) in arguments or (isinstance(leaf, Tensor) and type(leaf._data) is SymbolicPayload)

    def says(leaf: Any, name: str) -> bool:
        if capture is not None and name == "requires_grad" and isinstance(leaf, Tensor):
            return capture.outside.flags.before(leaf)
        return bool(getattr(leaf, name))

    return guards.Kinds(
        leaves=(Tensor, Generator), says=says, said_by_leaves=("requires_grad", "is_leaf", "grad_fn", "retains_grad"),
        optimizers=tuple(registry.opaque_classes), modules=tuple(registry.module_classes),
        equal=(DType, Device, Op, Packet),
        symbols=(SymInt, SymFloat), number_of=_number_from_outside, made=(FunctionCtx,),
        own=(Methods, *registry.program_classes),
        is_recorded=is_recorded, transparent=CODES, inputs=(Tensor,), questions=_QUESTIONS, inner_questions=_OF_OTHERS,
        open_packages=("weft.nn.", "weft.optim."),
    )


# ---- numbers
def _number_from_outside(symbol: Any) -> int | None:
    """The number of a size that is of no capture that goes on: a lazy tensor's, or one that outlived its capture."""
    return int(symbol) if type(symbol) is SymInt and (symbol.env.is_over or type(symbol.env) is UnbackedEnv) else None


def substitution_of(
    assumptions: Assumptions, capture: Capture, bound: list[tuple[guards.Slot, Any]]
) -> guards.Substitution:
    pairs = list(bound)
    for slot in assumptions.lifted_slots:
        value = slot.get()
        if type(value) is SymInt:
            value = _number_from_outside(value)
        if type(value) not in (int, float):
            continue
        stand_in = capture.python_state.lift_number(
            str(slot.text), slot.get, value, type(value) is float, slot.key
        )
        pairs.append((slot, stand_in))
    return guards.Substitution(pairs)


@contextmanager
def settings_kept(outcome: Outcome) -> Iterator[None]:
    """Grad mode as the function leaves it, for every call to leave it so; the capture itself leaves all settings alone.
    Raises SettingChange for another one that the function changes, which calls of programs would not."""
    before, changes = [get() for _, get, _ in _SETTINGS], _dtype_changes[0]
    function, outcome.is_inference = outcome.capture.recorder.root.name, modes.inference
    try:
        _captured.function = function
        try:
            yield
        finally:
            _captured.function = ""
        for (name, get, _), value in zip(_SETTINGS, before, strict=True):
            if get() != value and name != _GRAD:
                raise SettingChange(f"{function} leaves {name} changed: it was {value}, is now {get()}")
        if _dtype_changes[0] != changes:  # another thread's
            raise SettingChange(_other_dtype(function))
        if modes.grad is not before[0]:
            outcome.leaves_grad = bool(modes.grad)
    finally:
        for (_, get, put), value in zip(_SETTINGS, before, strict=True):
            if get() != value:
                put(value)


class SettingChange(ArgumentChange):
    """The function changes a setting that holds for more than its own operators. Such a call runs as it is written."""


def refuse_inference(outcome: Outcome) -> None:
    """Raises SettingChange where the function makes results in inference mode that its caller is not in, or in none
    where its caller is."""
    for carrier in outcome.carriers:
        if isinstance(carrier, Tensor) and type(carrier._data) is SymbolicPayload:
            storage = carrier._data.storage
            if storage.param is None and storage.is_inference is not outcome.is_inference:
                raise SettingChange(f"{outcome.capture.recorder.root.name} switches inference mode around a result")


_dtype_changes = [0]  # how often the default dtype was changed


class _Captured(threading.local):
    """The name of the function that a thread runs to capture it."""

    function = ""


_captured = _Captured()


def _other_dtype(function: str) -> str:
    return f"{function} changes the default dtype on its way"


def _begin_change() -> None:
    """Operators that are opened when all of a function has been recorded would go by its last default dtype: the
    function is refused where it sets one, not at its end."""
    if _captured.function:
        where, function = user_location(2), _captured.function
        _captured.function = ""  # (it is put back)
        raise SettingChange(f"{where}: {_other_dtype(function)}" if where is not None else _other_dtype(function))


def _count() -> None:
    _dtype_changes[0] += 1


dtypes.before_default_change(_begin_change)
dtypes.on_default_change(_count)


def _put_anomaly(value: tuple[bool, bool]) -> None:
    anomaly.switch(*value)


_GRAD: Final = "grad mode"
_SETTINGS: Final[tuple[tuple[str, Callable[[], Any], Callable[..., Any]], ...]] = (
    (_GRAD, lambda: modes.grad, partial(setattr, modes, "grad")),
    ("inference mode", lambda: modes.inference, switch_inference),
    ("autocast", lambda: modes.autocast, autocast.switch),
    ("the default dtype", dtypes.get_default, dtypes.set_default),
    ("anomaly mode", lambda: (anomaly.enabled, anomaly.check_nan), _put_anomaly),
    ("the number of threads", pool.get_num_threads, pool.set_num_threads),
    ("multithreading", is_multithreading_enabled, set_multithreading_enabled),
    ("what saved_tensors_hooks are in force", lambda: default_hooks.stack, partial(setattr, default_hooks, "stack")),
    ("the default device", lambda: chosen.device, partial(setattr, chosen, "device")),
)


class OptimizerGroups:
    """A context manager: puts back the options of every optimizer alive. Those of optimizers that the function
    does not come upon are left alone: another thread may change them."""

    def __init__(self) -> None:
        self.before = [
            (optimizer, group, {k: v for k, v in group.items() if k != "params"})
            for optimizer in registry.living_optimizers() for group in optimizer.param_groups
        ]
        self.midway: guards.Midway | None = None

    def begin(self, midway: guards.Midway) -> None:
        """The function is about to run."""
        self.midway = midway

    def __enter__(self) -> OptimizerGroups:
        return self

    def __exit__(self, *error: object) -> None:
        to_the_end(self._put_back)

    def _put_back(self) -> None:
        for group, options, changed in self.changed():
            for key in changed:
                if key in options:
                    group[key] = options[key]
                else:
                    group.pop(key, None)

    def changed(self) -> Iterator[tuple[dict[str, Any], dict[str, Any], list[str]]]:
        """Groups that the function has changed, what they held before, and which options that is."""
        for optimizer, group, options in self.before:
            keys = [k for k in {**options, **group} if k != "params" and group.get(k) is not options.get(k)]
            if keys and self.midway is not None and self.midway.leads_to(optimizer):
                yield group, options, keys


def refuse_changed_groups(capture: Capture, groups: OptimizerGroups) -> None:
    """Raises CaptureError if the function changes an option of an optimizer."""
    for group, options, (changed, *_) in groups.changed():
        raise capture.refuse(
            f"{capture.recorder.root.name} changes {changed!r} of an optimizer's parameter group from "
            f"{options.get(changed)!r} to {group.get(changed)!r}; change it outside of the compiled function, "
            "which takes the new value up"
        )

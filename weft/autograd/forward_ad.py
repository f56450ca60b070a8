"""Forward mode by hand: within dual_level(), make_dual(primal, tangent) gives a tensor that carries its tangent through
what is computed with it."""

from __future__ import annotations

import threading
from typing import Any, NamedTuple

import weft.layers.transforms.custom  # noqa: F401  (custom Functions under the levels)
from weft.layers.transforms.forward_ad_level import ForwardADLevel
from weft.layers.transforms.level import Level
from weft.support.errors import ArgumentError, StateError, ValueProblem
from weft.tensor.modes import modes, refuse_in_trace
from weft.tensor.tensor import Tensor, check_tensor


class _Local(threading.local):
    """The level that is open on a thread."""

    level: ForwardADLevel | None = None


_local = _Local()


class UnpackedDualTensor(NamedTuple):
    """The parts of a dual tensor; tangent is None where there is none."""

    primal: Any
    tangent: Any


def enter_dual_level() -> int:
    """Open a level and return its number. Raises StateError when one is open: forward levels by hand do not nest
    (use weft.func.jvp)."""
    if _local.level is not None:
        raise StateError("Nested forward mode AD is not supported at the moment")
    level = ForwardADLevel()
    refuse_in_trace("forward-mode levels are no part of a trace; use weft.func.jvp")
    level.__enter__()
    _local.level = level
    return 0


def exit_dual_level(*, level: int | None = None) -> None:
    """Close the level: dual tensors of it are plain tensors from then on. Raises StateError when none is open."""
    if _local.level is None:
        raise StateError("Trying to exit a forward AD level but no level is currently active.")
    if level not in (None, 0):
        raise StateError(f"Trying to exit a forward AD level that was not the last one that was created: level {level}")
    _local.level.__exit__()
    _local.level = None


class dual_level:
    """A block in which dual tensors can be made."""

    def __enter__(self) -> int:
        return enter_dual_level()

    def __exit__(self, *error: Any) -> None:
        exit_dual_level()


def make_dual(tensor: Tensor, tangent: Tensor, *, level: int | None = None) -> Tensor:
    """A tensor with the value of `tensor` and this tangent, of the same shape and dtype.
    Raises StateError outside of dual_level()."""
    current = _current("make_dual", level)
    check_tensor(tensor, "make_dual(): tensor")
    check_tensor(tangent, "make_dual(): tangent")
    if not tensor.dtype.is_differentiable:
        raise ValueProblem(f"Expected primal to be floating point or complex, but got: {tensor.dtype}")
    if not tangent.dtype.is_differentiable:
        raise ValueProblem(f"Expected tangent to be floating point or complex, but got: {tangent.dtype}")
    if tangent.dtype is not tensor.dtype:
        raise ArgumentError(
            f"Expected tangent to have the dtype of its primal, {tensor.dtype}, but got: {tangent.dtype}"
        )
    if len(tensor.dims) != len(tangent.dims) or tensor.shape != tangent.shape:
        raise StateError(
            "Trying to set a forward gradient that has a different size than that of the original Tensor, "
            f"this is not supported. Tensor is of size {list(tensor.dims)} while the given forward gradient is of size "
            f"{list(tangent.dims)}."
        )
    if current.owns(tangent):
        raise StateError("Cannot set a forward grad that itself has a forward gradient at the same level.")
    if current.owns(tensor) and current.tangent_of(tensor) is not None:
        raise StateError("Cannot make a dual tensor of a tensor that has a tangent at this level already")
    return current.dual(tensor, tangent)


def unpack_dual(tensor: Tensor, *, level: int | None = None) -> UnpackedDualTensor:
    """(primal, tangent) of a dual tensor; the tangent is None for any other, and when no level is open."""
    current = _local.level
    if current is None or not current.owns(tensor):
        return UnpackedDualTensor(tensor, None)
    stack = modes.special or ()
    if stack[-1:] != (current,):
        raise StateError(
            f"unpack_dual: another transform ({_name(stack[-1])}) runs inside of the dual level; unpack outside of it"
        )
    return UnpackedDualTensor(*current.parts(tensor))


def _name(level: Any) -> str:
    return level.name if isinstance(level, Level) else type(level).__name__


def _current(name: str, level: int | None) -> ForwardADLevel:
    if _local.level is None:
        raise StateError(
            "Trying to create a dual Tensor for forward AD but no level exists, make sure to enter_dual_level() first "
            f"({name} within `with dual_level():`)."
        )
    if level not in (None, 0):
        raise StateError(f"{name}: there is one forward AD level, number 0; got level={level}")
    return _local.level


__all__ = ["UnpackedDualTensor", "dual_level", "enter_dual_level", "exit_dual_level", "make_dual", "unpack_dual"]

"""Conditions that programs state with PyTorch's private names: `_check`, `_assert` and their kin."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from weft.support.errors import (
    ArgumentError,
    IndexBoundsError,
    StateError,
    Unsupported,
    ValueProblem,
    WeftError,
)
from weft.tensor.tensor import Tensor

__all__ = [
    "_assert", "_assert_async", "_check", "_check_index", "_check_is_size", "_check_not_implemented",
    "_check_tensor_all", "_check_type", "_check_value", "_check_with",
]
Message = Callable[[], Any] | None


def _assert(condition: Any, message: Any = "") -> None:
    """Python's assert, as a function. Raises AssertionError."""
    assert condition, message


def _raise(error: type[Exception], condition: Any, message: Any) -> None:
    if not isinstance(condition, (bool, int)) and not hasattr(condition, "__bool__"):
        raise ArgumentError(f"cond must be a bool, but got {type(condition)}")
    if isinstance(condition, Tensor):
        raise ArgumentError("cond must be a bool, but got a tensor; _check_tensor_all takes one")
    if condition:
        return
    if message is None:
        raise error("Expected cond to be True, but got False.")
    if not callable(message):
        raise ArgumentError("message must be a callable")
    raise error(str(message()))


def _check(cond: Any, message: Message = None) -> None:
    """Raises StateError, with what `message()` gives, if cond is false."""
    _raise(StateError, cond, message)


def _check_index(cond: Any, message: Message = None) -> None:
    """Raises IndexBoundsError if cond is false."""
    _raise(IndexBoundsError, cond, message)


def _check_value(cond: Any, message: Message = None) -> None:
    """Raises ValueProblem if cond is false."""
    _raise(ValueProblem, cond, message)


def _check_type(cond: Any, message: Message = None) -> None:
    """Raises ArgumentError if cond is false."""
    _raise(ArgumentError, cond, message)


def _check_not_implemented(cond: Any, message: Message = None) -> None:
    """Raises Unsupported if cond is false."""
    _raise(Unsupported, cond, message)


def _check_is_size(i: Any, message: Message = None, *, max: Any = None) -> None:
    """Raises StateError if a number is no size: negative, or above max."""
    _raise(StateError, i >= 0 and (max is None or i <= max), message)


def _check_with(error_type: type[Exception], cond: Any, message: Message = None) -> None:
    """Raises error_type if cond is false; WeftError's kind of it where it has one."""
    kinds = (StateError, IndexBoundsError, ValueProblem, ArgumentError, Unsupported)
    own: type[Exception] = next((k for k in kinds if error_type in k.__bases__), error_type)
    _raise(error_type if issubclass(error_type, WeftError) else own, cond, message)


def _check_tensor_all(cond: Any, message: Message = None) -> None:
    """Raises StateError if an element of a tensor is false."""
    if not isinstance(cond, Tensor):
        raise ArgumentError(f"cond must be a tensor, but got {type(cond)}")
    _raise(StateError, bool(cond.all()), message)


def _assert_async(input: Tensor, assert_msg: str = "Expected Tensor with single nonzero value, but got zero") -> None:
    """Raises StateError if the one element of a tensor is zero. weft does not put it off."""
    if not bool(input):
        raise StateError(assert_msg)

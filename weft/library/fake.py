"""Types of a user's operator: its fake implementation, run on tensors that stand for nothing but types."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from weft.compile.capture.capture import Capture
from weft.compile.numbers.sym_float import SymFloat
from weft.ir.builder import NumberStandIn
from weft.support import pytree
from weft.support.errors import CaptureError, StateError
from weft.tensor.modes import by_itself, modes
from weft.tensor.tensor import Tensor
from weft.types import shape_env
from weft.types.dims import Expr
from weft.types.shape_env import ShapeEnv
from weft.types.sym import SymInt
from weft.types.tensor_type import FLOAT, TensorType


class FakeContext:
    """What a fake implementation may ask for (`weft.library.get_ctx()`)."""

    def __init__(self, env: ShapeEnv) -> None:
        self.env = env

    def new_dynamic_size(self, *, min: int = 0, max: int | None = None) -> Any:
        """A size that hangs on the values of the arguments: known when the operator has run."""
        return SymInt(self.env.unbacked(at_most=max), self.env)


class _Running(threading.local):
    context: FakeContext | None = None


_running = _Running()


def get_ctx() -> FakeContext:
    """The context of the fake implementation that runs. Raises StateError outside of one."""
    if _running.context is None:
        raise StateError("get_ctx() can only be called inside of a fake implementation (register_fake)")
    return _running.context


def fake_types(function: Callable[..., Any], args: tuple[Any, ...]) -> Any:
    """What `function` gives for arguments with types in place of tensors, with types in place of tensors again.

    It runs on symbolic tensors in a capture of its own, which nobody keeps; what it asks about sizes is asked of
    the symbols of whoever wants to know.
    """
    env = shape_env.current_env() or ShapeEnv()
    capture, outer = Capture("fake", env), _running.context
    with by_itself(), shape_env.using(env):
        modes.capture, _running.context = capture, FakeContext(env)
        try:
            out = function(*[_stand_in(capture, a) for a in args])
            return pytree.map_leaves(lambda v: v.type_ if isinstance(v, Tensor) else v, out)
        finally:
            _running.context = outer
            capture.restore()


def _stand_in(capture: Capture, value: Any) -> Any:
    if isinstance(value, TensorType):
        return capture.tensors.fresh(capture.recorder.builder.param(value, "x"))
    if type(value) in (tuple, list):
        return [_stand_in(capture, v) for v in value]
    if isinstance(value, NumberStandIn):
        return SymFloat(capture.recorder.builder.param(FLOAT, "k"), capture, _unknown)
    return SymInt(value, capture.env) if isinstance(value, Expr) else value


def _unknown(values: Any) -> Any:
    raise CaptureError(
        "a fake implementation asks for the value of a number that is an input of the program; types may hang on "
        "dtypes and sizes alone"
    )

"""What a function gives for types: it runs on symbolic tensors in a capture of its own, which nobody keeps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from weft.ir.builder import NumberStandIn
from weft.record.capture import Capture
from weft.record.numbers.sym_float import SymFloat
from weft.support import pytree
from weft.support.errors import CaptureError
from weft.tensor.modes import by_itself, modes
from weft.tensor.tensor import Tensor
from weft.types import shape_env
from weft.types.dims import Expr
from weft.types.shape_env import ShapeEnv
from weft.types.sym import SymInt
from weft.types.tensor_type import FLOAT, TensorType


def run_on_types(function: Callable[..., Any], args: tuple[Any, ...], env: ShapeEnv) -> Any:
    """What `function` gives for arguments with types in place of tensors, with types in place of tensors again. What
    it asks about sizes is asked of `env`."""
    capture = Capture("fake", env)
    with by_itself(), shape_env.using(env):
        modes.capture = capture
        try:
            out = function(*[_stand_in(capture, a) for a in args])
            return pytree.map_leaves(lambda v: v.type_ if isinstance(v, Tensor) else v, out)
        finally:
            capture.restore()


def _stand_in(capture: Capture, value: Any) -> Any:
    if isinstance(value, TensorType):
        return capture.tensors.fresh(capture.recorder.builder.param(value, "x"))
    if type(value) in (tuple, list):
        return [_stand_in(capture, v) for v in value]
    if isinstance(value, NumberStandIn):
        return SymFloat(capture.recorder.builder.param(FLOAT, "k"), capture.python_state, _unknown)
    return SymInt(value, capture.env) if isinstance(value, Expr) else value


def _unknown(values: Any) -> Any:
    raise CaptureError(
        "a fake implementation asks for the value of a number that is an input of the program; types may hang on "
        "dtypes and sizes alone"
    )

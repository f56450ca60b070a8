"""The prim:: entries that give graphs their structure: constants, If, Loop;
and the type of a view from its geometry."""

from __future__ import annotations

from typing import Any

import numpy as np

from weft.ops.geometry import Geometry, contiguous, within
from weft.ops.op import NOT_DIFFERENTIABLE, Op, define
from weft.support import errors
from weft.support.errors import StateError, ValueChanged, WeftError
from weft.types import dims as dm
from weft.types import dtype as dt
from weft.types import shape_env
from weft.types.dtype import DType
from weft.types.tensor_type import TensorType, Type, tensor_type


def view_type(op: Op, types: tuple[Any, ...]) -> Any:
    """The type of a view's result(s): the geometry rule applied to a contiguous source."""
    source = types[0]
    assert op.view is not None and isinstance(source, TensorType), (op, types)
    shape = op.view.geometry(contiguous(source.shape), *types[1:])
    if op.view.is_free and shape_env.current_env() is not None:  # in a program, where a value is all of its memory
        within(shape, dm.product(source.shape))
    if isinstance(shape, tuple):
        return tuple(_like(source, g) for g in shape)
    return _like(source, shape)


def _like(source: TensorType, g: Geometry) -> TensorType:
    return tensor_type(source.dtype, g.dims, source.device)


def _constant(values: tuple[Any, ...], dims: tuple[int, ...], dtype: DType) -> np.ndarray[Any, Any]:
    return np.array(values, dtype.numpy).reshape(dims)


CONSTANT = define(
    "prim::constant(Object values, int[] dims, ScalarType dtype) -> Tensor",
    "A tensor whose values (flat, row-major) stand in the program.",
    type=lambda values, dims, dtype: tensor_type(dtype, tuple(dims)),
    kernel=_constant,
    fill=lambda values, dims, dtype: values[0] if len(values) == 1 else None,
    vjp=NOT_DIFFERENTIABLE,
    public=(),
)


_ERRORS: dict[str, type[Exception]] = {
    "ZeroDivisionError": ZeroDivisionError,
    **{name: kind for name, kind in vars(errors).items() if isinstance(kind, type) and issubclass(kind, WeftError)},
}


def _refuse(value: int, relation: str, error: str, text: str) -> np.ndarray[Any, Any]:
    if value == 0 if relation == "==" else value < 0:
        raise _ERRORS[error](text)
    return np.array(True)


REFUSE = define(
    "prim::refuse(int value, str relation, str error, str text) -> Tensor",
    "True; where `value == 0` (or `value < 0`, as `relation` says) the error of this class and text. "
    "What a rule demands of sizes that the program finds while it runs.",
    type=lambda value, relation, error, text: tensor_type(dt.bool_, ()),
    kernel=_refuse,
    vjp=NOT_DIFFERENTIABLE,
    effect="raises",
    public=(),
)


def _changed(condition: Any, answer: bool) -> ValueChanged:
    return ValueChanged(f"a value that Python has asked for is not {answer} any more")


def _expect(condition: Any, answer: bool) -> np.ndarray[Any, Any]:
    if bool(condition) is not answer:
        raise _changed(condition, answer)
    return np.array(True)


EXPECT = define(
    "prim::expect(Object condition, bool answer) -> Tensor",
    "True; where the condition (a bool or a 0-dim bool tensor) is another one than `answer`, ValueChanged is raised, "
    "before any state is written: Python has asked for it, and what follows is the program for that answer.",
    type=lambda condition, answer: tensor_type(dt.bool_, ()),
    kernel=_expect,
    failure=_changed,
    vjp=NOT_DIFFERENTIABLE,
    effect="raises",
    public=(),
)


def _needs_blocks(*args: Any) -> Any:
    raise StateError("prim::If and prim::Loop are run by an interpreter of graphs, not called")


def _types_are_given(*args: Any) -> tuple[Type, ...]:
    raise StateError("the result types of prim::If and prim::Loop come from their blocks; use the builder's emit_raw")


IF = define(
    "prim::If(Object condition) -> Object[]",
    "Runs its first block when the condition (a bool or a 0-dim bool tensor) holds, else its second; "
    "yields that block's results.",
    type=_types_are_given,
    kernel=_needs_blocks,
    vjp=NOT_DIFFERENTIABLE,
    public=(),
)

ENDLESS = 2**62  # trip count of a loop that only its condition stops
LOOP = define(
    "prim::Loop(Object trip, Object condition, Object[] carried, Object[] xs, bool reverse=False) -> Object[]",
    "Runs its block up to `trip` times while the condition holds. Block parameters: the index, the carried values, "
    "one slice of each xs. Block results: the next condition, the next carried values, one slice of each ys. Results: "
    "carried values, stacked ys.",
    type=_types_are_given,
    kernel=_needs_blocks,
    vjp=NOT_DIFFERENTIABLE,
    public=(),
)

TABLE = define(
    "prim::table(Tensor[] values) -> Tensor",
    "Tensors of one type as the rows of one. Where loops alone go over it, it is no memory but a table of addresses: "
    "each iteration reads its row where that lies.",
    type=lambda values: values[0].stacked(len(values)),
    kernel=lambda values: np.stack(values),
    vjp=NOT_DIFFERENTIABLE,
    public=(),
)

ROWS = define(
    "prim::rows(Tensor self) -> Tensor[]",
    "The rows of what a loop has stacked, each a tensor of its own. Where nobody else reads that, the loop writes each "
    "row where it is to lie, by a table of addresses.",
    type=lambda self: (self.row,) * self.shape[0],
    kernel=lambda self: tuple([self[i, ...].copy() for i in range(len(self))]),
    vjp=NOT_DIFFERENTIABLE,
    public=(),
)


def _steps_type(count: Type) -> TensorType:
    env = shape_env.current_env()
    return tensor_type(dt.bool_, (None if env is None else env.unbacked(), 0))


STEPS = define(
    "prim::steps(Object count) -> Tensor",
    "A tensor without elements that has as many rows as `count` says, a 0-dim tensor (how many steps a loop makes) or "
    "a number that the program computes. What is sized by it waits for it.",
    type=_steps_type,
    kernel=lambda count: np.empty((max(int(count), 0), 0), np.bool_),
    unbacked_from=lambda count: (count,),
    vjp=NOT_DIFFERENTIABLE,
    dynamic_output_shape=True,
    public=(),
)


GRADIENTS_OF = define(
    "prim::gradients_of(Object[] grads, Object[] inputs, bool[] needs) -> Object[]",
    "Gradients of the inputs that are wanted, for those of the results of its block, which runs again on the inputs; "
    "of a list, a list of gradients.",
    type=_types_are_given,
    kernel=_needs_blocks,
    vjp=NOT_DIFFERENTIABLE,
    public=(),
)


def _group(name: str, doc: str) -> Op:
    return define(
        f"prim::{name}() -> Object[]",
        doc,
        type=_types_are_given,
        kernel=_needs_blocks,
        vjp=NOT_DIFFERENTIABLE,
        public=(),
    )


GROUPS = (
    _group("DifferentiableGraph", "A region that is differentiated, and compiled, as a whole: its only block."),
    _group("CompiledGroup", "A region that is compiled as a whole: its only block."),
    _group("FusionGroup", "Operators element by element that become one kernel: its only block."),
)
WHOLE = (*GROUPS, GRADIENTS_OF)  # whose block is run once, for all that it gives


TRANSFORM = define(
    "prim::Transform(str name, str form, Object[] args) -> Object[]",
    "What a function of functions (weft.func.grad, weft.func.vmap, ...) gives for its block as a function, and these "
    "arguments. `form` says in JSON how the values lie in arguments and results.",
    type=_types_are_given,
    kernel=_needs_blocks,
    vjp=NOT_DIFFERENTIABLE,
    effect="python",
    public=(),
)
WITH_BACKWARD = define(
    "prim::WithBackward(str form, Object[] inputs, Object[] outputs) -> Object[]",
    "The outputs, whose gradients reach the inputs by the block: from gradients of the outputs to those of inputs.",
    type=_types_are_given,
    kernel=_needs_blocks,
    vjp=NOT_DIFFERENTIABLE,
    effect="python",
    public=(),
)
HOOK = define(
    "prim::Hook(Tensor self) -> Object[]",
    "Its block becomes a hook of the tensor: from a gradient to what takes its place, or to nothing.",
    type=_types_are_given,
    kernel=_needs_blocks,
    vjp=NOT_DIFFERENTIABLE,
    effect="python",
    public=(),
)
LATER = (TRANSFORM, WITH_BACKWARD, HOOK)  # whose block is a function, called by others
